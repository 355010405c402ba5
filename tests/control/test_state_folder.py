"""The folder of the state."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import state_folder
from omnigate.control.state_folder import StateFolderError, check_writable, claim_folder


class FolderTests(SynchronousTestCase):
    """There, writable, and held once."""

    def test_made_if_need_be(self) -> None:
        """A folder that is not there is made for this user alone, and nothing is left in it."""
        path = os.path.join(self.mktemp(), "state")
        held = claim_folder(path)
        self.addCleanup(os.close, held)
        self.assertEqual((os.stat(path).st_mode & 0o777, os.listdir(path)), (0o700, []))

    def test_held_once(self) -> None:
        """A second control plane is refused the folder until the first one is gone."""
        path = self.mktemp()
        held = claim_folder(path)
        self.assertIn(
            "another control plane", str(self.assertRaises(StateFolderError, claim_folder, path))
        )
        os.close(held)
        os.close(claim_folder(path))

    def test_not_to_be_held(self) -> None:
        """Whatever the system says, it is told as what it is, and no descriptor is left."""
        path = self.mktemp()
        os.close(claim_folder(path))
        before = len(os.listdir("/proc/self/fd"))

        def refused(number: int) -> Callable[..., int]:
            def call(*_: object, **__: object) -> int:
                raise OSError(number, os.strerror(number))

            return call

        for number in (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.EIO):
            patched = self.patch(fcntl, "flock", refused(number))
            text = str(self.assertRaises(StateFolderError, claim_folder, path))
            self.assertIn(f"cannot be locked ({os.strerror(number)})", text)
            self.assertNotIn("another control plane", text)
            patched.restore()
        self.patch(state_folder, "check_writable", lambda path: None)
        for number in (errno.EACCES, errno.EMFILE):
            patched = self.patch(os, "open", refused(number))
            text = str(self.assertRaises(StateFolderError, claim_folder, path))
            self.assertIn(f"cannot be read ({os.strerror(number)})", text)
            patched.restore()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_not_a_folder(self) -> None:
        """What cannot be written names itself and the remedy."""
        path = self.mktemp()
        with open(path, "wb"):
            pass
        for wrong in (path, os.path.join(path, "state"), "/proc/omnigate"):
            text = str(self.assertRaises(StateFolderError, check_writable, wrong))
            self.assertIn(wrong, text)
            self.assertIn("OMNIGATE_STATE_DIR", text)
            text = str(self.assertRaises(StateFolderError, check_writable, wrong, "OTHER"))
            self.assertIn("name another folder in OTHER", text)

"""Words to the service manager."""

import os
import shutil
import socket
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from omnigate.systemd_notify import READY, notify, watchdog_interval


class NotifyTests(SynchronousTestCase):
    def listening(self, address: str) -> socket.socket:
        """Return a manager's socket at ``address``."""
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(address)
        manager.setblocking(False)
        return manager

    def socket_path(self) -> str:
        """Return a path short enough for a socket."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        return os.path.join(folder, "notify")

    def test_a_path(self) -> None:
        """The message arrives as one datagram."""
        path = self.socket_path()
        manager = self.listening(path)
        self.assertTrue(notify(READY + "\nSTATUS=größe", {"NOTIFY_SOCKET": path}))
        self.assertEqual(manager.recv(100), "READY=1\nSTATUS=größe".encode())

    def test_an_abstract_name(self) -> None:
        """A leading @ stands for a name that is no file."""
        name = f"omnigate-test-{os.getpid()}"
        manager = self.listening("\0" + name)
        self.assertTrue(notify(READY, {"NOTIFY_SOCKET": "@" + name}))
        self.assertEqual(manager.recv(100), b"READY=1")

    def test_without_a_manager_nothing_is_sent(self) -> None:
        """An absent, empty or foreign address is passed over."""
        self.assertFalse(notify(READY, {}))
        self.assertFalse(notify(READY, {"NOTIFY_SOCKET": ""}))
        self.assertFalse(notify(READY, {"NOTIFY_SOCKET": "vsock:2:1234"}))

    def test_it_never_fails(self) -> None:
        """A socket that is gone, a name too long, a zero byte: no daemon stops over them."""
        for address in ("/nowhere/at/all", "/" + "x" * 300, "/a\0b"):
            self.assertFalse(notify(READY, {"NOTIFY_SOCKET": address}))

    def test_a_manager_that_does_not_read_holds_nobody(self) -> None:
        """When its queue is full the word is dropped."""
        path = self.socket_path()
        self.listening(path)
        sent = [notify(READY, {"NOTIFY_SOCKET": path}) for _ in range(5000)]
        self.assertTrue(sent[0])
        self.assertFalse(sent[-1])


class WatchdogTests(SynchronousTestCase):
    def test_half_of_what_is_allowed(self) -> None:
        """With 30 seconds allowed, a sign of life is due every 15."""
        self.assertEqual(watchdog_interval({"WATCHDOG_USEC": "30000000"}), 15.0)

    def test_another_process_is_meant(self) -> None:
        """A watchdog of the parent is not ours."""
        environ = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "12"}
        self.assertIsNone(watchdog_interval(environ, pid=13))
        self.assertEqual(watchdog_interval(environ, pid=12), 15.0)
        environ["WATCHDOG_PID"] = str(os.getpid())
        self.assertEqual(watchdog_interval(environ), 15.0)

    def test_no_watchdog(self) -> None:
        """Without a sound number there is none."""
        for value in ("", "0", "-5", "x", "1e6", "٣", "9" * 30):
            self.assertIsNone(watchdog_interval({"WATCHDOG_USEC": value}), value)
        self.assertIsNone(watchdog_interval({}))

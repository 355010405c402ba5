"""The folder of the control plane's state: there, writable, and of one control plane only."""

from __future__ import annotations

import fcntl
import os
import tempfile


class StateFolderError(Exception):
    """The folder cannot be used; the text names it and the remedy."""


def claim_folder(path: str) -> int:
    """Make sure of the folder, and hold it for this process until it ends.

    The lock is on the folder itself, so it leaves no file behind and a crash leaves no lock.

    :return: the descriptor that holds the lock.
    :raises StateFolderError: it cannot be made, written or held.
    """
    check_writable(path)
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateFolderError(
            f"{path}: the state folder cannot be read ({error.strerror}); let this user read it, "
            "or name another folder in OMNIGATE_STATE_DIR or --state-dir"
        ) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise StateFolderError(
            f"{path}: another control plane keeps its state there; stop it, or give this one a "
            "folder of its own in OMNIGATE_STATE_DIR or --state-dir"
        ) from None
    except OSError as error:
        # Some network file systems have no locks, or none for folders.
        os.close(held)
        raise StateFolderError(
            f"{path}: the state folder cannot be locked ({error.strerror}); name a folder on a "
            "disk of this machine in OMNIGATE_STATE_DIR or --state-dir"
        ) from None
    return held


def check_writable(path: str, named: str = "OMNIGATE_STATE_DIR or --state-dir") -> None:
    """Make the folder if it is not there, and try to write in it.

    :param named: where another folder can be named.
    :raises StateFolderError: it cannot be made or written.
    """
    remedy = f"let this user write it, or name another folder in {named}"
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StateFolderError(
            f"{path}: the state folder cannot be made ({error.strerror}); make it and {remedy}"
        ) from None
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise StateFolderError(
            f"{path}: the state folder cannot be written ({error.strerror}); {remedy}"
        ) from None

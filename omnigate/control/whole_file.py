"""A file that is replaced whole and says the same as a store's memory, or is known not to."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

from omnigate.files import read_file, replace_file


class FileInDoubtError(Exception):
    """A replacement was refused, shows all the same, and could not be undone.

    What the file holds is known only to whoever reads it anew.
    """


def replace_or_undo(path: str, new: bytes, old: bytes) -> None:
    """Replace a file's content, or leave it as it is; blocks for two syncs and more.

    Where only the sync of the folder was refused, the new file stands there, and a start would take
    it, although nobody was told that anything was changed. So the old one is put back.

    :raises OSError: it could not be done, and the file is as it was.
    :raises FileInDoubtError: it could not be done, and neither undone.
    """
    try:
        replace_file(path, new)
    except OSError as error:
        try:
            if read_file(path, len(new)) == new:
                # Refused or not, what counts is what stands there afterwards.
                with contextlib.suppress(OSError):
                    replace_file(path, old)
                undone = read_file(path, max(len(old), len(new))) == old
            else:
                undone = True
        except OSError as second:
            # Longer than the new one, so it is the old one.
            undone = second.errno == errno.EFBIG
        if undone:
            raise
        raise FileInDoubtError(f"{path}: {error.strerror}; it was replaced all the same") from error


def read_whole(
    path: str, max_bytes: int, remedy: str, fault: Callable[[str], Exception]
) -> bytes | None:
    """Return a file's content, ``None`` where there is none; it blocks.

    :param remedy: what to do about a file that is too long.
    :param fault: makes what is raised where it cannot be read.
    """
    try:
        return read_file(path, max_bytes)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise fault(f"{path}: {error.strerror}; {remedy}") from None
        raise fault(
            f"{path}: cannot be read ({error.strerror}); let this process read it"
        ) from None

"""URLs of files that work without a key, for a while: signed with a secret of the gateway's own.

The secret is a file of its own and not the admin token: that one may be changed at any time, which
would end all URLs that were handed out; and whoever has a URL could try guesses of a short token
on it at leisure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from omnigate.files import read_file, replace_file

#: The secret of signatures, in the state folder: so many random bytes.
KEY_FILE: Final = "files.key"
KEY_BYTES: Final = 32

#: What every text that is signed begins with, so that a signature is good for nothing else.
_PURPOSE = b"omnigate file v1\n"

_EXPIRES = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)


class FilesKeyError(Exception):
    """The secret cannot be had; the message names the file and the remedy."""


def load_files_key(folder: str) -> bytes:
    """Return the secret of a state folder, made at the first start; blocks for the disk.

    :raises FilesKeyError: the file cannot be read, written, or is none.
    """
    path = os.path.join(folder, KEY_FILE)
    try:
        found = read_file(path, KEY_BYTES + 1)
        if found is None:
            found = os.urandom(KEY_BYTES)
            replace_file(path, found)
    except OSError as error:
        raise FilesKeyError(
            f"{path}: {error.strerror}; let this process read and write it"
        ) from None
    if len(found) != KEY_BYTES:
        raise FilesKeyError(
            f"{path} has not {KEY_BYTES} bytes; put it back from a backup, or remove it, which "
            "ends all signed URLs"
        )
    return found


@attrs.frozen
class FileSigner:
    """Signs the paths of files, and tells its own signatures from others.

    :ivar secret: :data:`KEY_BYTES` random bytes.
    """

    secret: bytes = attrs.field(repr=False)
    # What all texts begin with is hashed already: a page of jobs has thousands of URLs.
    _begun: hmac.HMAC = attrs.field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(
            lambda self: hmac.new(self.secret, _PURPOSE, hashlib.sha256), takes_self=True
        ),
    )

    def signature(self, job_id: str, n: int, expires: int) -> str:
        """Return what goes with a file and the time in seconds since 1970 when it ends."""
        signing = self._begun.copy()
        signing.update(b"%s\n%d\n%d" % (job_id.encode(), n, expires))
        return base64.urlsafe_b64encode(signing.digest()).decode("ascii").rstrip("=")

    def query(self, job_id: str, n: int, expires: int) -> str:
        """Return the query that opens a file: ``expires=…&signature=…``."""
        return f"expires={expires}&signature={self.signature(job_id, n, expires)}"

    def opens(self, job_id: str, n: int, expires: str, signature: str, now: float) -> bool:
        """Whether a query opens a file now; there is one spelling of each that does."""
        if not _EXPIRES.fullmatch(expires) or int(expires) <= now:
            return False
        expected = self.signature(job_id, n, int(expires))
        return hmac.compare_digest(expected.encode(), signature.encode())

    def sign(self, path: str, expires: int) -> str:
        """Return the path of a file, ``/v1/files/JOB/N``, with the query that opens it."""
        job_id, n = path.split("/")[-2:]
        return f"{path}?{self.query(job_id, int(n), expires)}"

    def until(self, expires: int) -> Callable[[str], str]:
        """Return what signs paths up to that time."""
        return partial(self.sign, expires=expires)

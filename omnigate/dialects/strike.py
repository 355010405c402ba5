"""Striking the upstream's credential out of what is relayed, in whole data and in pieces.

Providers quote the credential in error texts, and a client can ask a model or a proxy to say what
it was sent. Credentials are visible ASCII, so it is enough to look for the bytes.
"""

from omnigate.text import MIN_SECRET_CHARS, REDACTED

STRUCK_OUT = REDACTED.encode()
"""What stands where a credential stood."""

#: How much of a long text is looked through in one turn of the reactor: a search takes 3 ms a
#: megabyte, and one full of credentials 15.
STEP_BYTES = 1024 * 1024


def strike(data: bytes, secret: bytes) -> bytes:
    """Return ``data`` with the upstream's credential struck out of it.

    :param secret: the credential; one too short to be one (see
        :data:`omnigate.text.MIN_SECRET_CHARS`) is left alone, for it would be found in any text.
    """
    if len(secret) < MIN_SECRET_CHARS or data.find(secret) < 0:  # twice as fast as ``in``
        return data
    return data.replace(secret, STRUCK_OUT)


class LongStriker:
    """Strikes a credential out of a long text, step by step, so that no step is a long one.

    Nothing is copied where it is not found.
    """

    __slots__ = ("_at", "_data", "_pieces", "_secret", "_striker")

    def __init__(self, data: bytes, secret: bytes) -> None:
        """Make a striker for one text.

        :param secret: as for :func:`strike`.
        """
        self._data = data
        self._secret = secret if len(secret) >= MIN_SECRET_CHARS else b""
        self._at = 0
        self._striker: PieceStriker | None = None
        self._pieces: list[bytes] = []

    def step(self) -> bool:
        """Look through the next :data:`STEP_BYTES`; ``False`` where nothing is left to look at."""
        data, secret, at = self._data, self._secret, self._at
        if not secret:
            return False
        end = self._at = at + STEP_BYTES
        if self._striker is None and data.find(secret, at, end + len(secret) - 1) >= 0:
            # It begins here, for it would have been found before: one that begins in a step and
            # ends in the next is.
            self._striker = PieceStriker(secret)
            self._pieces.append(data[:at])
        if self._striker is not None:
            self._pieces.append(self._striker.feed(data[at:end]))
        return end < len(data)

    def end(self) -> bytes:
        """Return the text without the credential, once all of it was looked through."""
        if self._striker is None:
            return self._data
        return b"".join((*self._pieces, self._striker.end()))


class PieceStriker:
    """Strikes a credential out of data that comes in pieces, wherever it is cut.

    The last bytes of a piece are held back where the credential might begin in them, so at most its
    length less one.
    """

    __slots__ = ("_held", "_secret")

    def __init__(self, secret: bytes) -> None:
        """Make a striker for one body.

        :param secret: as for :func:`strike`.
        """
        self._secret = secret if len(secret) >= MIN_SECRET_CHARS else b""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what can be passed on."""
        if not self._secret:
            return data
        if self._held:
            data = self._held + data
        # All up to the last whole credential is settled: one that is cut at the end of the data can
        # only begin behind it. Found from the left, as ``replace`` does, so that a credential which
        # overlaps itself is seen alike however the data is cut.
        settled = 0
        while (found := data.find(self._secret, settled)) >= 0:
            settled = found + len(self._secret)
        keep = self._beginning_at_end(data, settled)
        self._held = data[len(data) - keep :] if keep else b""
        passed = data[: len(data) - keep]
        return strike(passed, self._secret) if settled else passed

    def end(self) -> bytes:
        """Return what was held back: the data has ended, so no credential can follow."""
        held, self._held = self._held, b""
        return held

    def _beginning_at_end(self, data: bytes, settled: int) -> int:
        """Return how many bytes at the end of ``data`` may be the beginning of the credential."""
        start = max(settled, len(data) - len(self._secret) + 1)
        first = self._secret[:1]
        while (start := data.find(first, start)) >= 0:
            if self._secret.startswith(data[start:]):
                return len(data) - start
            start += 1
        return 0

"""Sessions of the dashboard: a signed cookie that says who has signed in and when.

No session is kept anywhere. The cookie names a credential by its hash, and is signed with a key
that is derived from the admin token: another admin token ends every session. Whether the
credential still opens anything is judged anew at each request. Only of the sessions that somebody
has signed out of is there a list, in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from functools import lru_cache
from typing import Final

import attrs

#: A working day and the night behind it; then one signs in again.
MAX_AGE_MS: Final = 24 * 3600 * 1000

#: Whoever has left the desk for this long signs in again.
MAX_IDLE_MS: Final = 3600 * 1000

#: A cookie is written anew this long after the last time, so not with every answer.
RENEW_MS: Final = 60 * 1000

#: How far in the future a cookie may begin: clocks are set.
_SKEW_MS: Final = 60 * 1000

#: Sessions that were signed out of and would not be over yet; 200 bytes each. Nobody makes one
#: who has not signed in. Beyond it the first of them is forgotten, and its cookie, should somebody
#: have kept it, opens the pages again until it is over.
MAX_LEFT: Final = 10_000

#: What it takes to try one admin token on a cookie: 16 MiB and 50 ms (scrypt, RFC 7914). Whoever
#: has a cookie of their own, of a read-only key too, may try tokens on it at home.
_SCRYPT_N: Final = 2**14
_SCRYPT_R: Final = 8

_TEXT: Final = re.compile(
    r"1\.(-|[0-9a-f]{64})\.([0-9]{1,15})\.([0-9]{1,15})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII
)


@attrs.frozen
class Ticket:
    """What a cookie says.

    :ivar shown: the hash of the admin key's secret that was shown; empty for the admin token.
    :ivar began_ms: when its owner signed in, in milliseconds since 1970.
    :ivar seen_ms: when its owner was last here.
    :ivar nonce: what makes it differ from any other.
    """

    shown: str
    began_ms: int
    seen_ms: int
    nonce: str

    @property
    def ends_ms(self) -> int:
        """When it is over if its owner does nothing."""
        return min(self.began_ms + MAX_AGE_MS, self.seen_ms + MAX_IDLE_MS)


@attrs.frozen
class Session:
    """Somebody who has signed in, as of one request.

    :ivar actor: as the audit log names them.
    :ivar may_write: whether they may change anything.
    :ivar form_token: what every form of theirs must carry.
    """

    ticket: Ticket
    actor: str
    may_write: bool
    form_token: str = attrs.field(repr=False)


class SessionKeys:
    """Seals tickets and opens them again.

    :param admin_token: what both keys are derived from.
    :ivar mark: tells control planes with different tokens apart; eight hexadecimal digits.
    """

    def __init__(self, admin_token: str) -> None:
        key = _stretched(hashlib.sha256(admin_token.encode()).digest())
        self._cookie = hmac.digest(key, b"omnigate: session cookies, 1", "sha256")
        self._form = hmac.digest(key, b"omnigate: form tokens, 1", "sha256")
        self.mark: Final = hmac.digest(key, b"omnigate: mark, 1", "sha256").hex()[:8]
        self._left: dict[str, int] = {}  # when it would be over, by nonce; the first to go first

    @property
    def left(self) -> int:
        """How many sessions were signed out of that would not be over yet."""
        return len(self._left)

    def begin(self, shown: str, now_ms: int) -> Ticket:
        """Return the ticket of somebody who has just signed in."""
        return Ticket(shown, now_ms, now_ms, secrets.token_hex(16))

    def renew(self, ticket: Ticket, now_ms: int) -> Ticket | None:
        """Return the ticket of somebody who is here again; ``None`` where the old one will do."""
        return attrs.evolve(ticket, seen_ms=now_ms) if now_ms - ticket.seen_ms >= RENEW_MS else None

    def seal(self, ticket: Ticket) -> str:
        """Return the cookie of a ticket."""
        text = f"1.{ticket.shown or '-'}.{ticket.began_ms}.{ticket.seen_ms}.{ticket.nonce}"
        return f"{text}.{self._signed(self._cookie, text)}"

    def open(self, cookie: str, now_ms: int) -> Ticket | None:
        """Return the ticket of a cookie; ``None`` if it is none of ours, or over."""
        found = _TEXT.fullmatch(cookie)
        if found is None:
            return None
        text, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature, self._signed(self._cookie, text)):
            return None
        shown = "" if found[1] == "-" else found[1]
        ticket = Ticket(shown, int(found[2]), int(found[3]), found[4])
        if now_ms >= ticket.ends_ms or ticket.began_ms > now_ms + _SKEW_MS:
            return None
        return None if ticket.nonce in self._left else ticket

    def leave(self, ticket: Ticket, now_ms: int) -> None:
        """End a session for good: no cookie of it opens anything from now on."""
        over = [nonce for nonce, until_ms in self._left.items() if until_ms <= now_ms]
        if len(self._left) - len(over) >= MAX_LEFT:
            over.append(next(iter(self._left)))
        for nonce in over:
            self._left.pop(nonce, None)
        self._left[ticket.nonce] = ticket.began_ms + MAX_AGE_MS

    def form_token(self, ticket: Ticket) -> str:
        """Return what the forms of a session carry, which no other site can know."""
        return self._signed(self._form, ticket.nonce)

    def _signed(self, key: bytes, text: str) -> str:
        return hmac.digest(key, text.encode("ascii"), "sha256").hex()


# Nothing but the token goes in, so whoever starts many planes in one process waits once.
@lru_cache(maxsize=4)
def _stretched(digest: bytes) -> bytes:
    """Return a key that takes a while to make, of a token that somebody may have made up."""
    return hashlib.scrypt(
        digest, salt=b"omnigate: dashboard, 1", n=_SCRYPT_N, r=_SCRYPT_R, p=1, dklen=32
    )

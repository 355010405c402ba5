"""Sessions of the dashboard: a signed cookie that says who has signed in and when.

No session is kept anywhere. The cookie names a credential by its hash, and is signed with a key
that is derived from the admin token: another admin token ends every session. Whether the
credential still opens anything is judged anew at each request.
"""

from __future__ import annotations

import hmac
import re
import secrets
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
    form_token: str


class SessionKeys:
    """Seals tickets and opens them again.

    :param admin_token: what both keys are derived from.
    """

    def __init__(self, admin_token: str) -> None:
        token = admin_token.encode()
        self._cookie = hmac.digest(token, b"omnigate: session cookies, 1", "sha256")
        self._form = hmac.digest(token, b"omnigate: form tokens, 1", "sha256")

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
        return ticket

    def form_token(self, ticket: Ticket) -> str:
        """Return what the forms of a session carry, which no other site can know."""
        return self._signed(self._form, ticket.nonce)

    def _signed(self, key: bytes, text: str) -> str:
        return hmac.digest(key, text.encode("ascii"), "sha256").hex()

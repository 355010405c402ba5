"""The door of the dashboard: cookies, forms of other sites, and pages that say why not."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlsplit

from omnigate.control.auth import Credentials
from omnigate.control.dashboard.pages import Pages
from omnigate.control.routes import Answer
from omnigate.control.sessions import MAX_AGE_MS, Session, SessionKeys, Ticket
from omnigate.control.visits import Visit
from omnigate.errors import GatewayError

#: Over TLS no other host of the domain can set a cookie of this name (RFC 6265bis, 4.1.3.2).
SECURE_COOKIE: Final = "__Host-omnigate"
PLAIN_COOKIE: Final = "omnigate"

SIGN_IN: Final = "/sign-in"

Headers = tuple[tuple[bytes, bytes], ...]


class DashboardDoor:
    """Knows people by their cookie; a :class:`~omnigate.control.visits.Door`.

    :param now_ms: milliseconds since 1970.
    """

    def __init__(
        self,
        keys: SessionKeys,
        credentials: Credentials,
        pages: Pages,
        now_ms: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._credentials = credentials
        self._pages = pages
        self._now_ms = now_ms

    def recognise(self, visit: Visit) -> Session:
        """Return who has signed in.

        :raises GatewayError: ``invalid_token`` for nobody, or somebody whose credential opens
            nothing any more, and what :meth:`~omnigate.control.auth.Credentials.recognise` raises.
        """
        ticket = self._keys.open(_cookie(visit), self._now_ms())
        if ticket is None:
            raise GatewayError("invalid_token", "sign in first; a session ends after an hour idle")
        caller = self._credentials.recognise(ticket.shown, visit.address)
        return Session(ticket, caller.actor, caller.may_write, self._keys.form_token(ticket))

    def sign_in(self, secret: str, visit_address: str, is_secure: bool) -> Headers:
        """Return the header that begins a session.

        :raises GatewayError: as :meth:`~omnigate.control.auth.Credentials.sign_in` does.
        """
        _, shown = self._credentials.sign_in(secret, visit_address)
        return self._set_cookie(self._keys.begin(shown, self._now_ms()), is_secure)

    def sign_out(self, is_secure: bool) -> Headers:
        """Return the header that ends a session in this browser."""
        name = SECURE_COOKIE if is_secure else PLAIN_COOKIE
        return ((b"set-cookie", _written(name, "", 0, is_secure)),)

    def check_origin(self, visit: Visit) -> None:
        """Refuse what another site has sent; browsers say so with every form (Fetch, 3.1).

        :raises GatewayError: ``forged_form``.
        """
        site = visit.headers(b"sec-fetch-site")
        origin = visit.headers(b"origin")
        host = visit.headers(b"host")[0]
        if (site and site != [b"same-origin"]) or (origin and not _is_same(origin, host)):
            raise GatewayError(
                "forged_form",
                "another site has sent this form; nothing was changed. If it was you, a proxy in "
                "front hides the name that you typed: have it pass the host header on",
            )

    def check_form(self, session: Session, token: str) -> None:
        """Refuse a form that was not made for this session.

        :raises GatewayError: ``forged_form``.
        """
        if not hmac.compare_digest(token.encode("utf-8", "replace"), session.form_token.encode()):
            raise GatewayError(
                "forged_form",
                "this form is of another session; nothing was changed. Load the page again, then "
                "fill it in anew",
            )

    def renewal(self, session: Session, visit: Visit) -> Headers:
        """Return the header that lets a session go on; none where the cookie is new enough."""
        if visit.target.startswith("/live/"):
            return ()  # a page that nobody looks at asks, too
        ticket = self._keys.renew(session.ticket, self._now_ms())
        return () if ticket is None else self._set_cookie(ticket, visit.is_secure)

    def refusal(
        self, refusal: GatewayError, visit: Visit, session: Session | None, request_id: str
    ) -> Answer:
        """Return the page that says why a request was refused; strangers are asked to sign in."""
        if visit.target.startswith("/live/"):
            body = refusal.message.encode()
            return Answer(body, b"text/plain; charset=utf-8", refusal.kind.status)
        if refusal.kind.code == "invalid_token" and visit.method in ("GET", "HEAD"):
            back = "" if visit.target == "/" else f"?next={quote(visit.target, safe='/')}"
            return Answer(status=303, headers=((b"location", f"{SIGN_IN}{back}".encode("ascii")),))
        return self._pages.answer(
            "refused.html",
            session,
            status=refusal.kind.status,
            headers=refusal.response_headers(),
            title=_TITLES.get(refusal.kind.status, "This cannot be done"),
            refusal=refusal,
            request_id=request_id,
        )

    def _set_cookie(self, ticket: Ticket, is_secure: bool) -> Headers:
        name = SECURE_COOKIE if is_secure else PLAIN_COOKIE
        cookie = _written(name, self._keys.seal(ticket), MAX_AGE_MS // 1000, is_secure)
        return ((b"set-cookie", cookie),)


_TITLES: Final = {
    401: "Sign in again",
    403: "Not allowed",
    404: "There is no such page",
    500: "Something broke",
    503: "Not ready",
}


def _cookie(visit: Visit) -> str:
    """Return the value of our cookie; the empty string where there is none, or more than one."""
    name = f"{SECURE_COOKIE if visit.is_secure else PLAIN_COOKIE}="
    pairs = b"; ".join(visit.headers(b"cookie")).decode("latin-1").split(";")
    values = [pair.strip() for pair in pairs if pair.strip().startswith(name)]
    return values[0][len(name) :] if len(values) == 1 else ""


def _written(name: str, value: str, max_age: int, is_secure: bool) -> bytes:
    secure = "; Secure" if is_secure else ""
    return (f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}").encode(
        "ascii"
    )


def _is_same(origin: list[bytes], host: bytes) -> bool:
    if len(origin) != 1:
        return False
    try:
        parts = urlsplit(origin[0].decode("ascii"))
    except ValueError:
        return False
    return parts.netloc.lower() == host.decode("latin-1").strip().lower() and bool(parts.netloc)

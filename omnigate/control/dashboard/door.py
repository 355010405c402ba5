"""The door of the dashboard: cookies, forms of other sites, and pages that say why not."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from omnigate.control.auth import Caller, Credentials
from omnigate.control.dashboard.pages import HEADERS, Pages, see_other
from omnigate.control.routes import MAX_TARGET_BYTES, Answer
from omnigate.control.sessions import MAX_AGE_MS, Session, SessionKeys, Ticket
from omnigate.control.visits import Visit
from omnigate.errors import GatewayError

#: Over TLS no other host of the domain can set a cookie of such a name (RFC 6265bis, 4.1.3.2).
SECURE_PREFIX: Final = "__Host-"

SIGN_IN: Final = "/sign-in"

#: A page that is not ready asks again after so long: stores load or restart within seconds.
REFRESH_SECONDS: Final = 3

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
        ticket = self._keys.open(self._cookie(visit), self._now_ms())
        if ticket is None:
            raise GatewayError("invalid_token", "sign in first; a session ends after an hour idle")
        caller = self._credentials.recognise(ticket.shown, visit.address)
        return Session(ticket, caller.actor, caller.may_write, self._keys.form_token(ticket))

    def admit(self, secret: str, address: str) -> tuple[Caller, str]:
        """Judge what somebody has typed; nothing has begun yet.

        :return: who it is, and what :meth:`begin` wants.
        :raises GatewayError: as :meth:`~omnigate.control.auth.Credentials.sign_in` does.
        """
        return self._credentials.sign_in(secret, address)

    def begin(self, shown: str, is_secure: bool) -> Headers:
        """Return the header that begins a session."""
        return self._set_cookie(self._keys.begin(shown, self._now_ms()), is_secure)

    def leave(self, session: Session, is_secure: bool) -> Headers:
        """End a session; return the header that has this browser forget it."""
        self._keys.leave(session.ticket, self._now_ms())
        return ((b"set-cookie", self._written("", 0, is_secure)),)

    def check_origin(self, visit: Visit) -> None:
        """Refuse what another site has sent; browsers say so with every form.

        https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/; a
        person who sends a form again by the browser's own buttons comes from ``none``.

        :raises GatewayError: ``forged_form``.
        """
        site = visit.headers(b"sec-fetch-site")
        origin = visit.headers(b"origin")
        host = visit.headers(b"host")[0]
        is_own = not site or site in ([b"same-origin"], [b"none"])
        if not is_own or (origin and not _is_same(origin, host, visit.is_secure)):
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

    async def ready(self) -> None:
        """Wait until pages can be made; see :meth:`Pages.ready`."""
        await self._pages.ready()

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
            return see_other(_sign_in_path(visit.target))
        if not self._pages.is_ready:
            return Answer(
                refusal.message.encode(),
                b"text/plain; charset=utf-8",
                refusal.kind.status,
                (*HEADERS, *refusal.response_headers()),
            )
        # What was sent cannot be sent again without being asked for.
        waits = refusal.kind.status == 503 and visit.method in ("GET", "HEAD")
        headers = refusal.response_headers()
        return self._pages.answer(
            "refused.html",
            session,
            status=refusal.kind.status,
            headers=(*headers, (b"refresh", b"%d" % REFRESH_SECONDS)) if waits else headers,
            title=_TITLES.get(refusal.kind.status, "This cannot be done"),
            refusal=refusal,
            request_id=request_id,
            refresh_s=REFRESH_SECONDS if waits else 0,
        )

    def _cookie(self, visit: Visit) -> str:
        """Return the value of our cookie; the empty string where there is none, or several."""
        name = f"{cookie_name(self._keys, visit.is_secure)}="
        pairs = b"; ".join(visit.headers(b"cookie")).decode("latin-1").split(";")
        values = [pair.strip() for pair in pairs if pair.strip().startswith(name)]
        return values[0][len(name) :] if len(values) == 1 else ""

    def _set_cookie(self, ticket: Ticket, is_secure: bool) -> Headers:
        cookie = self._written(self._keys.seal(ticket), MAX_AGE_MS // 1000, is_secure)
        return ((b"set-cookie", cookie),)

    def _written(self, value: str, max_age: int, is_secure: bool) -> bytes:
        name, secure = cookie_name(self._keys, is_secure), "; Secure" if is_secure else ""
        text = f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}"
        return text.encode("ascii")


def cookie_name(keys: SessionKeys, is_secure: bool) -> str:
    """Return what the cookie of a control plane is called.

    Cookies do not know ports: whoever has tunnels to several planes has all of them at one address.
    """
    return f"{SECURE_PREFIX if is_secure else ''}omnigate-{keys.mark}"


_TITLES: Final = {
    401: "Sign in again",
    403: "Not allowed",
    404: "Not found",
    413: "That is too long",
    500: "Something broke",
    503: "Not ready",
}


def _sign_in_path(target: str) -> str:
    """Return the path of the form that leads back to a page, where that fits into an address."""
    path = SIGN_IN if target == "/" else f"{SIGN_IN}?next={quote(target, safe='/')}"
    return path if len(path) <= MAX_TARGET_BYTES else SIGN_IN


_PORTS: Final = {"http": ":80", "https": ":443"}


def _is_same(origin: list[bytes], host: bytes, is_secure: bool) -> bool:
    """Tell whether an origin is that of a host; over TLS it has to be of TLS itself.

    Without it one cannot know: a proxy that we do not trust may have ended the TLS.
    """
    if len(origin) != 1:
        return False
    scheme, _, name = origin[0].decode("latin-1").strip().lower().partition("://")
    port = _PORTS.get(scheme)
    if port is None or (is_secure and scheme != "https"):
        return False
    own = host.decode("latin-1").strip().lower()
    return bool(name) and name.removesuffix(port) == own.removesuffix(port)

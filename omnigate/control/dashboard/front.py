"""What of the dashboard needs no store: signing in and out, and the files of the pages."""

from __future__ import annotations

from typing import Final

from omnigate.control.auth import PEOPLE
from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.door import SIGN_IN, DashboardDoor
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.routes import READ, Answer, Call, Endpoint, audience_of, parse_target
from omnigate.errors import GatewayError

#: A token and where to go next.
MAX_FORM_BYTES: Final = 4096


class Front:
    """The endpoints of strangers, and the one of leaving."""

    def __init__(self, door: DashboardDoor, pages: Pages, assets: Assets) -> None:
        self._door = door
        self._pages = pages
        self._assets = assets

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", SIGN_IN, self.show, free_query=True),
            Endpoint("POST", SIGN_IN, self.sign_in, body_limit=MAX_FORM_BYTES),
            Endpoint("POST", "/sign-out", self.sign_out, body_limit=MAX_FORM_BYTES, scope=READ),
            *self._assets.endpoints(),
        )

    async def show(self, call: Call) -> Answer:
        """Show the form."""
        return self._form(call.query.get("next", ""))

    async def sign_in(self, call: Call) -> Answer:
        """Begin a session, or say why not."""
        onward = call.form.get("next")
        try:
            headers = self._door.sign_in(call.form.get("token"), call.address, call.is_secure)
        except GatewayError as refusal:
            return self._form(onward, refusal)
        page = see_other(own_path(onward))
        return Answer(status=page.status, headers=(*page.headers, *headers))

    async def sign_out(self, call: Call) -> Answer:
        """End the session in this browser."""
        page = see_other(SIGN_IN)
        return Answer(
            status=page.status, headers=(*page.headers, *self._door.sign_out(call.is_secure))
        )

    def _form(self, onward: str, refusal: GatewayError | None = None) -> Answer:
        return self._pages.answer(
            "sign_in.html",
            None,
            status=200 if refusal is None else refusal.kind.status,
            headers=() if refusal is None else refusal.response_headers(),
            onward=onward,
            refusal=refusal,
        )


def own_path(target: str) -> str:
    """Return where to go after signing in: a page of ours, else the overview."""
    try:
        parsed = parse_target(target.encode("utf-8"))
        if audience_of(parsed.path) != PEOPLE or not target.isprintable() or not target.isascii():
            return "/"
    except GatewayError:
        return "/"
    return target

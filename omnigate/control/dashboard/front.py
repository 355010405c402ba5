"""What of the dashboard needs no store: signing in and out, and the files of the pages.

Both have a line in the audit log, on the disk before the session begins. While the log is not open,
in the first moment of a start, nobody signs in. Where it cannot be written, as on a full disk,
people do get in, and the log of the plane says who: they want to see what is wrong, and could read
the same by the admin API, which has no lines for reading. They change nothing, since no change is
made without its line. Signing out is never kept from anybody.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

from twisted.logger import Logger

from omnigate.control.admin_key import FULL, READ_ONLY
from omnigate.control.audit_line import AuditEntry
from omnigate.control.auth import PEOPLE
from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.door import SIGN_IN, DashboardDoor
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.routes import READ, Answer, Call, Endpoint, audience_of, parse_target
from omnigate.errors import GatewayError

#: A token and where to go next.
MAX_FORM_BYTES: Final = 4096

#: The actions of both, as the audit log has them.
SIGNED_IN: Final = "sign_in"
SIGNED_OUT: Final = "sign_out"

#: Of people who have signed in, and no page to go to.
_NO_PAGES: Final = ("live", "sign-out")

_log = Logger(namespace="omnigate.control.dashboard")


async def _unopened(entry: AuditEntry) -> None:
    raise GatewayError("not_ready", "the audit log is not open", retry_after=1)


class Front:
    """The endpoints of strangers, and the one of leaving.

    :ivar record: writes a line of the audit log, which is on the disk when it returns; see
        :meth:`omnigate.control.audit.AuditLog.record`.
    """

    def __init__(self, door: DashboardDoor, pages: Pages, assets: Assets) -> None:
        self._door = door
        self._pages = pages
        self._assets = assets
        self.record: Callable[[AuditEntry], Awaitable[None]] = _unopened

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
        return self._form(call, call.query.get("next", ""))

    async def sign_in(self, call: Call) -> Answer:
        """Begin a session, or say why not."""
        onward = call.form.get("next")
        try:
            caller, shown = self._door.admit(call.form.get("token"), call.address)
            await self._tell(call, SIGNED_IN, caller.actor, caller.may_write)
        except GatewayError as refusal:
            return self._form(call, onward, refusal)
        page = see_other(own_path(onward))
        headers = self._door.begin(shown, call.is_secure)
        return Answer(status=page.status, headers=(*page.headers, *headers))

    async def sign_out(self, call: Call) -> Answer:
        """End the session, whatever becomes of its line."""
        headers = self._door.leave(call.person, call.is_secure)
        try:
            await self._tell(call, SIGNED_OUT, call.person.actor, call.person.may_write)
        except GatewayError as error:
            _log.error(
                "{actor} has signed out from {address}, which is not in the audit log: {reason}",
                actor=call.person.actor,
                address=call.address,
                reason=error.message,
            )
        page = see_other(SIGN_IN)
        return Answer(status=page.status, headers=(*page.headers, *headers))

    async def _tell(self, call: Call, action: str, actor: str, may_write: bool) -> None:
        """Write the line of a session.

        :raises GatewayError: ``not_ready``: the audit log is not open.
        """
        entry = AuditEntry(
            action,
            actor,
            address=call.address,
            request_id=call.request_id,
            detail={"scope": FULL if may_write else READ_ONLY},
        )
        try:
            await self.record(entry)
        except GatewayError as error:
            if error.kind.code != "storage_unavailable":
                raise
            _log.error(
                "{action} of {actor} from {address} is not in the audit log: {reason}",
                action=action,
                actor=actor,
                address=call.address,
                reason=error.detail or error.message,
            )

    def _form(self, call: Call, onward: str, refusal: GatewayError | None = None) -> Answer:
        return self._pages.answer(
            "sign_in.html",
            None,
            status=200 if refusal is None else refusal.kind.status,
            headers=() if refusal is None else refusal.response_headers(),
            onward=onward,
            refusal=refusal,
            is_readable=is_readable(call.address, call.is_secure),
        )


def is_readable(address: str, is_secure: bool) -> bool:
    """Tell whether others on the way may read what is typed, as far as one can know.

    :param address: where the request came from; empty for a socket of the file system.
    """
    if is_secure or not address:
        return False
    try:
        return not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def own_path(target: str) -> str:
    """Return where to go after signing in: a page of ours, else the overview."""
    try:
        parsed = parse_target(target.encode("utf-8"))
        if audience_of(parsed.path) != PEOPLE or parsed.path.split("/")[1] in _NO_PAGES:
            return "/"
    except GatewayError:
        return "/"
    return target if target.isprintable() and target.isascii() else "/"

"""People at the gate: what a request for a page tells of them, and who lets them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from omnigate.control.routes import Answer
from omnigate.control.sessions import Session
from omnigate.errors import GatewayError


@attrs.frozen
class Visit:
    """The head of a request for a page, as far as it tells who comes and from where.

    :ivar headers: returns the lines of a header.
    :ivar is_secure: whether it came over TLS, as far as one can know.
    """

    method: str
    target: str
    address: str
    is_secure: bool
    headers: Callable[[bytes], list[bytes]]

    @property
    def origin(self) -> str:
        """Where the browser finds these pages, such as ``https://gate.example.com``.

        A form says it itself, and is taken only if that is so. Of other requests it is told by
        the host, and by what one can know of TLS.
        """
        told = self.headers(b"origin") if self.method == "POST" else []
        if told:
            return told[0].decode("latin-1").strip()
        (host, *_) = self.headers(b"host") or [b""]
        return f"{'https' if self.is_secure else 'http'}://{host.decode('latin-1').strip()}"


class Door(Protocol):
    """What knows people with a browser, and shows them why they were refused."""

    def recognise(self, visit: Visit) -> Session:
        """Return who has signed in.

        :raises GatewayError: nobody, or somebody whose credential opens nothing any more.
        """

    def check_origin(self, visit: Visit) -> None:
        """Refuse what another site has sent.

        :raises GatewayError: ``forged_form``.
        """

    def check_form(self, session: Session, token: str) -> None:
        """Refuse a form that was not made for this session.

        :raises GatewayError: ``forged_form``.
        """

    async def ready(self) -> None:
        """Wait until pages can be made.

        :raises GatewayError: ``not_ready``.
        """

    def renewal(self, session: Session, visit: Visit) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header that lets a session go on."""

    def refusal(
        self, refusal: GatewayError, visit: Visit, session: Session | None, request_id: str
    ) -> Answer:
        """Return the page that says why a request was refused, and what to do."""

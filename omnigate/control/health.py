"""Whether the control plane lives, and whether it is ready; for probes, without credentials.

The reasons are fixed words: who may ask without a credential learns no host, path or error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import Schema, one_of, record
from omnigate.errors import GatewayError

ALIVE: Final[Schema] = record({"status": one_of("ok")})
READY: Final[Schema] = record({"status": one_of("ready")})


class Health:
    """The endpoints of probes.

    :param unready: why requests cannot be served, or nothing can be recorded now, in fixed words;
        ``None`` while all is well. A plane that only cannot record answers data planes as before,
        but is not ready: somebody should look.
    """

    def __init__(self, unready: Callable[[], str | None]) -> None:
        self._unready = unready

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET", "/healthz", self.alive, summary="Tell that the process runs", answer=ALIVE
            ),
            Endpoint(
                "GET", "/livez", self.alive, summary="Tell that the process runs", answer=ALIVE
            ),
            Endpoint(
                "GET",
                "/readyz",
                self.ready,
                summary="Tell whether it can do its work",
                answer=READY,
            ),
        )

    async def alive(self, call: Call) -> Answer:
        """Answer that the process runs."""
        return Answer(b'{"status":"ok"}')

    async def ready(self, call: Call) -> Answer:
        """Answer whether it can do its work."""
        reason = self._unready()
        if reason is not None:
            raise GatewayError("not_ready", reason, retry_after=1)
        return Answer(b'{"status":"ready"}')

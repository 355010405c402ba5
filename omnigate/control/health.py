"""Whether the control plane lives, and whether it is ready; for probes, without credentials.

The reasons are fixed words: who may ask without a credential learns no host, path or error.
"""

from __future__ import annotations

from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError

LOADING = "the ledger is being loaded"
STOPPING = "stopping"


class Health:
    """The endpoints of probes.

    :ivar unready: why requests cannot be served yet or any more; ``None`` while they can.
    """

    def __init__(self) -> None:
        self.unready: str | None = LOADING

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/healthz", self.alive),
            Endpoint("GET", "/livez", self.alive),
            Endpoint("GET", "/readyz", self.ready),
        )

    async def alive(self, call: Call) -> Answer:
        """Answer that the process runs."""
        return Answer(b'{"status":"ok"}')

    async def ready(self, call: Call) -> Answer:
        """Answer whether it can do its work."""
        if self.unready is not None:
            raise GatewayError("not_ready", self.unready, retry_after=1)
        return Answer(b'{"status":"ready"}')

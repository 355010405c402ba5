"""Whether the control plane lives, and whether it is ready; for probes, without credentials.

The reasons are fixed words: who may ask without a credential learns no host, path or error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigate.control.admin_json import encode
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import Schema, one_of, record
from omnigate.errors import GatewayError

ALIVE: Final[Schema] = record({"status": one_of("ok")})
#: What is told of a config file that was refused; the plane is ready all the same.
REFUSED: Final = "the config file was refused, and the last good config is in force"

READY: Final[Schema] = record(
    {"status": one_of("ready"), "config": one_of(REFUSED)}, optional=("config",)
)


class Health:
    """The endpoints of probes.

    :param unready: why requests cannot be served, or nothing can be recorded now, in fixed words;
        ``None`` while all is well. A plane that only cannot record answers data planes as before,
        but is not ready: somebody should look.
    :param config_refused: whether the config in force is not that of the file.
    """

    def __init__(
        self,
        unready: Callable[[], str | None],
        config_refused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._unready = unready
        self._config_refused = config_refused

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
        if self._config_refused():
            return Answer(encode({"status": "ready", "config": REFUSED}))
        return Answer(b'{"status":"ready"}')

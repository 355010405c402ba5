"""The config in force, as operators see it, and reading its file again by request."""

from __future__ import annotations

from typing import Final

import attrs
import msgspec

from omnigate.control.admin_json import FAULTS, encode, fault_rows, time
from omnigate.control.config_file import Cause, ConfigFile
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import ANYTHING, COUNT, FLAG, TEXT, TIME, Schema, record
from omnigate.errors import GatewayError, problem

CONFIG: Final[Schema] = record(
    {"path": TEXT, "loaded_at": TIME, "faults": FAULTS, "config": ANYTHING}, title="ConfigInForce"
)
RELOADED: Final[Schema] = record(
    {"reloaded": FLAG, "keys": COUNT, "upstreams": COUNT, "routes": COUNT}, title="Reloaded"
)


class ConfigApi:
    """The endpoints of the config."""

    def __init__(self, config_file: ConfigFile) -> None:
        self._config_file = config_file

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/config",
                self.config,
                summary="Show the config in force, and the faults of the file if it is not that",
                answer=CONFIG,
            ),
            Endpoint(
                "POST",
                "/admin/reload",
                self.reload,
                summary="Read the config file again",
                answer=RELOADED,
                refusals=("conflict", "storage_unavailable"),
            ),
        )

    async def config(self, call: Call) -> Answer:
        """Answer the config in force, and what is wrong with the file if it is not that."""
        document = attrs.asdict(
            self._config_file.config, filter=lambda attribute, _: bool(attribute.init)
        )
        return Answer(
            encode(
                {
                    "path": self._config_file.path,
                    "loaded_at": time(int(self._config_file.loaded_at * 1000)),
                    "faults": fault_rows(self._config_file.faults),
                    "config": document,
                }
            )
        )

    async def reload(self, call: Call) -> Answer:
        """Read the config file again; one with faults is refused with all of them."""
        if await self._config_file.reload(Cause(call.actor, call.address, call.request_id)):
            config = self._config_file.config
            counts = {
                "keys": len(config.keys),
                "upstreams": len(config.upstreams),
                "routes": len(config.routes),
            }
            return Answer(encode({"reloaded": True, **counts}))
        faults = self._config_file.faults
        error = GatewayError(
            "conflict", f"the config file has {len(faults)} faults; the config in force stays"
        )
        document = msgspec.json.decode(problem(error))
        document["faults"] = fault_rows(faults)
        return Answer(encode(document), b"application/problem+json", error.kind.status)

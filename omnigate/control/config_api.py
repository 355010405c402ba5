"""The config in force, as operators see it, and reading its file again by request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from omnigate.control.admin_json import FAULTS, encode, fault_rows, time
from omnigate.control.config_changes import SETTINGS, TABLES
from omnigate.control.config_document import config_pieces
from omnigate.control.config_file import Cause, ConfigFile
from omnigate.control.config_history import ConfigHistory, HistoryEntry
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    SHA256,
    TEXT,
    TIME,
    Schema,
    or_null,
    record,
    rows,
    whole,
)
from omnigate.errors import GatewayError, problem

#: The largest number that every reader of JSON keeps exactly has sixteen digits.
MAX_ID: Final = 10**15 - 1

CONFIG: Final[Schema] = record(
    {"path": TEXT, "loaded_at": TIME, "faults": FAULTS, "config": ANYTHING}, title="ConfigInForce"
)
RELOADED: Final[Schema] = record(
    {"reloaded": FLAG, "keys": COUNT, "upstreams": COUNT, "routes": COUNT}, title="Reloaded"
)


_CHANGES: Final[Schema] = record(
    {"added": rows(TEXT), "changed": rows(TEXT), "removed": rows(TEXT), "more": COUNT},
    optional=("added", "changed", "removed", "more"),
    title="TableChanges",
)
_ENTRY: Final = {
    "id": whole(1, MAX_ID),
    "at": TIME,
    "actor": TEXT,
    "address": TEXT,
    "sha256": SHA256,
    "bytes": COUNT,
    "keys": COUNT,
    "upstreams": COUNT,
    "routes": COUNT,
    "changes": record(
        {**dict.fromkeys(TABLES, _CHANGES), **dict.fromkeys(SETTINGS, FLAG)},
        optional=(*TABLES, *SETTINGS),
        title="ConfigChanges",
    ),
}
HISTORY: Final[Schema] = record(
    {"entries": rows(record(_ENTRY, title="HistoryEntry"))}, title="ConfigHistory"
)
HISTORY_TEXT: Final[Schema] = record({**_ENTRY, "text": or_null(TEXT)}, title="HistoryText")


class ConfigApi:
    """The endpoints of the config."""

    def __init__(
        self,
        config_file: ConfigFile,
        history: ConfigHistory,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._config_file = config_file
        self._history = history
        self._pause = pause

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
            Endpoint(
                "GET",
                "/admin/config/history",
                self.history,
                summary="Show the configs that were in force, newest first",
                answer=HISTORY,
            ),
            Endpoint(
                "GET",
                "/admin/config/history/{id}",
                self.history_text,
                summary="Show one config that was in force, with its text but for secrets",
                answer=HISTORY_TEXT,
                refusals=("not_found",),
            ),
        )

    async def config(self, call: Call) -> Answer:
        """Answer the config in force, and what is wrong with the file if it is not that."""
        head = encode(
            {
                "path": self._config_file.path,
                "loaded_at": time(int(self._config_file.loaded_at * 1000)),
                "faults": fault_rows(self._config_file.faults),
            }
        )
        pieces = await config_pieces(self._config_file.config, self._pause)
        return Answer(b"".join([head[:-1], b',"config":', *pieces, b"}"]))

    async def reload(self, call: Call) -> Answer:
        """Read the config file again; one with faults is refused with all of them."""
        if await reload_for(self._config_file, call):
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

    async def history(self, call: Call) -> Answer:
        """Answer the configs that were in force, without their texts."""
        return Answer(encode({"entries": [_row(entry) for entry in self._history.entries()]}))

    async def history_text(self, call: Call) -> Answer:
        """Answer one of them with its text, null where that is not kept any more."""
        for entry in self._history.entries():
            if call.name == str(entry.id):
                return Answer(encode({**_row(entry), "text": entry.text}))
        raise GatewayError("not_found", "the history has no config of this number (any more)")


async def reload_for(config_file: ConfigFile, call: Call) -> bool:
    """Read the config file again for whoever calls; return whether it was good.

    :raises GatewayError: a good config could not be put in force.
    """
    return await config_file.reload(Cause(call.actor, call.address, call.request_id))


def _row(entry: HistoryEntry) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(entry).items() if name != "text"}

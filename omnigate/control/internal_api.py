"""The interface to data planes: their config and their usage events.

Everything under ``/internal/`` needs the internal token. A usage batch is answered once it is on
the disk, and not before; a poll is answered ``503 not_ready`` while the ledger is not loaded, since
"nothing spent" would unblock every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from twisted.internet.defer import Deferred

from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.snapshots import Snapshots
from omnigate.errors import GatewayError
from omnigate.events import MAX_BATCH_EVENTS
from omnigate.ledger.service import IngestResult

#: Five hundred events with the longest attempts lists a route allows stay below.
MAX_BATCH_BYTES: Final = 16 * 1024 * 1024

T = TypeVar("T")


class Recorder(Protocol):
    """The ledger, as far as batches need it."""

    def record(self, events: Sequence[bytes | dict[str, Any]]) -> Deferred[IngestResult]:
        """Record a batch; fires once it is on the disk."""


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    # Kept raw: an event that cannot be read is the ledger's to count, not a reason to refuse the
    # others that came with it.
    events: list[msgspec.Raw]


_batch = msgspec.json.Decoder(_Batch)


class InternalApi:
    """The endpoints under ``/internal/`` that need the stores."""

    def __init__(
        self,
        snapshots: Snapshots,
        ledger: Recorder,
    ) -> None:
        self._snapshots = snapshots
        self._ledger = ledger

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/internal/config", self.config),
            Endpoint("POST", "/internal/usage/batch", self.usage_batch, body_limit=MAX_BATCH_BYTES),
        )

    async def config(self, call: Call) -> Answer:
        """Answer the snapshot; 304 where the data plane has that version."""
        snapshot = await self._snapshots.current()
        etag = f'"{snapshot.version}"'
        headers = ((b"etag", etag.encode("ascii")),)
        if call.if_none_match == etag:
            return Answer(status=304, headers=headers)
        return Answer(snapshot.data, headers=headers)

    async def usage_batch(self, call: Call) -> Answer:
        """Record a batch of usage events and answer what became of them.

        The answer tells the version of the config as of now, so that a data plane with another one
        need not wait for its next poll to know that a key has spent its budget.
        """
        events = read_body(_batch, call.body).events
        if len(events) > MAX_BATCH_EVENTS:
            raise GatewayError(
                "invalid_request",
                f"a batch holds at most {MAX_BATCH_EVENTS} events, this one {len(events)}",
                param="events",
            )
        result = await self._ledger.record([bytes(event) for event in events])
        return Answer(
            msgspec.json.encode(
                {
                    "recorded": result.recorded,
                    "duplicates": result.duplicates,
                    "invalid": result.invalid,
                    "config_version": self._snapshots.version_after_events(),
                }
            )
        )


def read_body(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body, or refuse it as what it is not."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise GatewayError("invalid_request", str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise GatewayError("invalid_json", f"the body is no JSON: {error}") from None

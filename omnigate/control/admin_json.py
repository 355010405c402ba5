"""How the admin API reads bodies and writes values: amounts of money, times, faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from omnigate.config.structure import Fault
from omnigate.control.schemas import TEXT, Schema, record, rows
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.errors import GatewayError
from omnigate.money import usd
from omnigate.periods import rfc3339

#: What is wrong with a file, as :func:`fault_rows` tells it.
FAULTS: Final[Schema] = rows(record({"path": TEXT, "message": TEXT}, title="Fault"))

_encoder = msgspec.json.Encoder(decimal_format="number")


def encode(value: Any) -> bytes:
    """Return JSON in which decimals are numbers."""
    return _encoder.encode(value)


def read_body(body: bytes) -> object:
    """Return the JSON of a request's body.

    :raises GatewayError: ``invalid_json``.
    """
    try:
        return read_json(body)
    except StrictJsonError as error:
        raise GatewayError("invalid_json", f"the body {error}") from None


def dollars(nano: int | None) -> msgspec.Raw | None:
    """Return an amount as a JSON number that is exact."""
    return None if nano is None else msgspec.Raw(usd(nano).encode("ascii"))


def time(ms: int | None) -> str | None:
    """Return a moment as people and programs write it."""
    return None if ms is None else rfc3339(ms)


def fault_rows(faults: Iterable[Fault]) -> list[dict[str, str]]:
    """Return faults, each with the place it is in."""
    return [{"path": fault.path, "message": fault.message} for fault in faults]

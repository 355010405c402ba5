"""The config in force as JSON, written a few hundred rows at a time.

Five thousand routes and ten thousand keys are seven megabytes; written at once they would hold up
everybody for a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from omnigate.config.schema import Config
from omnigate.control.admin_json import encode

#: Keys, upstreams or routes that are written in one go: about 3 ms.
ROWS_AT_ONCE: Final = 250


def _plain(value: Any) -> Any:
    """Return a value as what JSON has; fields that are worked out of others are left out."""
    if attrs.has(type(value)):
        return attrs.asdict(value, filter=lambda attribute, _: bool(attribute.init))
    return value


async def config_pieces(config: Config, pause: Callable[[], Awaitable[None]]) -> list[bytes]:
    """Return the whole config, with its defaults, in pieces to be joined once.

    :param pause: lets the reactor do something else in between.
    """
    pieces: list[bytes] = []
    for field in attrs.fields(Config):
        if field.init:
            pieces += (b"," if pieces else b"{", encode(field.name), b":")
            await _add(pieces, getattr(config, field.name), pause)
    return [*pieces, b"}"]


async def _add(pieces: list[bytes], value: Any, pause: Callable[[], Awaitable[None]]) -> None:
    """Add the pieces of a value, which may be a long list."""
    if not isinstance(value, tuple):
        pieces.append(encode(_plain(value)))
        return
    pieces.append(b"[")
    for start in range(0, len(value), ROWS_AT_ONCE):
        if start:
            await pause()
            pieces.append(b",")
        rows = [_plain(row) for row in value[start : start + ROWS_AT_ONCE]]
        pieces.append(encode(rows)[1:-1])
    pieces.append(b"]")
    await pause()

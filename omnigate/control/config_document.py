"""The config in force as JSON, written a few hundred rows at a time.

Five thousand routes and ten thousand keys are seven megabytes; written at once they would hold up
everybody for a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import attrs

from omnigate.config.media import MediaConfig
from omnigate.config.schema import Config
from omnigate.control.admin_json import encode

#: Keys, upstreams, routes and their targets that are written in one go: a millisecond.
ROWS_AT_ONCE: Final = 100


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
    await _add_table(pieces, config, pause)
    return pieces


async def _add_table(pieces: list[bytes], table: Any, pause: Callable[[], Awaitable[None]]) -> None:
    """Add the pieces of a table whose values may be long lists."""
    before = b"{"
    for field in attrs.fields(type(table)):
        if field.init:
            pieces += (before, encode(field.name), b":")
            await _add(pieces, getattr(table, field.name), pause)
            before = b","
    pieces.append(b"}")


async def _add(pieces: list[bytes], value: Any, pause: Callable[[], Awaitable[None]]) -> None:
    """Add the pieces of a value, which may be a long list, or have one."""
    if isinstance(value, MediaConfig):
        await _add_table(pieces, value, pause)
        return
    if not isinstance(value, tuple):
        pieces.append(encode(_plain(value)))
        return
    pieces.append(b"[")
    for number, some in enumerate(_steps(value)):
        if number:
            await pause()
            pieces.append(b",")
        pieces.append(encode([_plain(row) for row in some])[1:-1])
    pieces.append(b"]")
    await pause()


def _steps(rows: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Split rows into what is written in one go."""
    some: list[Any] = []
    count = 0
    for row in rows:
        some.append(row)
        count += 1 + len(getattr(row, "targets", ()))
        if count >= ROWS_AT_ONCE:
            yield some
            some, count = [], 0
    if some:
        yield some

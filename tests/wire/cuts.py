"""The three-way check: whole, byte by byte, and cut anywhere, a parser says the same."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at the given places (taken modulo the length)."""
    marks = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)]


def every_cut(data: bytes) -> Iterator[list[bytes]]:
    """Yield the ways that find most faults: whole, byte by byte, and in two at each place."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for place in range(len(data) + 1):
        yield [data[:place], data[place:]]


def places() -> st.SearchStrategy[list[int]]:
    """Draw places to cut at."""
    return st.lists(st.integers(0, 1 << 20), max_size=12)

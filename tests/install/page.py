"""The commands of a page, with what is promised of each block of them.

An indented block has a mark on the line before it, a comment of HTML that no reader sees:
``<!-- run: NAME -->``, ``<!-- run: NAME (status 0 or 1) -->`` where the block may end so, or
``<!-- not run: REASON -->``. A line of a block that ends with ``# → WORDS`` promises that the block
says these words.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import attrs

_MARK = re.compile(
    r"<!-- (?:run: (?P<name>[a-z ]+?)(?P<either> \(status 0 or 1\))?|not run: (?P<why>.+)) -->"
)
_SAYS = re.compile(r"# → (.+)$", re.MULTILINE)
_INDENT = " " * 4


class PageError(Exception):
    """A page has a block without a mark, or a mark without a block; the text says where."""


@attrs.frozen
class Block:
    """Some commands of a page.

    :ivar name: what its mark calls it; empty where it is not run.
    :ivar commands: as they stand on the page, without the indentation.
    :ivar says: words that have to be in what it prints.
    :ivar statuses: those that it may end with.
    """

    name: str
    commands: str
    says: tuple[str, ...]
    statuses: tuple[int, ...] = (0,)


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page in their order.

    :raises PageError: a block and its mark do not stand together.
    """
    found: list[Block] = []
    mark: re.Match[str] | None = None
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        here = _MARK.fullmatch(line)
        if here is not None:
            if mark is not None:
                raise PageError(f"line {number + 1}: two marks before one block")
            mark = here
        elif line.startswith(_INDENT):
            end = _end_of_block(lines, number)
            if mark is None:
                raise PageError(f"line {number + 1}: a block without a mark: {line.strip()}")
            found.append(_block(mark, lines[number:end]))
            mark = None
            number = end
            continue
        elif line.strip() and mark is not None:
            raise PageError(f"line {number + 1}: a mark without a block before: {line}")
        number += 1
    if mark is not None:
        raise PageError("a mark without a block at the end")
    return found


def _end_of_block(lines: Sequence[str], start: int) -> int:
    """Return the number of the line behind a block; empty lines belong to it if it goes on."""
    end = start
    for number in range(start, len(lines)):
        if lines[number].startswith(_INDENT):
            end = number + 1
        elif lines[number].strip():
            break
    return end


def _block(mark: re.Match[str], lines: Sequence[str]) -> Block:
    commands = textwrap.dedent("\n".join(lines)) + "\n"
    says = tuple(words.strip() for words in _SAYS.findall(commands))
    return Block(mark["name"] or "", commands, says, (0, 1) if mark["either"] else (0,))

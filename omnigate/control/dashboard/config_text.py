"""The text of a config as a page shows it: so many lines, none of them endless, no secrets."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from omnigate.control.dashboard.line_diff import Block
from omnigate.control.redaction import redacted

#: Lines of a text on one page: a config has four megabytes at most, which nobody reads at once.
LINES_A_PAGE: Final = 500

#: Lines of a text that are told apart, four times as many as the longest config has as a rule; what
#: is behind them is one line. More would take too long to be cut in one go.
MAX_LINES: Final = 200_000

#: Characters of a line; an address or a list of models is shorter.
MAX_LINE_CHARS: Final = 400

#: Text that secrets are taken out of in one go: about 3 ms.
REDACTED_AT_ONCE: Final = 16 * 1024

#: Lines of a comparison on a page, and the equal ones around each difference.
MAX_DIFF_LINES: Final = 400
CONTEXT: Final = 3

#: What is kept of a cut line. The word that was cut is left out: a part of a secret is not known
#: for one. It is looked for from the end, which takes no longer for a long word in front of it.
_WHOLE_WORDS: Final = re.compile(r".*[\s\"',;]", re.DOTALL)

SAME: Final = "same"
GONE: Final = "gone"
ADDED: Final = "added"
SKIP: Final = "skip"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text; of four megabytes it takes 15 ms."""
    return text.split("\n", MAX_LINES)


def clipped(line: str) -> str:
    """Return a line that is not too long to be shown."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    whole = _WHOLE_WORDS.match(line[:MAX_LINE_CHARS])
    kept = "" if whole is None else whole[0]
    more = len(line) - len(kept)
    return f"{kept} \N{HORIZONTAL ELLIPSIS} and {more} more characters"


async def shown_lines(lines: Sequence[str], pause: Callable[[], Awaitable[None]]) -> list[str]:
    """Return lines of a config as they may be shown.

    :param pause: lets the reactor do something else in between.
    """
    shown: list[str] = []
    held: list[str] = []
    length = 0
    for line in lines:
        held.append(clipped(line))
        length += len(held[-1])
        if length >= REDACTED_AT_ONCE:
            shown += redacted("\n".join(held)).split("\n")
            held, length = [], 0
            await pause()
    if held:
        shown += redacted("\n".join(held)).split("\n")
    return shown


@attrs.frozen
class DiffLine:
    """One line of a comparison.

    :ivar kind: :data:`SAME`, :data:`GONE`, :data:`ADDED`, or :data:`SKIP` for a jump.
    :ivar number: of the line, from 1 on: in the old text of one that is gone, else in the new one.
    """

    kind: str
    number: int
    text: str


@attrs.frozen
class Diff:
    """A comparison as it is shown.

    :ivar gone: how many lines are gone, those that are not shown included.
    :ivar added: how many are new.
    :ivar is_cut: whether it goes on beyond what is shown.
    """

    lines: Sequence[DiffLine]
    gone: int
    added: int
    is_cut: bool


def diff_of(old: Sequence[str], new: Sequence[str], blocks: Sequence[Block]) -> Diff:
    """Return a comparison with a few equal lines around each difference.

    :param blocks: what :func:`~omnigate.control.dashboard.line_diff.compare` found.
    """
    lines: list[DiffLine] = []
    shown_to = 0  # the first new line that was not told yet
    for index, block in enumerate(blocks):
        if len(lines) > MAX_DIFF_LINES:
            break
        start = max(shown_to, block.new[0] - CONTEXT)
        if start > shown_to:
            lines.append(DiffLine(SKIP, start + 1, ""))
        lines += _told(SAME, new, start, block.new[0])
        lines += _told(GONE, old, *block.old)
        lines += _told(ADDED, new, *block.new)
        end = min(len(new), block.new[1] + CONTEXT)
        if index + 1 < len(blocks):
            end = min(end, blocks[index + 1].new[0])
        lines += _told(SAME, new, block.new[1], end)
        shown_to = end
    return Diff(
        lines[:MAX_DIFF_LINES],
        sum(block.old[1] - block.old[0] for block in blocks),
        sum(block.new[1] - block.new[0] for block in blocks),
        len(lines) > MAX_DIFF_LINES,
    )


def _told(kind: str, text: Sequence[str], start: int, end: int) -> list[DiffLine]:
    end = min(end, start + MAX_DIFF_LINES + 1)
    return [DiffLine(kind, number + 1, clipped(text[number])) for number in range(start, end)]

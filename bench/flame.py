"""``python -m bench flame``: draws where the microseconds of a request go, as a flame graph.

It reads *collapsed stacks*, which every sampling profiler writes: a line for each stack, frames
from the outermost to the innermost with semicolons between, a space, and how many samples fell on
it. The picture is one SVG file that a browser shows, with the full name and the microseconds of a
frame where the pointer rests; it needs no script.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final

import attrs

#: The picture: its width, the height of a row, the width of a letter, in pixels.
WIDTH: Final = 1200.0
ROW: Final = 17.0
LETTER: Final = 6.3
#: Room above for the title.
TOP: Final = 44.0
#: Frames narrower than this, in pixels, are left out: nobody could read or touch them.
NARROWEST: Final = 0.7
#: Lines of a profile that are read; one of a minute has some thousands.
MAX_LINES: Final = 200_000
#: Frames of one stack; Python's own limit is 1,000.
MAX_DEPTH: Final = 1_000

#: What the frames of a part of the program are painted in, by the beginning of their file.
COLOURS: Final = (
    ("omnigate/wire/", "#f2c14e", "wire: HTTP and JSON"),
    ("omnigate/dialects/", "#a4c639", "dialects: metering"),
    ("omnigate/protocols/", "#f78154", "protocols: connections"),
    ("omnigate/gateway/", "#5fad9f", "gateway: the exchange and its books"),
    ("omnigate/", "#9fb8d9", "the rest of omnigate"),
    ("twisted/", "#c9a6d6", "Twisted"),
    ("", "#d5d0c8", "Python and others"),
)

_PLACE = re.compile(r"^(?P<name>.*?) \((?P<file>.*?)(?::\d+)?\)$")


class ProfileError(Exception):
    """What was given is no profile; the text names the line and the remedy."""


@attrs.define(eq=False)
class Frame:
    """A function as it was called from the frame above it.

    :ivar samples: that fell on it or on what it called.
    """

    name: str
    file: str
    samples: int = 0
    calls: dict[tuple[str, str], Frame] = attrs.field(factory=dict)


def read_profile(lines: Iterable[str], root: str) -> Frame:
    """Read collapsed stacks into a tree.

    :param root: the function that counts as the outermost one, as ``name`` or as a part of its
        file's path and its name, ``file:name``; stacks without it are put aside.
    :raises ProfileError: for what cannot be read, or when no stack has the root.
    """
    file, _, name = root.rpartition(":")
    top = Frame(name, file)
    for number, line in enumerate(lines, 1):
        if number > MAX_LINES:
            raise ProfileError(f"more than {MAX_LINES} lines; profile for a shorter time")
        stack, _, count = line.strip().rpartition(" ")
        if not stack and not count:
            continue
        if not stack or not re.fullmatch("[0-9]{1,12}", count):
            raise ProfileError(
                f"line {number} does not end in a number of samples; give collapsed stacks, "
                "one `frame;frame;frame 12` in each line"
            )
        frames = [_place(frame) for frame in stack.split(";", MAX_DEPTH)]
        for depth, (called, where) in enumerate(frames):
            if called == name and file in where:
                _add(top, frames[depth + 1 :], int(count))
                break
    if not top.samples:
        raise ProfileError(f"no stack goes through {root}; name the outermost function in --root")
    return top


def _place(frame: str) -> tuple[str, str]:
    """The function and the file of a frame; lines are left out, so that its calls are one."""
    match = _PLACE.match(frame)
    return (match["name"], match["file"]) if match else (frame, "")


def _add(top: Frame, frames: list[tuple[str, str]], samples: int) -> None:
    top.samples += samples
    here = top
    for place in frames:
        here = here.calls.setdefault(place, Frame(*place))
        here.samples += samples


@attrs.frozen
class Box:
    """A frame where it is drawn: ``left`` and ``width`` in samples, ``row`` from the top."""

    frame: Frame
    left: int
    row: int


def boxes(top: Frame) -> Iterator[Box]:
    """Place every frame: callers above what they call, the most expensive call on the left."""
    waiting = [Box(top, 0, 0)]
    while waiting:
        box = waiting.pop()
        yield box
        left = box.left
        for call in sorted(box.frame.calls.values(), key=lambda call: (-call.samples, call.name)):
            waiting.append(Box(call, left, box.row + 1))
            left += call.samples


def draw(top: Frame, title: str, cpu_us: float) -> str:
    """Draw the tree.

    :param cpu_us: what all of it takes of the processor for one request, in microseconds.
    :return: the text of an SVG file.
    """
    a_sample = WIDTH / top.samples
    placed = [box for box in boxes(top) if box.frame.samples * a_sample >= NARROWEST]
    rows = 1 + max(box.row for box in placed)
    height = TOP + rows * ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" '
        f'width="{WIDTH:g}" height="{height:g}" font-family="monospace" font-size="10.5">',
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#fffdf8"/>',
        f'<text x="8" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="8" y="36">{cpu_us:.1f} µs in all; callers above what they call, the dearest '
        "on the left; what a frame does itself is where nothing stands below it</text>",
    ]
    for box in placed:
        parts.append(_box(box, a_sample, cpu_us / top.samples))
    left = 8.0
    for _, colour, words in COLOURS:
        parts.append(
            f'<rect x="{left:g}" y="{height - 22:g}" width="11" height="11" fill="{colour}"/>'
            f'<text x="{left + 15:g}" y="{height - 12.5:g}">{words}</text>'
        )
        left += 34 + len(words) * LETTER
    parts.append("</svg>\n")
    return "\n".join(parts)


def _box(box: Box, a_sample: float, us: float) -> str:
    frame = box.frame
    left, width = box.left * a_sample, frame.samples * a_sample
    up = TOP + box.row * ROW
    named = f"{frame.name} {frame.samples * us:.1f}"
    room = int((width - 4) / LETTER)
    if len(named) > room:
        named = frame.name if len(frame.name) <= room else frame.name[: max(0, room - 1)] + "…"
    words = ""
    if room >= 4:
        words = f'<text x="{left + 2:.1f}" y="{up + 12:.1f}">{escape(named)}</text>'
    told = f"{frame.name} {frame.file}: {frame.samples * us:.1f} µs"
    return (
        f'<g><title>{escape(told)}</title><rect x="{left:.1f}" y="{up:.1f}" '
        f'width="{max(0.4, width - 0.6):.1f}" height="{ROW - 1:g}" rx="1.5" '
        f'fill="{_colour(frame.file)}"/>{words}</g>'
    )


def _colour(file: str) -> str:
    return next(colour for beginning, colour, _ in COLOURS if beginning in file)


def main(arguments: list[str]) -> int:
    """Read a profile, write the picture.

    :returns: 0, or 1 when the profile cannot be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench flame",
        description="Draws a profile of the data plane as a flame graph, scaled to one request.",
        epilog="A profile: py-spy record --pid PID --rate 200 --duration 20 --format raw "
        "--output stacks.txt, while a load runs. What a request takes is in the table of "
        "'make bench' (CPU µs).",
    )
    parser.add_argument("stacks", type=Path, help="the profile, as collapsed stacks")
    parser.add_argument("--cpu-us", type=float, required=True, help="CPU µs of one request")
    parser.add_argument(
        "--root",
        default="lean_reactor.py:LeanReactor.doPoll",
        help="the outermost function, as file:name (%(default)s)",
    )
    parser.add_argument("--title", default="One request", help="(%(default)s)")
    parser.add_argument("--output", type=Path, help="the SVG file (standard output)")
    options = parser.parse_args(arguments)
    try:
        with options.stacks.open(encoding="utf-8") as lines:
            top = read_profile(lines, options.root)
    except (OSError, UnicodeDecodeError, ProfileError) as error:
        print(f"bench flame: {options.stacks}: {error}", file=sys.stderr)
        return 1
    picture = draw(top, options.title, options.cpu_us)
    if options.output is None:
        sys.stdout.write(picture)
    else:
        options.output.write_text(picture, encoding="utf-8")
    return 0

"""``python -m bench copies``: how often the data plane copies each byte that it relays.

The data plane runs as always, with real sockets, under valgrind's DHAT in its copy mode, which adds
up what ``memcpy``, ``memmove`` and their like copy. It is run twice for each row, with few and with
many requests, so that all that is not of a request drops out of the difference.

What is counted is within the process. Any proxy that reads and writes has two copies more, made by
the kernel from and to its own buffers. Not counted is what other loops write while they read, such
as ``bytes.translate`` or an encoder, and what a cipher makes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from bench import load, traffic
from bench.in_memory import payload_of
from bench.place import Place
from bench.proc import Cores
from bench.report import table
from omnigate.demo_children import ChildError, Children

#: Valgrind takes fifty times as long to import what a data plane needs.
START_SECONDS: Final = 240.0
_STOP_SECONDS = 120.0
_LOAD_SECONDS = 120.0
_TOTAL = re.compile(r"^==[0-9]+== Total: +([0-9,]+) bytes in ", re.MULTILINE)
_MEGABYTE = 1024 * 1024


class CopiesError(Exception):
    """Copies could not be counted; the text says why."""


@attrs.frozen
class Row:
    """What is relayed.

    :ivar body_bytes: of its body, request or answer, whichever is long.
    :ivar more: requests by which the second run has more than the first.
    """

    name: str
    title: str
    kind: str
    request_bytes: int
    body_bytes: int
    more: int


def rows() -> list[Row]:
    """Return what is measured."""
    long = 8 * _MEGABYTE - 4096  # the largest that is taken by default, less what is put in
    stream = len(traffic.burst_payload(with_usage=False))
    return [
        Row("up1m", "request of 1 MB", "whole", _MEGABYTE, _MEGABYTE, 8),
        Row("up8m", "request of 8 MB", "whole", long, long, 2),
        Row("down1m", "answer of 1 MB", "whole1m", 1024, _MEGABYTE, 8),
        Row("down8m", "answer of 8 MB", "whole8m", 1024, 8 * _MEGABYTE, 2),
        Row("stream", "stream of 100 events in one write", "burst", 1024, stream, 200),
        Row("xup1m", "request of 1 MB, translated", "xwhole", _MEGABYTE, _MEGABYTE, 8),
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and return the exit status."""
    names = [row.name for row in rows()]
    parser = argparse.ArgumentParser(
        prog="python -m bench copies", description=__doc__.replace("``", "")
    )
    parser.add_argument("--rows", metavar="A,B", default=",".join(names), help=f"of {names}")
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="leave DHAT's profiles there, for dh_view.html"
    )
    options = parser.parse_args(arguments)
    wanted = options.rows.split(",")
    if set(wanted) - set(names):
        parser.error(f"there are the rows {', '.join(names)}")
    if shutil.which("valgrind") is None:
        print("bench: needs valgrind (3.17 or newer) on the path", file=sys.stderr)
        return 1
    cells = []
    try:
        for row in rows():
            if row.name in wanted:
                copied = measure(row, options.keep)
                cells.append((row.title, f"{row.body_bytes:,}", f"{copied:.2f}"))
    except (CopiesError, ChildError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    headings = ("relayed", "bytes of the body", "copied for each of them")
    print(table(headings, cells, (0,)))
    return 0


def measure(row: Row, keep: Path | None) -> float:
    """Return how many bytes are copied for each byte of a row's body.

    :raises CopiesError: valgrind does not tell, or an answer is wrong
    :raises omnigate.demo_children.ChildError: something does not come up
    """
    few, many = (_copied(row, times, keep) for times in (1, 1 + row.more))
    return (many - few) / (row.more * row.body_bytes)


def _copied(row: Row, times: int, keep: Path | None) -> int:
    """Return the bytes that a whole data plane copies which serves so many requests."""
    with tempfile.TemporaryDirectory(prefix="omnigate-bench-") as name, Children() as children:
        folder = Path(name)
        place = Place(folder, children, Cores(None, None))
        place.start_provider(5, [("whole", 1024), (row.kind, row.request_bytes)])
        told = folder / "valgrind.log"
        profile = folder / "profile" if keep is None else keep / f"{row.name}-{times}.dhat"
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        under = ["valgrind", "--tool=dhat", "--mode=copy", f"--dhat-out-file={profile}"]
        under += [f"--log-file={told}", "--num-callers=30"]
        gateway = place.start_gateway(children, under=under, seconds=START_SECONDS)
        result = load.run(
            load.Load(
                port=gateway.port,
                connections=1,
                request=traffic.request_bytes(
                    row.kind, row.request_bytes, gateway.port, place.secrets.client_key
                ),
                payload=payload_of(row.kind),
                seconds=_LOAD_SECONDS,
                each=times,
            )
        )
        if result.broken or result.answered != times:
            raise CopiesError(f"{row.name}: {result.reasons or 'answers are missing'}")
        os.kill(gateway.program.pid, signal.SIGTERM)
        gateway.program.wait(_STOP_SECONDS)
        return read_total(told.read_text(encoding="utf-8", errors="replace"))


def read_total(told: str) -> int:
    """Return the bytes that DHAT has counted.

    :raises CopiesError: it tells none
    """
    found = _TOTAL.search(told)
    if found is None:
        raise CopiesError(f"valgrind told no total: {told[-500:]}")
    return int(found[1].replace(",", ""))

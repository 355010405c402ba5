"""The ledger's benchmark from the command line to its table."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from bench.ledger import parts
from bench.ledger.figures import Figure, document, table
from bench.ledger.parts import Bench, Options
from bench.ledger.senders import WrongAcknowledgementError
from omnigate.demo_children import ChildError

PARTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "ingest": parts.ingest,
    "start": parts.start,
    "memory": parts.memory,
    "wide": parts.wide,
}

#: Bounds of what may be asked for: beyond them the disk fills up before anybody notices.
MAX_EVENTS = 20_000_000
MAX_ROUNDS = 20


@attrs.frozen
class Asked:
    """What to measure, and what becomes of it."""

    options: Options
    names: list[str]
    json: Path | None
    check: bool


def main(arguments: list[str]) -> int:
    """Measure, print the table, and return the exit status.

    :returns: 0; 1 when something did not start or was recorded wrongly, or with ``--check`` when
        a figure misses its bar; 130 after Ctrl-C.
    """
    asked = parse(arguments)
    if not Path("/proc/self/schedstat").exists():
        print("ledger: needs Linux with scheduler statistics in /proc", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    figures: list[Figure] = []
    folder = Path(tempfile.mkdtemp(prefix="omnigate-ledger-", dir=asked.options.folder))
    bench = Bench(attrs.evolve(asked.options, folder=folder), _tell)
    try:
        for name in asked.names:
            figures += PARTS[name](bench)
    except (ChildError, WrongAcknowledgementError, OSError) as error:
        print(f"\nledger: FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nledger: interrupted; everything it started is stopped", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _tell("")
    print(table(figures))
    if asked.json is not None:
        asked.json.write_text(json.dumps(document(figures), indent=1) + "\n", "utf-8")
    over = [figure for figure in figures if figure.over]
    print(f"{len(figures)} figures, {len(over)} miss their bars")
    return 1 if over and asked.check else 0


def parse(arguments: list[str]) -> Asked:
    """Return what is to be measured.

    :raises SystemExit: with status 2 and a line that says what is wrong
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench ledger",
        description="Measures what the control plane's ledger costs, and how quick it starts.",
    )
    parser.add_argument(
        "--parts", metavar="A,B", default=",".join(PARTS), help=f"of {', '.join(PARTS)} (all)"
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="in a ledger (1000000)")
    parser.add_argument("--load", type=int, default=100_000, help="events of a load (100000)")
    parser.add_argument(
        "--unsaved", type=int, default=40_000, help="events since a snapshot at a kill (40000)"
    )
    parser.add_argument(
        "--ids", default="1000000", metavar="A,B", help="ids at which memory is told (1000000)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="the medians of which count (3)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="on the disk that is measured (the one for temporary files)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="fail where a bar is missed")
    given = parser.parse_args(arguments)
    names = [name for name in given.parts.split(",") if name]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        parser.error(f"no part {', '.join(unknown) or 'given'}; there are {', '.join(PARTS)}")
    try:
        ids = tuple(int(word) for word in given.ids.split(","))
    except ValueError:
        parser.error("--ids takes numbers with commas between them")
    for name, count in (
        ("events", given.events),
        ("load", given.load),
        ("unsaved", given.unsaved),
        *(("ids", count) for count in ids),
    ):
        if not 1 <= count <= MAX_EVENTS:
            parser.error(f"--{name} must be 1 to {MAX_EVENTS}")
    if list(ids) != sorted(set(ids)):
        parser.error("--ids must grow")
    if not 1 <= given.rounds <= MAX_ROUNDS:
        parser.error(f"--rounds must be 1 to {MAX_ROUNDS}")
    options = Options(
        events=given.events,
        load=given.load,
        unsaved=given.unsaved,
        ids=ids,
        rounds=given.rounds,
        folder=given.folder,
    )
    return Asked(options, names, given.json, given.check)


def _tell(line: str) -> None:
    """Show what is being done, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{line[:79]:79}\r", end="", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: object) -> None:
    """SIGTERM ends it the way Ctrl-C does."""
    raise KeyboardInterrupt

"""``python -m bench``: measures the gateway on this machine, and ends with a table."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import attrs

from bench import (
    admin_queries,
    baseline,
    copies,
    dashboard,
    flame,
    holds,
    jobs,
    media_jobs,
    quick,
    report,
    rounds,
    scan_bodies,
)
from bench.answers import WrongAnswerError
from bench.baseline import BaselineError
from bench.comparison import comparison
from bench.counted import CountError
from bench.in_memory import WrongExchangeError
from bench.ledger import run as ledger
from bench.rounds import MEMORY, Findings, Options
from bench.scenarios import SCENARIOS, START
from bench.soak import run as soak
from omnigate.admin_client import AdminError
from omnigate.demo_children import ChildError

#: Bounds of what may be asked for: a benchmark that runs for an hour is a mistake.
MAX_ROUNDS = 20
MAX_SECONDS = 30.0
MAX_WORKERS = 64

_NAMES = (MEMORY, START, *(scenario.name for scenario in SCENARIOS))
_USUAL = (MEMORY, START, *(scenario.name for scenario in SCENARIOS if scenario.usual))


@attrs.frozen
class Ends:
    """What becomes of the figures.

    :ivar json: where all of them go, too.
    :ivar baseline: the file of those that are kept.
    :ivar save: whether to keep these.
    :ivar limit: how many times a kept figure is a fault; ``None`` for none.
    """

    json: Path | None
    baseline: Path
    save: bool
    limit: float | None


def _scan(words: list[str]) -> int:
    sys.argv = ["python -m bench scan", *words]
    scan_bodies.main()
    return 0


#: What else there is to measure, and what does it: each is given the words behind its name.
_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "admin": admin_queries.main,
    "copies": copies.main,
    "dashboard": dashboard.main,
    "flame": flame.main,
    "holds": holds.main,
    "jobs": jobs.main,
    "ledger": ledger.main,
    "media-jobs": media_jobs.main,
    "quick": quick.main,
    "scan": _scan,
    "soak": soak.main,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and return the exit status.

    :returns: 0 when every answer was right, 1 when one was not, something did not start or a
        figure is over ``--check``, 2 for a wrong option, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in _COMMANDS:
        return _COMMANDS[words[0]](words[1:])
    options, ends = parse(words)
    if not Path("/proc/self/stat").exists():
        print("bench: needs Linux, for it reads /proc", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        baseline.read(ends.baseline)  # that it cannot be read is better known at once
        findings = rounds.run(options, _tell)
    except (
        ChildError,
        AdminError,
        BaselineError,
        CountError,
        WrongAnswerError,
        WrongExchangeError,
    ) as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted; everything it started is stopped", file=sys.stderr)
        return 130
    _tell("")
    print(report.text_report(findings, options))
    if ends.json is not None:
        text = json.dumps(report.document(findings, options), indent=1)
        ends.json.write_text(text + "\n", encoding="utf-8")
    for fault in findings.faults:
        print(f"\nbench: WRONG: {fault}", file=sys.stderr)
    if findings.faults:
        return 1
    try:
        return _compare(findings, ends)
    except BaselineError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1


def _compare(findings: Findings, ends: Ends) -> int:
    """Compare with what is kept, keep the figures where that was asked for; the exit status."""
    key = baseline.python_key()
    now = report.kept_figures(findings)
    pythons = baseline.read(ends.baseline)
    kin = baseline.nearest(pythons, key)
    status = 0
    if kin is None:
        print(f"\n{ends.baseline} keeps nothing for {key} or its like: nothing is compared.")
    else:
        found = list(baseline.changes(now, pythons[kin], kin == key))
        print("\n" + comparison(found, key, kin, pythons[kin]))
        if ends.limit is not None:
            for change in quick.over(found, ends.limit):
                print(f"bench: {change.name} is over {ends.limit:g} x", file=sys.stderr)
                status = 1
    if ends.save:
        baseline.save(ends.baseline, key, now)
        print(f"Kept for {key} in {ends.baseline}.")
    return status


def parse(arguments: list[str]) -> tuple[Options, Ends]:
    """Return what is to be measured, and what becomes of the figures.

    :raises SystemExit: with status 2 and a line that says what is wrong
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the gateway on this machine; bench/README.md says how to read it.",
        epilog="More, each with a --help of its own: 'python -m bench quick' compares exchanges in "
        "memory with what is kept, in ten seconds; 'copies' tells how often bytes are "
        "copied, 'scan' how long hostile request bodies hold the scan, 'holds' how long any one "
        "call holds the data plane, 'admin' and 'dashboard' how long the admin API and pages "
        "take over a million events, "
        "'ledger' what the control plane's ledger costs, 'soak' whether "
        "a bad day leaves anything behind; 'flame' draws a profile.",
    )
    parser.add_argument(
        "--scenarios",
        metavar="A,B",
        default=",".join(_USUAL),
        help=f"which to measure, of {', '.join(_NAMES)} ({','.join(_USUAL)})",
    )
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load (2)")
    parser.add_argument("--no-nginx", action="store_true", help="no ratios to nginx")
    parser.add_argument(
        "--no-control", action="store_true", help="no control plane: usage stays in the spool"
    )
    parser.add_argument("--no-pin", action="store_true", help="leave the cores to the kernel")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes of the gateway; with more than one nothing is pinned to a core (1)",
    )
    parser.add_argument("--no-valgrind", action="store_true", help="count no instructions")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every figure there too")
    parser.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        default=baseline.PATH,
        help="the figures to compare with",
    )
    parser.add_argument("--save-baseline", action="store_true", help="keep these figures there")
    parser.add_argument(
        "--check",
        metavar="LIMIT",
        type=float,
        help="fail where a figure is more than LIMIT times the kept one",
    )
    given = parser.parse_args(arguments)
    names = [name for name in given.scenarios.split(",") if name]
    unknown = [name for name in names if name not in _NAMES]
    if unknown or not names:
        parser.error(f"no scenario {', '.join(unknown) or 'given'}; there are {', '.join(_NAMES)}")
    if not 1 <= given.rounds <= MAX_ROUNDS:
        parser.error(f"--rounds must be 1 to {MAX_ROUNDS}")
    if not 0.1 <= given.seconds <= MAX_SECONDS:
        parser.error(f"--seconds must be 0.1 to {MAX_SECONDS:g}")
    if not 1 <= given.workers <= MAX_WORKERS:
        parser.error(f"--workers must be 1 to {MAX_WORKERS}")
    if given.workers > 1 and given.no_control:
        parser.error("--workers needs the control plane: without it usage is read from one spool")
    options = Options(
        names=names,
        rounds=given.rounds,
        seconds=given.seconds,
        nginx=not given.no_nginx,
        control=not given.no_control,
        pin=not given.no_pin,
        valgrind=not given.no_valgrind,
        workers=given.workers,
    )
    return options, Ends(given.json, given.baseline, given.save_baseline, given.check)


def _tell(line: str) -> None:
    """Show what is being done, on a terminal only: one line that is written over."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
        print(f"\r{line[:width]:{width}}\r", end="", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the benchmark the way Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

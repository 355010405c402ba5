"""``python -m bench``: measures the gateway on this machine, and ends with a table."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from bench import flame, holds, report, rounds, scan_bodies
from bench.rounds import Options
from bench.scenarios import SCENARIOS, START
from bench.soak import run as soak
from omnigate.admin_client import AdminError
from omnigate.demo_children import ChildError

#: Bounds of what may be asked for: a benchmark that runs for an hour is a mistake.
MAX_ROUNDS = 20
MAX_SECONDS = 30.0

_NAMES = (START, *(scenario.name for scenario in SCENARIOS))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and return the exit status.

    :returns: 0 when every answer was right, 1 when one was not or something did not start, 2 for
        a wrong option, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["scan"]:
        sys.argv = ["python -m bench scan", *words[1:]]
        scan_bodies.main()
        return 0
    if words[:1] == ["holds"]:
        return holds.main(words[1:])
    if words[:1] == ["flame"]:
        return flame.main(words[1:])
    if words[:1] == ["soak"]:
        return soak.main(words[1:])
    options, json_path = parse(words)
    if not Path("/proc/self/stat").exists():
        print("bench: needs Linux, for it reads /proc", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        findings = rounds.run(options, _tell)
    except (ChildError, AdminError) as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted; everything it started is stopped", file=sys.stderr)
        return 130
    _tell("")
    print(report.text_report(findings, options))
    if json_path is not None:
        text = json.dumps(report.document(findings, options), indent=1)
        json_path.write_text(text + "\n", encoding="utf-8")
    for fault in findings.faults:
        print(f"\nbench: WRONG: {fault}", file=sys.stderr)
    return 1 if findings.faults else 0


def parse(arguments: list[str]) -> tuple[Options, Path | None]:
    """Return what is to be measured, and where the figures go.

    :raises SystemExit: with status 2 and a line that says what is wrong
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the gateway on this machine; bench/README.md says how to read it.",
        epilog="'python -m bench scan' measures the scan of hostile request bodies instead, and "
        "'python -m bench soak' whether anything is left behind by a bad day.",
    )
    parser.add_argument(
        "--scenarios",
        metavar="A,B",
        default=",".join(_NAMES),
        help="which to measure, of " + ", ".join(_NAMES) + " (all)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load (2)")
    parser.add_argument("--no-nginx", action="store_true", help="no ratios to nginx")
    parser.add_argument(
        "--no-control", action="store_true", help="no control plane: usage stays in the spool"
    )
    parser.add_argument("--no-pin", action="store_true", help="leave the cores to the kernel")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every figure there too")
    given = parser.parse_args(arguments)
    names = [name for name in given.scenarios.split(",") if name]
    unknown = [name for name in names if name not in _NAMES]
    if unknown or not names:
        parser.error(f"no scenario {', '.join(unknown) or 'given'}; there are {', '.join(_NAMES)}")
    if not 1 <= given.rounds <= MAX_ROUNDS:
        parser.error(f"--rounds must be 1 to {MAX_ROUNDS}")
    if not 0.1 <= given.seconds <= MAX_SECONDS:
        parser.error(f"--seconds must be 0.1 to {MAX_SECONDS:g}")
    options = Options(
        names=names,
        rounds=given.rounds,
        seconds=given.seconds,
        nginx=not given.no_nginx,
        control=not given.no_control,
        pin=not given.no_pin,
    )
    return options, given.json


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

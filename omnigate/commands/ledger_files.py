"""What ``omnigate ledger`` does with the files, and what it prints."""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from functools import partial
from typing import BinaryIO

from omnigate.commands.arguments import CommandError, counted
from omnigate.commands.progress import Progress
from omnigate.files import file_size, list_names, replace_file
from omnigate.ledger.export import Export, as_csv, as_jsonl
from omnigate.ledger.family import Family
from omnigate.ledger.findings import DeletedMeanwhileError
from omnigate.ledger.reading import segments_of
from omnigate.ledger.verify import verify
from omnigate.periods import DAY_MS
from omnigate.settings import ledger_path
from omnigate.text import one_line

# Of what was found: a path of 4,096 and some words.
_LINE_CHARS = 5_000

#: Faults that are told one by one; the others are counted.
_FAULTS_TOLD = 20

#: How long a control plane takes to write a snapshot, and a busy disk to sync it.
_SETTLE_SECONDS = 2.0

#: Where a ledger is looked for if nothing names one: that of the units, and that of a control plane
#: that was started without OMNIGATE_STATE_DIR.
SYSTEM_FOLDERS = ("/var/lib/omnigate/control", "/var/lib/omnigate")

# What names one.
_NAMING = ("OMNIGATE_LEDGER", "OMNIGATE_STATE_DIR", "STATE_DIRECTORY")
_ACTIVE = "ledger.jsonl"

#: Files that stand beside the active segment and are no segments.
_BESIDE = re.compile(
    r"(.+)\.(?:snapshot(?:\.prev|\.tmp)?|ids\.[-\d]+(?:\.table)?)(?:\.damaged(?:\.\d)?)?", re.DOTALL
)


def run_verify(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Check everything, and print what was found."""
    family = _family(options.path, environ)
    progress = _progress(family, options)
    try:
        findings = verify(family, options.ids_days, progress, partial(time.sleep, _SETTLE_SECONDS))
    except OSError as error:
        raise CommandError(f"{error.filename or family.folder}: {error.strerror}") from None
    except DeletedMeanwhileError as error:
        raise CommandError(f"{error} was deleted while it was to be read; run this again") from None
    finally:
        progress.clear()
    texts = [counted(findings.segments, "segment"), counted(findings.events, "event")]
    if findings.duplicates:
        texts.append(f"{counted(findings.duplicates, 'duplicate')} skipped")
    _say(f"{family.active}: {', '.join(texts)}")
    for text in (*findings.checked, *findings.notes):
        _say(text)
    if not findings.count:
        _say("no difference")
        return 0
    _say(f"first difference: {findings.first[0]}")
    for difference in findings.first[1:]:
        _say(f"then: {difference}")
    if findings.count > len(findings.first):
        _say(f"and {findings.count - len(findings.first):,} more")
    return 1


def _say(text: str) -> None:
    """Print a line of what was found; paths and what is in files may hold anything."""
    print(one_line(text, _LINE_CHARS))


def run_export(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the events of some days."""
    if options.since and options.until and options.since > options.until:
        raise CommandError("--since is after --until", status=2)
    family = _family(options.path, environ)
    if options.output is not None:
        _spare_the_ledger(options.output, family)
    progress = _progress(family, options)
    faults = _Faults(progress)
    export = Export(
        family,
        0 if options.since is None else _day_ms(options.since),
        sys.maxsize if options.until is None else _day_ms(options.until) + DAY_MS,
        options.ids_days,
        faults.tell,
        progress,
    )
    try:
        csv = options.format == "csv"
        pieces = as_csv(export.objects()) if csv else as_jsonl(export.lines())
        _write(pieces, options.output)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = error.filename or options.output or "standard output"
        raise CommandError(f"{name}: {error.strerror}") from None
    finally:
        progress.clear()
    faults.tell_the_rest()
    events = counted(export.events, "event")
    source = "" if options.path else f" out of {one_line(family.active, 200)}"
    print(f"omnigate: {events} exported{source}{_left_out(export)}", file=sys.stderr)
    return 1 if export.faults else 0


def _left_out(export: Export) -> str:
    """What was not exported, in words."""
    texts = []
    if export.duplicates:
        texts.append(f"{counted(export.duplicates, 'duplicate')} skipped")
    if export.faults:
        texts.append(counted(export.faults, "fault"))
    return "".join(f"; {text}" for text in texts)


def _write(pieces: Iterable[bytes], output: str | None) -> None:
    """Write to a file, the whole of it or nothing; to a device, a pipe, or standard output."""
    if output is None:
        _write_to(sys.stdout.buffer, pieces)
    elif os.path.exists(output) and not os.path.isfile(output):
        # What stands there is not replaced: /dev/null is everybody's.
        with open(output, "wb") as stream:
            _write_to(stream, pieces)
    else:
        # Nor is a link, such as /dev/stdout is, but the file that it leads to.
        replace_file(os.path.realpath(output), pieces)


def _write_to(stream: BinaryIO, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        stream.write(piece)
    stream.flush()


class _Faults:
    """Tells the first faults one by one, and counts the others."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._count = 0

    def tell(self, text: str) -> None:
        """Tell one fault."""
        self._count += 1
        if self._count <= _FAULTS_TOLD:
            self._progress.clear()
            print(f"omnigate: {one_line(text, 1000)}", file=sys.stderr)

    def tell_the_rest(self) -> None:
        """Tell how many were not told."""
        if self._count > _FAULTS_TOLD:
            print(f"omnigate: and {self._count - _FAULTS_TOLD:,} more like these", file=sys.stderr)


def _family(path: str | None, environ: Mapping[str, str]) -> Family:
    """Return the family that a path, or else the environment, names.

    :raises CommandError: there is nothing of it.
    """
    if path is None:
        if not any(environ.get(name) for name in _NAMING):
            return _family_of_the_units()
        path = ledger_path(environ)
    elif os.path.isdir(path):
        path = os.path.join(path, _ACTIVE)
    elif beside := _BESIDE.fullmatch(path):
        raise CommandError(
            f"{path}: this is made of the segments; name {beside[1]}.jsonl, the active one, or the "
            "folder",
            status=2,
        )
    family = Family(os.path.abspath(path))
    if not _is_there(family):
        raise CommandError(
            f"{path}: there is no ledger; name its active segment or its folder, or set "
            "OMNIGATE_LEDGER or OMNIGATE_STATE_DIR",
            status=2,
        )
    return family


def _family_of_the_units() -> Family:
    """Return the family of this machine's control plane, where nothing says where that is.

    :raises CommandError: there is none, or more than one.
    """
    families = [Family(os.path.join(folder, _ACTIVE)) for folder in SYSTEM_FOLDERS]
    there = [family for family in families if os.path.isdir(family.folder) and _is_there(family)]
    if len(there) == 1:
        return there[0]
    raise CommandError(
        f"there is {'more than one' if there else 'no'} ledger in {' and '.join(SYSTEM_FOLDERS)}; "
        "name its active segment or its folder, or set OMNIGATE_LEDGER or OMNIGATE_STATE_DIR",
        status=2,
    )


def _is_there(family: Family) -> bool:
    """Whether any file of a ledger is there.

    :raises CommandError: its folder cannot be read.
    """
    try:
        found = family.found(list_names(family.folder))
        there = [name for name in (family.active, family.snapshot, family.spare) if _is_file(name)]
    except OSError as error:
        raise CommandError(f"{family.folder}: {error.strerror}") from None
    return bool(there or found.sealed)


def _progress(family: Family, options: argparse.Namespace) -> Progress:
    """Begin to tell how much of the segments is read."""
    try:
        total = sum(segment.size() or 0 for segment in segments_of(family))
    except OSError as error:
        raise CommandError(f"{family.folder}: {error.strerror}") from None
    return Progress(total, options.progress)


def _spare_the_ledger(output: str, family: Family) -> None:
    """Refuse to write over a file of the ledger."""
    folder, name = os.path.split(os.path.realpath(output))
    if folder != os.path.realpath(family.folder):
        return
    stem = os.path.basename(family.stem)
    if name == os.path.basename(family.active) or name.startswith(f"{stem}."):
        raise CommandError(f"--output: {output} could be a file of the ledger itself", status=2)


def _is_file(path: str) -> bool:
    return file_size(path) is not None


def _day_ms(day: str) -> int:
    """The first millisecond of a UTC day."""
    return (date.fromisoformat(day) - date(1970, 1, 1)) // timedelta(days=1) * DAY_MS

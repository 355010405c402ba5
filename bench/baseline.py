"""The figures that are kept in ``bench/baseline.json``, and what became of them since.

Kept are only measures that do not drift as a machine becomes slower and faster: instructions, yards
(processor time over that of a fixed piece of work, :mod:`bench.relative`) and processor time over
nginx's. Between two kinds of machines yards do differ, by 1.2 to 1.4. They are kept for each Python
by itself: one that was built with all optimizations takes other paths.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import msgspec

from bench import yardstick

PATH: Final = Path(__file__).with_name("baseline.json")

YARDS: Final = "yards"
INSTRUCTIONS: Final = "instructions"
NGINX: Final = "x nginx"

#: By how much a figure of each measure differs between two runs of the same code: more is told.
SPREAD: Final = {YARDS: 0.07, INSTRUCTIONS: 0.01, NGINX: 0.15}
#: By how much more it does between two Pythons.
OTHER_PYTHON_SPREAD: Final = 0.10


class BaselineError(Exception):
    """The kept figures cannot be read or written; the text says why."""


class Kept(msgspec.Struct, kw_only=True):
    """The figures of one Python; every measure by the name of what was measured.

    ``measured`` is a day, ``python`` and ``machine`` are for people.
    """

    measured: str
    python: str
    machine: str
    yards: dict[str, float] = {}
    instructions: dict[str, float] = {}
    nginx: dict[str, float] = {}

    def of(self, measure: str) -> dict[str, float]:
        """Return the figures of one measure."""
        return {YARDS: self.yards, INSTRUCTIONS: self.instructions, NGINX: self.nginx}[measure]


class _File(msgspec.Struct):
    yardstick: int
    pythons: dict[str, Kept]


@attrs.frozen
class Change:
    """One figure, now and then.

    :ivar spread: by which it may differ without a reason.
    """

    name: str
    measure: str
    now: float
    kept: float
    spread: float

    @property
    def ratio(self) -> float:
        """How many times the kept figure it is; below 1 is better."""
        return self.now / self.kept

    @property
    def verdict(self) -> str:
        """Return what to say of it."""
        if abs(self.ratio - 1) <= self.spread:
            return "same"
        return "worse" if self.ratio > 1 else "better"


def python_key() -> str:
    """Return the Python that runs, as baselines are kept by: implementation, version, build.

    A build is ``optimized`` where it was configured so, ``distribution`` where it is the system's
    own (which optimizes by means that its configuration does not tell), else ``plain``.
    """
    words = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return key_of(sys.implementation.name, sys.version_info[:2], words, sys.base_prefix)


def key_of(implementation: str, version: tuple[int, int], words: str, prefix: str) -> str:
    """Return the key of a Python.

    :param words: what it was configured with.
    :param prefix: where it is installed.
    """
    build = "plain"
    if "--enable-optimizations" in words:
        build = "optimized"
    elif prefix == "/usr":
        build = "distribution"
    return f"{implementation}-{version[0]}.{version[1]} {build}"


def read(path: Path) -> dict[str, Kept]:
    """Return what is kept, by Python; nothing where there is no file or its yard is another.

    :raises BaselineError: the file cannot be read
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror or error}") from None
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.MsgspecError as error:
        raise BaselineError(f"{path} is no baseline: {error}") from None
    for kept in file.pythons.values():
        figures = [*kept.yards.values(), *kept.instructions.values(), *kept.nginx.values()]
        if not all(figure > 0 for figure in figures):
            raise BaselineError(f"{path} is no baseline: a figure is not above 0")
    if file.yardstick != yardstick.VERSION:
        for kept in file.pythons.values():
            kept.yards = {}
    return file.pythons


def save(path: Path, key: str, now: Kept) -> None:
    """Keep the figures of one Python; what was not measured now stays as it was.

    :raises BaselineError: the file cannot be read or written
    """
    pythons = read(path)
    before = pythons.get(key)
    if before is not None:
        now = msgspec.structs.replace(
            now,
            yards={**before.yards, **now.yards},
            instructions={**before.instructions, **now.instructions},
            nginx={**before.nginx, **now.nginx},
        )
    pythons[key] = now
    file = _File(yardstick.VERSION, dict(sorted(pythons.items())))
    text = msgspec.json.format(msgspec.json.encode(file), indent=1)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror or error}") from None


def nearest(pythons: Mapping[str, Kept], key: str) -> str | None:
    """Return the Python whose figures to compare with: this one, else its nearest of kin.

    Between two builds of one version most yards differ by a tenth, those of long bodies by more.
    """
    if key in pythons:
        return key
    implementation, version, build = _parts(key)

    def distance(other: str) -> tuple[int, bool, str]:
        _, others_version, others_build = _parts(other)
        return abs(others_version - version), others_build != build, other

    kin = [other for other in pythons if _parts(other)[0] == implementation]
    return min(kin, key=distance, default=None)


def _parts(key: str) -> tuple[str, int, str]:
    """Return implementation, minor version and build."""
    name, _, build = key.partition(" ")
    implementation, _, version = name.partition("-")
    return implementation, int(version.rpartition(".")[2] or 0), build


def changes(now: Kept, kept: Kept, same_python: bool) -> Iterator[Change]:
    """Yield what can be compared: instructions only of the same Python."""
    for measure in (INSTRUCTIONS, YARDS, NGINX):
        if measure == INSTRUCTIONS and not same_python:
            continue
        before = kept.of(measure)
        for name, figure in now.of(measure).items():
            if name in before:
                spread = SPREAD[measure] + (0.0 if same_python else OTHER_PYTHON_SPREAD)
                yield Change(name, measure, figure, before[name], spread)


def figures(
    yards: Mapping[str, float], instructions: Mapping[str, float], nginx: Mapping[str, float]
) -> Kept:
    """Return figures of now, to compare or to keep; three digits of each mean something."""
    return Kept(
        measured=datetime.datetime.now(datetime.UTC).date().isoformat(),
        python=platform.python_version(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        yards={name: float(f"{figure:.4g}") for name, figure in yards.items()},
        instructions={name: round(figure) for name, figure in instructions.items()},
        nginx={name: float(f"{figure:.3g}") for name, figure in nginx.items()},
    )

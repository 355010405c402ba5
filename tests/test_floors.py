"""The floors of the house: who may import whom.

A module may import what stands below its floor, and its own package. The walk reads the source
and imports nothing, so a fault is found wherever it stands, inside functions too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "omnigate"

# A module or package of omnigate, and the floor it stands on. A new one must be entered here.
FLOORS = {
    **dict.fromkeys(
        (
            "attested",
            "backoff",
            "capabilities",
            "client_address",
            "certificate_files",
            "certificates",
            "collector",
            "errors",
            "events",
            "files",
            "folder_watch",
            "metric_families",
            "metric_text",
            "money",
            "named_files",
            "periods",
            "reactor_lag",
            "sealed_protocol",
            "settings",
            "settings_table",
            "daemon_service",
            "systemd_notify",
            "text",
            "tls_endpoint",
            "token_bucket",
            "upstream_state",
            "writer_thread",
        ),
        0,
    ),
    "wire": 1,
    "config": 2,
    "dialects": 2,
    "protocols": 3,
    "outbound": 4,
    "testing": 5,
    "jobs": 5,
    "receipts": 5,
    "ledger": 5,
    "control": 6,
    "gateway": 6,
    "admin_client": 7,
    "cli": 7,
    "commands": 7,
    "control_tap": 7,
    "daemon": 7,
    "data_client": 7,
    "data_parts": 7,
    "data_tap": 7,
    "open_files": 7,
    "workers": 7,
    "demo": 7,
    "demo_children": 7,
    "demo_media": 7,
}

# What the floors alone would allow, and the house does not: importer, and what it must not know.
FORBIDDEN = {
    "wire": {"files", "writer_thread", "settings", "systemd_notify"},
    "config": {"files", "writer_thread", "systemd_notify"},
    "dialects": {"files", "writer_thread", "settings", "systemd_notify", "money"},
    "protocols": {"files", "writer_thread", "settings", "money", "config"},
    "outbound": {"files", "writer_thread", "settings", "money", "config"},
    "jobs": {"protocols"},
    "ledger": {"protocols"},
    "receipts": {"protocols"},
    "gateway": {"jobs", "ledger", "receipts"},
    "control": {"protocols"},
}

# Fakes are for tests, the demo and the roots; nothing that runs in earnest leans on them.
MAY_USE_FAKES = {"testing", "demo", "cli"}

# Modules that are also programs of their own (``python -m``), and start a reactor as such.
PROGRAMS = {"testing/provider.py", "testing/media/provider.py", "testing/attested.py"}

# Rooms on one floor that may nevertheless import the other: importer, imported.
ALLOWED = {("jobs", "ledger")}

# What a room must not know of the outside: sockets, clocks and files stand in shells.
OUTSIDE = {
    "wire": ("twisted", "time", "socket", "os", "pathlib", "io", "asyncio", "threading"),
    "dialects": ("twisted", "time", "socket", "os", "pathlib", "asyncio", "threading"),
    "config": ("twisted", "time", "socket", "os", "pathlib", "asyncio", "threading"),
}


def modules() -> list[Path]:
    """Return every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """Return the module or package, right below omnigate, that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each name that a module imports, dotted and absolute, with its line.

    ``from a import b`` gives ``a.b``, whether ``b`` is a module or a name in one.
    """
    package = ("omnigate", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                yield ".".join([*base, alias.name]), node.lineno


def may_import(importer: str, target: str) -> bool:
    """Return whether the room ``importer`` may know the room ``target``."""
    if importer == target or (importer, target) in ALLOWED:
        return True
    if target in FORBIDDEN.get(importer, ()):
        return False
    if target == "testing":
        return importer in MAY_USE_FAKES
    if FLOORS[importer] == FLOORS[target]:
        # Floor 0 is one package in all but name; the roots only put parts together.
        return FLOORS[importer] in (0, 7)
    return FLOORS[importer] > FLOORS[target]


def faults_of(path: Path) -> list[str]:
    """Return what a module imports and must not, one line each."""
    importer, faults = room(path), []
    for name, line in imported(path):
        place = f"{path.relative_to(ROOT)}:{line} imports {name}"
        parts = name.split(".")
        if parts[0] == "omnigate" and len(parts) > 1 and not parts[1].startswith("__"):
            if parts[1] not in FLOORS:
                faults.append(f"{place}, which stands on no floor")
            elif not may_import(importer, parts[1]):
                faults.append(f"{place}, which {importer} must not know")
        if parts[0] in OUTSIDE.get(importer, ()):
            faults.append(f"{place}, but {importer} is pure")
        starts = FLOORS[importer] == 7 or str(path.relative_to(PACKAGE)) in PROGRAMS
        if (name + ".").startswith("twisted.internet.reactor.") and not starts:
            faults.append(f"{place}; hand it in instead")
    return faults


class FloorTests(SynchronousTestCase):
    def test_every_room_stands_on_a_floor(self) -> None:
        """A new module or package is given its floor before it is used."""
        rooms = {room(path) for path in modules()} - {"__init__"}
        self.assertEqual(sorted(rooms - set(FLOORS)), [])

    def test_nothing_imports_what_stands_above_or_beside_it(self) -> None:
        """Every import goes down, or stays in its own package."""
        faults = [fault for path in modules() if room(path) in FLOORS for fault in faults_of(path)]
        self.assertEqual(faults, [])

    def test_packages_hold_a_docstring_and_nothing_else(self) -> None:
        """What a package is stands at its door; code stands in its modules."""
        for path in PACKAGE.rglob("__init__.py"):
            docstring, *rest = ast.parse(path.read_bytes()).body
            self.assertTrue(
                isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant), path
            )
            if path.parent == PACKAGE:
                names = [
                    ast.unparse(node.targets[0]) for node in rest if isinstance(node, ast.Assign)
                ]
                self.assertEqual((names, len(rest)), (["__version__"], 1))
            else:
                self.assertEqual(rest, [], path)


class RuleTests(SynchronousTestCase):
    def test_the_walk_sees_every_way_to_import(self) -> None:
        """The test itself would notice: plain, aliased, relative, and within a function."""
        source = (
            "import omnigate.control.keys as k\n"
            "from omnigate import gateway\n"
            "from twisted.internet import reactor\n"
            "def f():\n"
            "    from ..ledger.service import Ledger\n"
            "    from . import head\n"
        )
        path = PACKAGE / "wire" / "imagined.py"
        names = list(self.walked(path, source))
        self.assertEqual(
            names,
            [
                "omnigate.control.keys",
                "omnigate.gateway",
                "twisted.internet.reactor",
                "omnigate.ledger.service.Ledger",
                "omnigate.wire.head",
            ],
        )

    def walked(self, path: Path, source: str) -> list[str]:
        """Return the imports of ``source`` as if it stood at ``path``."""
        self.patch(Path, "read_bytes", lambda _: source.encode())
        return [name for name, _ in sorted(imported(path), key=lambda found: found[1])]

    def test_the_rules(self) -> None:
        """Samples of what is allowed and what is not."""
        allowed = [("gateway", "wire"), ("ledger", "files"), ("events", "text"), ("jobs", "ledger")]
        allowed += [("data_tap", "gateway"), ("testing", "protocols"), ("protocols", "dialects")]
        for pair in allowed:
            self.assertTrue(may_import(*pair), pair)
        refused = [("gateway", "control"), ("gateway", "ledger"), ("control", "protocols")]
        refused += [
            ("ledger", "protocols"),
            ("ledger", "jobs"),
            ("text", "wire"),
            ("wire", "config"),
        ]
        refused += [("config", "dialects"), ("testing", "ledger"), ("gateway", "testing")]
        refused += [("ledger", "testing"), ("data_tap", "testing"), ("protocols", "files")]
        for pair in refused:
            self.assertFalse(may_import(*pair), pair)

"""The collection of field cases that may lie beside the checkout, played against the real daemons.

The collection has a runner and an adapter of its own; here they are told which daemons to start.
Where it is not there, nothing is tried: what the project needs of it for good stands in
``tests/planes``.
"""

import importlib.util
import os
import shlex
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import python_environ
from tests.process.daemons import shared_folder

#: Cases at once. Each has two daemons and spends most of its time in waits of its script.
WORKERS = 2


def load(path: Path) -> ModuleType:
    """A program of the collection as a module, a fresh one at each call."""
    spec = importlib.util.spec_from_file_location(f"collection_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CasesTests(SynchronousTestCase):
    """Every required case that needs nothing but what there is."""

    def setUp(self) -> None:
        self.folder = shared_folder("cases", "run_cases.py")
        self.runner: Any = load(self.folder / "run_cases.py")
        self.cases = [
            case
            for _, case in self.runner.load_cases(str(self.folder), None, None, None)
            if case["spec"] == "required"
        ]

    def start_with_ours(self) -> None:
        """Have the adapter start the daemons of this checkout with this Python."""
        place = tempfile.TemporaryDirectory(prefix="omnigate-test-cases-")
        self.addCleanup(place.cleanup)
        program = Path(place.name, "twistd")
        path = shlex.quote(python_environ({}).get("PYTHONPATH", ""))
        run = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
        command = f'{shlex.quote(sys.executable)} -c "{run}" "$@"'
        program.write_text(f"#!/bin/sh\nPYTHONPATH={path} exec {command}\n")
        program.chmod(0o700)
        ours = {"OMNIGATE_TWISTD": str(program), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        os.environ.update(ours)

    def test_required(self) -> None:
        """All of them pass."""
        self.start_with_ours()
        self.assertTrue(self.cases)
        # The adapter keeps its daemons in a global: each worker has one of its own.
        queues = [self.cases[start::WORKERS] for start in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            failed = [line for lines in pool.map(self.play, queues) for line in lines]
        self.assertEqual(failed, [], "\n".join(failed))

    def play(self, cases: list[dict[str, Any]]) -> list[str]:
        """Play some cases in turn; what failed, and why."""
        adapter = load(self.folder / "adapter.py")
        failed = []
        for case in cases:
            result = self.runner.run_case(case, adapter)
            if result.outcome != "PASS":
                reasons = "; ".join([*result.bad, *result.notes])
                failed.append(f"{case['id']}: {result.outcome}: {reasons}")
        return failed

"""The data plane behaves alike on Twisted's reactor and on its own, over real sockets."""

import json
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import python_environ

# What a run may take on a loaded machine; it takes three.
SECONDS = 60

OK = {"status": 200, "estimated": False, "outcomes": ["ok"]}
WHOLE_BYTES = 221

EXPECTED: dict[str, tuple[list[list[Any]], str, list[dict[str, Any]], list[str]]] = {
    "whole": ([[200, True, WHOLE_BYTES]], "closed", [OK], []),
    "pipelined": ([[200, True, WHOLE_BYTES]] * 21, "closed", [OK] * 21, []),
    "slow reader": ([[200, True, 6012091]], "closed", [OK], []),
    "stream": ([[200, True, 213]], "closed", [OK], []),
    "cut": (
        [[200, False, 122]],
        "closed",
        [{"status": 499, "estimated": True, "outcomes": ["truncated"]}],
        [],
    ),
    "client leaves": ([], "reset", [{**OK, "status": 499}], []),
    "client leaves a big one": ([], "reset", [{**OK, "status": 499}], []),
    "stale and closed": (
        [[200, True, WHOLE_BYTES], [502, True, 167]],
        "closed",
        [OK, {"status": 502, "estimated": False, "outcomes": ["connection_lost"]}],
        [],
    ),
    "refused": (
        [[200, True, WHOLE_BYTES]],
        "closed",
        [{**OK, "outcomes": ["connect_error", "ok"]}],
        [],
    ),
    "unread body": ([[404, True, 134]], "closed", [], ["not_found"]),
    "garbage": ([[400, True, 125]], "closed", [], ["invalid_request"]),
    "half a head": ([], "closed", [], []),
}


class ReactorTests(SynchronousTestCase):
    def test_alike(self) -> None:
        """Answers, ends, events and refusals are the same on either reactor, and none is left."""
        children = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tests.process.reactor_child", *arguments],
                env=python_environ({}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for name, arguments in (("EPollReactor", []), ("LeanReactor", ["omnigate"]))
        }
        for name, child in children.items():
            try:
                out, err = child.communicate(timeout=SECONDS)
            finally:
                child.kill()
            self.assertEqual((0, b""), (child.returncode, err), name)
            told = json.loads(out)
            self.assertEqual(name, told["reactor"])
            scenes = told["scenes"]
            self.assertEqual(0, scenes.pop("watched"), name)
            self.assertEqual(set(EXPECTED), set(scenes))
            for scene, (answers, end, events, refused) in EXPECTED.items():
                self.assertEqual(
                    {
                        "answers": answers,
                        "end": end,
                        "events": events,
                        "refused": refused,
                        "in flight": 0,
                    },
                    scenes[scene],
                    f"{scene} on {name}",
                )

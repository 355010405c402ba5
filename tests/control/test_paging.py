"""Pages of lists over HTTP."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.control.plane import Plane, event


class ListTests(SynchronousTestCase):
    """The lists of the admin API."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())

    def pages(self, target: str, member: str, name: str, cursor: str) -> list[list[Any]]:
        """The names on each page, following ``next`` from the first one."""
        found, query = [], ""
        while True:
            answer = self.plane.admin("GET", target + query).json()
            found.append([row[name] for row in answer[member]])
            if answer["next"] is None:
                return found
            query = f"&{cursor}={answer['next']}"

    def test_keys(self) -> None:
        """Of both kinds."""
        for name in ("m1", "m2", "m3"):
            self.plane.admin("POST", "/admin/keys", json.dumps({"name": name}).encode())
        self.assertEqual(
            self.pages("/admin/keys?limit=3", "keys", "name", "after"),
            [["app", "m1", "m2"], ["m3"]],
        )

    def test_requests(self) -> None:
        """Newest first; behind an id that is not kept there is nothing."""
        events = [event(id=f"e{n}") for n in range(5)]
        self.plane.internal(
            "POST", "/internal/usage/batch", json.dumps({"events": events}).encode()
        )
        self.assertEqual(
            self.pages("/admin/requests?limit=2", "requests", "id", "before"),
            [["e4", "e3"], ["e2", "e1"], ["e0"]],
        )
        answer = self.plane.admin("GET", "/admin/requests?before=gone").json()
        self.assertEqual((answer["requests"], answer["next"]), ([], None))

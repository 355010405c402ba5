"""The audit log over HTTP."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.audit import AuditEntry
from tests.control.plane import Plane


class AuditApiTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.addCleanup(self.plane.close)

    def record(self, count: int) -> None:
        for n in range(count):
            entry = AuditEntry("key.create", "admin-token", f"k{n}", detail={"rpm": n})
            self.successResultOf(Deferred.fromCoroutine(self.plane.audit.record(entry)))

    def page(self, query: str = "") -> Any:
        reply = self.plane.admin("GET", f"/admin/audit{query}")
        self.assertEqual(reply.status, 200)
        return reply.json()

    def test_form(self) -> None:
        """A line stands in the answer as it stands in the file."""
        self.record(1)
        with open(self.plane.audit.path, "rb") as file:
            line = file.read().strip()
        reply = self.plane.admin("GET", "/admin/audit")
        self.assertEqual(reply.body, b'{"entries":[%b],"next":null}' % line)

    def test_pages(self) -> None:
        """Following ``next`` tells every line once, newest first, however the pages fall."""
        self.record(23)
        for limit in (1, 7, 22, 23, 24):
            seqs, query, pages = [], f"?limit={limit}", 0
            while query:
                page = self.page(query)
                seqs += [row["seq"] for row in page["entries"]]
                query = f"?limit={limit}&before={page['next']}" if page["next"] else ""
                pages += 1
            self.assertEqual(seqs, list(range(23, 0, -1)))
            self.assertEqual(pages, -(-23 // limit))

    def test_bounds(self) -> None:
        """Numbers beyond their bounds are refused, and so is what it does not know."""
        for query in ("limit=0", "limit=1001", "limit=x", "before=0", "before=-1", "before=1e3"):
            self.assertEqual(self.plane.admin("GET", f"/admin/audit?{query}").status, 400, query)
        self.assertEqual(self.plane.admin("GET", f"/admin/audit?before={'9' * 16}").status, 400)
        self.assertEqual(self.plane.admin("GET", "/admin/audit?since=1").status, 400)
        self.assertEqual(self.plane.admin("POST", "/admin/audit").status, 405)
        self.assertEqual(self.page(f"?before={'9' * 15}")["entries"], [])

    def test_before_it_is_open(self) -> None:
        """A log that is not read back yet is not an empty one."""
        plane = Plane(self.mktemp(), open_ledger=False)
        self.assertEqual(plane.admin("GET", "/admin/audit").status, 503)

    def test_others_are_not_shown_it(self) -> None:
        """It takes the credential of an operator."""
        self.assertEqual(self.plane.internal("GET", "/admin/audit").status, 401)

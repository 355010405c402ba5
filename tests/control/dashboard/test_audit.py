"""The page of the audit log, and what it is made of."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.audit_line import AuditLine
from omnigate.control.dashboard import audit_view
from omnigate.control.dashboard.audit_view import (
    AuditPart,
    Member,
    Story,
    Wanted,
    part_of,
    text_of,
)
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import Plane


def line(seq: int, action: str = "key.change", **members: Any) -> AuditLine:
    values: dict[str, Any] = {
        "ts": "2026-11-29T20:00:00.000Z",
        "actor": "admin-token",
        "address": "10.0.0.7",
        "target": "app",
        "outcome": "done",
        "request_id": f"r{seq}",
        "detail": {},
    }
    return AuditLine(seq=seq, action=action, **(values | members))


class PartTests(SynchronousTestCase):
    """A page of lines."""

    def setUp(self) -> None:
        self.patch(audit_view, "LINES_A_PAGE", 2)
        self.lines = [line(seq) for seq in range(7, 0, -1)]

    def pages(self, wanted: Wanted) -> list[tuple[list[int], int | None]]:
        """All pages from the newest on: the numbers of their lines, and what is before each."""
        found: list[tuple[list[int], int | None]] = []
        before: int | None = None
        while True:
            part = part_of(self.lines, wanted, before)
            found.append(([line.seq for line in part.lines], part.newer))
            if part.older is None:
                return found
            before = part.older

    def test_there_and_back(self) -> None:
        """Every line once, and each page knows where the one before it begins."""
        self.assertEqual(self.pages(Wanted()), [([7, 6], None), ([5, 4], 0), ([3, 2], 6), ([1], 4)])

    def test_what_is_wanted(self) -> None:
        """Only that is paged through."""
        self.lines[1] = line(6, target="Other", actor="admin-key:ann")
        self.lines[4] = line(3, action="key.create", target="another")
        for wanted, found in (
            (Wanted(target="OTHER"), [([6, 3], None)]),
            (Wanted(actor="admin-key:ann"), [([6], None)]),
            (Wanted(action="key.create", target="no"), [([3], None)]),
            (Wanted(actor="nobody"), [([], None)]),
        ):
            self.assertEqual(self.pages(wanted), found, wanted)

    def test_behind_the_oldest(self) -> None:
        """There is nothing, and the way back."""
        self.assertEqual(part_of(self.lines, Wanted(), 1), AuditPart([], 3, None))


class StoryTests(SynchronousTestCase):
    """What lines tell together."""

    def members(self, *lines: AuditLine) -> list[list[tuple[str, str | None, str]]]:
        newest_first = list(reversed(lines))
        story = Story(newest_first)
        return [
            [(one.name, one.before, one.after) for one in story.row(each, True).members]
            for each in lines
        ]

    def test_before_and_after(self) -> None:
        """Of a key whose making is told all is known, of another what was changed since."""
        self.assertEqual(
            self.members(
                line(1, "key.create", detail={"rpm": 10}),
                line(2, detail={"rpm": 20, "budget_usd": "5"}, target="old"),
                line(3, detail={"rpm": 20, "budget_usd": "5"}),
                line(4, detail={"rpm": 30, "tpm": 1}, target="old"),
                line(5, detail={"budget_usd": None}),
            ),
            [
                [("rpm", None, "10")],
                [("rpm", None, "20"), ("budget usd", None, "5")],
                [("rpm", "10", "20"), ("budget usd", "–", "5")],
                [("rpm", "20", "30"), ("tpm", None, "1")],
                [("budget usd", "5", "–")],
            ],
        )

    def test_what_stayed(self) -> None:
        """It is not shown, where that is known."""
        found = self.members(
            line(1, "admin_key.change", detail={"scope": "full", "disabled": True}),
            line(2, "admin_key.change", detail={"scope": "full", "disabled": False}),
            line(3, "admin_key.change", detail={"scope": "full", "disabled": False}),
        )
        self.assertEqual(found[0], [("scope", None, "full"), ("disabled", None, "yes")])
        self.assertEqual(found[1:], [[("disabled", "yes", "no")], []])

    def test_a_change_that_failed(self) -> None:
        """It changed nothing, and both of its lines say that it did not come about."""
        lines = (
            line(1, "key.create", detail={"rpm": 10}),
            line(2, detail={"rpm": 20}),
            line(3, detail={"code": "storage_unavailable"}, outcome="failed", request_id="r2"),
            line(4, detail={"rpm": 30}),
        )
        self.assertEqual(self.members(*lines)[3], [("rpm", "10", "30")])
        story = Story(list(reversed(lines)))
        self.assertEqual(
            [story.row(each, True).outcome for each in lines],
            ["done", "then failed", "failed", "done"],
        )

    def test_a_name_that_is_taken_again(self) -> None:
        """What was said of the key before it says nothing of this one."""
        found = self.members(
            line(1, "key.create", detail={"rpm": 10}),
            line(2, "key.delete"),
            line(3, detail={"rpm": 20}),
            line(4, "admin_key.create", detail={"rpm": 1}),
            line(5, detail={"rpm": 30}),
        )
        self.assertEqual(found[2], [("rpm", None, "20")])
        self.assertEqual(found[4], [("rpm", "20", "30")])

    def test_where_a_target_is(self) -> None:
        """A key that there is has a page; one that is gone, and a sign-in, has none."""
        story = Story([])
        for action, has_key, path in (
            ("key.change", True, "/keys/app"),
            ("key.delete", False, ""),
            ("admin_key.create", False, "/admin-keys"),
            ("config.install", False, "/config/history"),
            ("sign_in.failed", True, ""),
        ):
            self.assertEqual(story.row(line(1, action), has_key).target_path, path, action)

    def test_values_in_words(self) -> None:
        """Whatever a line of a file may hold."""
        for value, text in (
            (True, "yes"),
            (None, "–"),
            ([], "–"),
            (["a", 1], "a, 1"),
            ({"a": [False]}, "a: no"),
            (0, "0"),
        ):
            self.assertEqual(text_of(value), text, value)
        story = Story([line(1, detail={"a": 1})])
        self.assertEqual(
            story.row(line(1, detail={"a_b": 1}), False).members, [Member("a b", None, "1")]
        )


class PageTests(SynchronousTestCase):
    """The page."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def test_a_change(self) -> None:
        """Who, what, before and after, with links and the id of the request."""
        self.plane.admin("POST", "/admin/keys", json.dumps({"name": "k1", "rpm": 5}).encode())
        self.plane.admin("PATCH", "/admin/keys/k1", json.dumps({"rpm": 7}).encode())
        page = self.visitor.page("/audit?target=K1&action=key.change")
        self.assertEqual(page.one("del").text, "before: 5")
        self.assertEqual(page.one("ins").text, "after: 7")
        self.assertEqual(page.one("a", href="/keys/k1").text, "k1")
        newest = self.plane.audit.entries(1)[0]
        self.assertIn(newest.request_id, [code.text for code in page.all("code")])

    def test_filters(self) -> None:
        """They are offered by what there is; what there is not is told, with the way out."""
        self.plane.admin("POST", "/admin/keys", json.dumps({"name": "k1"}).encode())
        page = self.visitor.page("/audit?actor=nobody&before=x&action=")
        self.assertIn("No such line", page.text)
        chosen = [option.attributes["value"] for option in page.all("option", selected="")]
        self.assertEqual(chosen, ["nobody", ""])
        values = [option.attributes["value"] for option in page.all("option")]
        self.assertIn("key.create", values)
        self.assertIn("admin-token", values)

    def test_pages(self) -> None:
        """Older lines are a link away, and the filters stay."""
        self.patch(audit_view, "LINES_A_PAGE", 1)
        for name in ("k1", "k2", "k3"):
            self.plane.admin("POST", "/admin/keys", json.dumps({"name": name}).encode())
        page = self.visitor.page("/audit?action=key.create")
        for name in ("k2", "k1"):
            page = self.visitor.page(page.one("a", rel="next").attributes["href"])
            self.assertEqual(len(page.all("a", href=f"/keys/{name}")), 1)
        self.assertEqual(page.all("a", rel="next"), [])
        page = self.visitor.page(page.one("a", rel="prev").attributes["href"])
        self.assertEqual(len(page.all("a", href="/keys/k2")), 1)

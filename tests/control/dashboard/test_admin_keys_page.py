"""Pages of the admin keys."""

from __future__ import annotations

import json
import re
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.admin_keys_page import ROWS
from tests.control.conversation import Reply
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import Plane

SECRET = re.compile(r"oga_[A-Za-z0-9_-]{40,}")


class AdminKeysPageTests(SynchronousTestCase):
    """Somebody with the admin token makes keys for others."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def make(self, name: str = "ann", **fields: str) -> str:
        """Fill in the form of a new key; return its secret."""
        self.visitor.page("/admin-keys/new")
        reply = self.visitor.send("/admin-keys/new", {"name": name, "scope": "full", **fields})
        self.assertEqual(reply.status, 201, reply.body)
        found = SECRET.search(Page(reply).text)
        assert found is not None
        return found[0]

    def row(self, name: str = "ann") -> dict[str, Any]:
        """A key as the admin API tells it."""
        row: dict[str, Any] = self.plane.admin("GET", f"/admin/admin-keys/{name}").json()
        return row

    def actions(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """What the audit log tells of admin keys, the newest first."""
        return [
            (line.action, line.actor, line.target, line.detail)
            for line in self.plane.audit.entries(100)
            if line.action.startswith("admin_key.")
        ]

    def act(self, action: str, name: str = "ann", **fields: str) -> Reply:
        """Open a key's page and send one of its forms."""
        page = self.visitor.page(f"/admin-keys/{name}/key")
        target = f"/admin-keys/{name}/{action}"
        self.assertEqual(len(page.all("form", action=target)), 1)
        marks = [field.attributes["value"] for field in page.all("input", name="mark")]
        return self.visitor.send(target, {"mark": marks[0], **fields})

    def test_an_empty_list(self) -> None:
        """It says what keys are for, and where one is made."""
        page = self.visitor.page("/admin-keys")
        self.assertIn("There are no admin keys yet", page.text)
        self.assertEqual(len(page.all("a", href="/admin-keys/new")), 2)

    def test_make_one(self) -> None:
        """It works, its secret is shown this once, and the audit log knows who made it."""
        secret = self.make(
            scope="read_only", expires_at="2026-12-24T18:00", allowed_ips="192.168.1.0/24, ::1"
        )
        row = self.row()
        self.assertEqual(
            (row["scope"], row["expires_at"]), ("read_only", "2026-12-24T18:00:00.000Z")
        )
        self.assertEqual(row["allowed_ips"], ["192.168.1.0/24", "::1"])
        other = Visitor(self.plane.talk)
        self.assertEqual(other.sign_in(secret).status, 303)
        for target in ("/admin-keys", "/admin-keys/ann/key", "/admin-keys/ann/edit"):
            self.assertNotRegex(self.visitor.page(target).text, SECRET)
        self.assertEqual(self.actions()[0][:3], ("admin_key.create", "admin-token", "ann"))
        self.assertNotIn("oga_", json.dumps(self.actions()))
        page = self.visitor.page("/admin-keys")
        self.assertEqual(page.one("a", href="/admin-keys/ann/key").text, "ann")
        self.assertIn("read-only", page.text)

    def test_faults_stand_beside_their_fields(self) -> None:
        """Nothing is made, and nothing that was typed is lost."""
        self.visitor.page("/admin-keys/new")
        typed = {"name": "a b", "scope": "full", "expires_at": "soon", "allowed_ips": "10.0.0.1/8"}
        reply = self.visitor.send("/admin-keys/new", typed)
        self.assertEqual(reply.status, 400)
        page = Page(reply)
        for name in ("name", "expires_at", "allowed_ips"):
            self.assertEqual(len(page.all("p", id=f"{name}-fault")), 1, name)
        self.assertEqual(page.one("input", id="name").attributes["value"], "a b")
        self.assertEqual(page.one("input", id="expires_at").attributes["value"], "soon")
        self.assertEqual(page.one("textarea").text.strip(), "10.0.0.1/8")
        self.assertEqual(page.one("option", selected="").attributes["value"], "full")
        self.assertEqual(self.actions(), [])

    def test_a_name_that_is_taken(self) -> None:
        """It is told beside the name, also to whoever sends the form twice."""
        self.make()
        reply = self.visitor.send("/admin-keys/new", {"name": "ann", "scope": "full"})
        self.assertEqual(reply.status, 409)
        self.assertIn("is taken", Page(reply).one("p", id="name-fault").text)

    def test_change_one(self) -> None:
        """Only what is another; an emptied field takes a limit away."""
        self.make(expires_at="2026-12-24T18:00:30", allowed_ips="192.168.1.0/24")
        page = self.visitor.page("/admin-keys/ann/edit")
        self.assertEqual(
            page.one("input", id="expires_at").attributes["value"], "2026-12-24T18:00:30"
        )
        fields = {
            "mark": page.one("input", name="mark").attributes["value"],
            "scope": "read_only",
            "expires_at": "",
            "allowed_ips": "192.168.1.0/24",
        }
        reply = self.visitor.send("/admin-keys/ann/edit", fields)
        self.assertEqual(reply.status, 303)
        self.assertIn("Saved", self.visitor.page(reply.headers["location"]).text)
        row = self.row()
        self.assertEqual((row["scope"], row["expires_at"]), ("read_only", None))
        self.assertEqual(row["allowed_ips"], ["192.168.1.0/24"])
        # What the form did not know of is not undone by it.
        reply = self.visitor.send("/admin-keys/ann/edit", {**fields, "scope": "full"})
        self.assertEqual(reply.status, 409)
        self.assertIn("Somebody else", Page(reply).text)
        self.assertEqual(self.row()["scope"], "read_only")

    def test_rotate_one(self) -> None:
        """With a grace for the old secret; the same form once more does nothing."""
        old = self.make()
        mark = self.visitor.page("/admin-keys/ann/key").all("input", name="mark")[0]
        reply = self.act("rotate", grace="3600")
        self.assertEqual(reply.status, 200)
        found = SECRET.search(Page(reply).text)
        assert found is not None
        self.assertNotEqual(found[0], old)
        self.assertEqual(self.row()["old_secrets_until"], "2026-11-29T21:00:00.000Z")
        for secret in (old, found[0]):
            self.assertEqual(Visitor(self.plane.talk).sign_in(secret).status, 303)
        self.assertIn("old secret works", self.visitor.page("/admin-keys").text)
        fields = {"mark": mark.attributes["value"], "grace": "0"}
        reply = self.visitor.send("/admin-keys/ann/rotate", fields)
        self.assertEqual(reply.status, 409)
        self.assertIn("rotated meanwhile", Page(reply).text)
        self.assertEqual(Visitor(self.plane.talk).sign_in(found[0]).status, 303)
        self.assertEqual(self.actions()[0][0], "admin_key.rotate")
        reply = self.act("rotate", grace="forever")
        self.assertEqual(reply.status, 400)
        self.assertEqual(self.act("rotate", grace="0").status, 200)
        self.assertEqual(Visitor(self.plane.talk).sign_in(found[0]).status, 401)

    def test_disable_enable_and_delete(self) -> None:
        """Each by its own form, each told on the page that follows."""
        self.make()
        for action, words, disabled in (
            ("disable", "The key is disabled", True),
            ("enable", "works again", False),
        ):
            reply = self.act(action)
            self.assertEqual(reply.status, 303)
            self.assertIn(words, self.visitor.page(reply.headers["location"]).text)
            self.assertIs(self.row()["disabled"], disabled)
        reply = self.act("delete")
        self.assertIn("The key is gone", self.visitor.page(reply.headers["location"]).text)
        self.assertEqual(self.visitor.get("/admin-keys/ann/key").status, 404)
        self.assertEqual(
            [action[0] for action in self.actions()],
            ["admin_key.delete", "admin_key.change", "admin_key.change", "admin_key.create"],
        )

    def test_ones_own(self) -> None:
        """Whoever would lock themselves out is warned, and then does as they like."""
        secret = self.make()
        self.make("bob")
        self.visitor.sign_in(secret)
        page = self.visitor.page("/admin-keys/ann/key")
        asked = [form.text for form in page.all("form", method="post")]
        self.assertEqual(len([text for text in asked if "signed out at once" in text]), 2)
        self.assertIn("you take from yourself", self.visitor.page("/admin-keys/ann/edit").text)
        self.assertNotIn("signed in with", self.visitor.page("/admin-keys/bob/key").text)
        self.assertIn("yours", self.visitor.page("/admin-keys").text)
        self.assertEqual(self.act("disable").status, 303)
        self.assertEqual(self.visitor.get("/admin-keys").status, 303)

    def test_the_address_of_the_line_to_try(self) -> None:
        """It is the one that the browser has typed, also through a proxy that ends TLS."""
        self.visitor.page("/admin-keys/new")
        for name, headers, origin in (
            ("ann", (), "http://control"),
            ("bob", ((b"origin", b"http://control"),), "http://control"),
            ("eve", ((b"origin", b"https://control"),), "https://control"),
        ):
            fields = {"name": name, "scope": "read_only"}
            reply = self.visitor.send("/admin-keys/new", fields, headers)
            self.assertIn(f"curl {origin}/admin/keys -H", Page(reply).text)

    def test_whoever_may_look_only(self) -> None:
        """They see the keys and no form but the one for leaving."""
        secret = self.make("eve", scope="read_only")
        self.visitor.sign_in(secret)
        for target in ("/admin-keys", "/admin-keys/eve/key"):
            page = self.visitor.page(target)
            self.assertEqual(
                [form.attributes["action"] for form in page.all("form")], ["/sign-out"]
            )
            self.assertEqual(page.all("a", href="/admin-keys/new"), [])
        for target in ("/admin-keys/new", "/admin-keys/eve/edit"):
            self.assertEqual(self.visitor.get(target).status, 403)

    def test_one_that_is_named_as_a_page(self) -> None:
        """It can be had all the same, and a short address leads to any key."""
        self.make("new")
        self.assertEqual(self.visitor.page("/admin-keys/new/key").one("h1").text, "new")
        self.make()
        reply = self.visitor.get("/admin-keys/ann")
        self.assertEqual(reply.headers["location"], "/admin-keys/ann/key")

    def test_one_that_is_not(self) -> None:
        """A page says so."""
        for target in ("/admin-keys/bob", "/admin-keys/bob/key", "/admin-keys/bob/edit"):
            self.assertEqual(self.visitor.get(target).status, 404)
        self.visitor.page("/admin-keys")
        for action in ("edit", "rotate", "disable", "enable", "delete"):
            reply = self.visitor.send(f"/admin-keys/bob/{action}", {"grace": "0"})
            self.assertEqual(reply.status, 404, action)

    def test_many(self) -> None:
        """A page holds a hundred, by name; a page that is not there is the nearest one."""
        for number in range(ROWS + 1):
            body = json.dumps({"name": f"k{number:03}", "scope": "full"}).encode()
            self.assertEqual(self.plane.admin("POST", "/admin/admin-keys", body).status, 201)
        page = self.visitor.page("/admin-keys")
        self.assertEqual(len(page.all("tr")), ROWS + 1)
        self.assertEqual(page.all("a", rel="prev"), [])
        page = self.visitor.page(page.one("a", rel="next").attributes["href"])
        self.assertIn("k100", page.one("table").text)
        self.assertEqual(len(page.all("tr")), 2)
        self.assertEqual(page.all("a", rel="next"), [])
        self.assertEqual(page.one("a", rel="prev").attributes["href"], "/admin-keys")
        for text in ("9", "0", "x", "9999999999"):
            self.visitor.page(f"/admin-keys?page={text}")

"""Making, changing, rotating and deleting keys with a browser."""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings

from omnigate.control.dashboard.key_form import filled
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_members import FIELDS, read_members
from tests.control.conversation import Reply
from tests.control.dashboard.key_cases import bodies
from tests.control.dashboard.test_keys_page import KeysCase
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import APP_SHA

SECRET = re.compile(r"ogk_[0-9A-Za-z]{49}")


ACTIONS = ("edit", "rotate", "webhook-secret", "unsign", "disable", "enable", "delete")


class FormCase(KeysCase):
    """Somebody who fills in forms."""

    def key(self, name: str) -> GatewayKey:
        key = self.plane.store.get(name)
        assert key is not None
        return key

    def create(self, name: str = "web", **fields: Any) -> Reply:
        self.visitor.page("/keys/new")
        return self.visitor.send("/keys/new", {"name": name, **fields})

    def form_of(self, target: str) -> dict[str, Any]:
        """The fields of the page's main form as they are shown."""
        page = self.visitor.page(target)
        fields: dict[str, Any] = {"endpoints": []}
        for box in page.all("input"):
            name, kind = box.attributes["name"], box.attributes.get("type")
            if kind != "checkbox":
                fields[name] = box.attributes["value"]
            elif "checked" in box.attributes and name == "endpoints":
                fields[name].append(box.attributes["value"])
            elif "checked" in box.attributes:
                fields[name] = box.attributes["value"]
        for area in page.all("textarea"):
            fields[area.attributes["name"]] = area.text.removeprefix("\n")
        selects = page.all("select")
        chosen = [o for o in page.all("option") if "selected" in o.attributes]
        for select, option in zip(selects, chosen, strict=True):
            fields[select.attributes["name"]] = option.attributes["value"]
        return fields

    def edit(self, name: str = "web", **fields: Any) -> Reply:
        shown = self.form_of(f"/keys/{name}/edit")
        return self.visitor.send(f"/keys/{name}/edit", {**shown, **fields})

    def rotate(self, name: str = "web", **fields: Any) -> Reply:
        page = self.visitor.page(f"/keys/{name}")
        (mark,) = page.all("input", name="mark")
        sent = {"mark": mark.attributes["value"], "grace": "0", **fields}
        return self.visitor.send(f"/keys/{name}/rotate", sent)

    def audited(self) -> list[tuple[str, str]]:
        found = self.plane.admin("GET", "/admin/audit").json()["entries"]
        return [
            (entry["action"], entry["target"])
            for entry in reversed(found)
            if entry["action"].startswith("key.")
        ]


class CreateTests(FormCase):
    """New keys."""

    def test_a_secret_is_shown_once(self) -> None:
        """It is in the answer, opens the key, and is in no later page, file, log or entry."""
        reply = self.create(budget_usd="5")
        self.assertEqual((reply.status, reply.headers["cache-control"]), (201, "no-store"))
        (secret,) = set(SECRET.findall(reply.body.decode()))
        text = Page(reply).text
        self.assertIn("It is not shown again", text)
        self.assertIn(f"-H 'authorization: Bearer {secret}'", text)
        self.assertIn(f'OpenAI(base_url="http://data.test:8080/v1", api_key="{secret}")', text)
        self.assertIn('"model": "fast"', text)
        for target in ("/keys", "/keys/web", "/keys/web/edit", "/keys/new"):
            self.assertNotIn(secret[4:].encode(), self.visitor.get(target).body)
        self.assertNotIn(secret[4:], json.dumps(self.plane.admin("GET", "/admin/audit").json()))
        folder = os.path.dirname(self.plane.config_path)
        names = [each.path for each in os.scandir(folder) if each.is_file()]
        self.assertGreater(len(names), 3)
        for name in names:
            with open(name, "rb") as file:
                self.assertNotIn(secret[4:].encode(), file.read(), name)
        self.assertEqual(self.audited(), [("key.create", "web")])

    def test_a_reload_of_the_secret(self) -> None:
        """The form sent again makes no second key, and says how to go on."""
        self.create()
        reply = self.create()
        self.assertEqual(reply.status, 409)
        page = Page(reply)
        self.assertEqual(
            page.one("p", id="name-fault").text, 'the name "web" is taken; take another'
        )
        self.assertIn("rotate it for a new one", page.text)
        self.assertEqual(SECRET.findall(reply.body.decode()), [])
        self.assertEqual(len(self.plane.store), 1)

    def test_faults_beside_their_fields(self) -> None:
        """Each has the API's words, and all that was typed is kept."""
        typed = {
            "budget_usd": "lots",
            "soft_budget_usd": "0",
            "rpm": "1.5",
            "models": "a*b\nfast",
            "allowed_ips": "10.0.0.1/8",
            "expires_at": "tomorrow",
            "budget_timezone": "Mars/Olympus",
            "budget_period": "weekly",
            "endpoints": ["chat"],
            "disabled": "1",
        }
        reply = self.create("", **typed)
        self.assertEqual(reply.status, 400)
        page = Page(reply)
        for name, words in (
            ("name", "must be 1 to 64 letters"),
            ("budget_usd", "must be a number of US dollars"),
            ("soft_budget_usd", "must be more than 0"),
            ("rpm", "must be an integer"),
            ("models", "a * may only stand at the end"),
            ("allowed_ips", "has bits behind its prefix"),
            ("expires_at", "must be a date and time"),
            ("budget_timezone", "no time zone"),
        ):
            self.assertIn(words, page.one("p", id=f"{name}-fault").text)
        for name in ("budget_usd", "rpm", "expires_at", "budget_timezone"):
            self.assertEqual(page.one("input", name=name).attributes["value"], typed[name])
        self.assertIn("a*b\nfast", page.one("textarea", name="models").text)
        self.assertIn("checked", page.one("input", value="chat").attributes)
        self.assertIn("checked", page.one("input", name="disabled").attributes)
        weekly = page.one("option", value="weekly")
        self.assertIn("selected", weekly.attributes)
        self.assertEqual((len(self.plane.store), self.audited()), (0, []))

    def test_the_name_of_a_file_key(self) -> None:
        """It is taken."""
        reply = self.create("app")
        self.assertEqual(reply.status, 409)
        self.assertIn("is taken", Page(reply).one("p", id="name-fault").text)

    def test_a_disk_that_refuses(self) -> None:
        """The form comes back with what was typed, and nothing is there."""
        self.patch(self.plane.store, "path", "/nowhere/at/all")
        reply = self.create(rpm="7")
        self.assertEqual(reply.status, 503)
        page = Page(reply)
        self.assertIn("nothing was changed", page.one("p", role="alert").text)
        self.assertEqual(page.one("input", name="rpm").attributes["value"], "7")

    def test_what_is_offered_to_try(self) -> None:
        """An endpoint and a model that the key may use."""
        text = Page(self.create("a", endpoints=["embeddings"], models="other")).text
        self.assertIn("/v1/embeddings", text)
        self.assertIn('"model": "MODEL"', text)
        self.assertIn("Put one in place of MODEL", text)
        self.assertIn("/v1/models -H", Page(self.create("b", endpoints=["models"])).text)
        self.assertIn('"model": "fast"', Page(self.create("c", models="x\nfa*")).text)


class ChangeTests(FormCase):
    """Keys that change."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(bodies(), bodies())
    def test_every_member(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        """Made as one and changed to another by forms alone, a key has what was asked for."""
        made = self.fields(one)
        self.assertEqual(self.create("k", **made).status, 201)
        self.check_key(one)
        self.assertEqual(self.edit("k").status, 303)
        self.check_key(one)
        self.assertEqual(self.edit("k", **{"disabled": "", **self.fields(other)}).status, 303)
        self.check_key(other)
        self.assertEqual(self.visitor.send("/keys/k/delete", {}).status, 303)

    def expected(self, body: dict[str, Any]) -> GatewayKey:
        members = read_members({"name": "k", **body}, FIELDS, ("name",))
        return GatewayKey(**members, sha256="a" * 64, source="managed")

    def fields(self, body: dict[str, Any]) -> dict[str, Any]:
        """What somebody types to get these members."""
        shown = attrs.asdict(filled(self.expected(body)), filter=lambda a, _: a.name != "name")
        return {name: value for name, value in shown.items() if value is not False}

    def check_key(self, body: dict[str, Any]) -> None:
        found, expected = self.key("k"), self.expected(body)
        for name, _ in FIELDS.values():
            self.assertEqual(getattr(found, name), getattr(expected, name), name)

    def test_what_was_changed_is_told(self) -> None:
        """To the audit log no more than that, with the person's name."""
        self.create(rpm="5", budget_usd="1.50")
        reply = self.edit(rpm="", budget_usd="2")
        self.assertEqual(reply.headers["location"], "/keys/web?done=saved")
        self.assertIn("Saved.", self.visitor.page("/keys/web?done=saved").text)
        entry = self.plane.admin("GET", "/admin/audit").json()["entries"][0]
        self.assertEqual(
            (entry["action"], entry["actor"], entry["detail"]),
            ("key.change", "admin-token", {"budget_usd": "2", "rpm": 0}),
        )
        self.assertEqual(self.key("web").budget_nano, 2 * 10**9)

    def test_two_people(self) -> None:
        """The second is told what the first has made of it, loses nothing, and may insist."""
        self.create(rpm="5", tpm="9")
        mine = self.form_of("/keys/web/edit")
        self.edit(rpm="60", models="fast")
        reply = self.visitor.send("/keys/web/edit", {**mine, "rpm": "7"})
        self.assertEqual(reply.status, 409)
        page = Page(reply)
        self.assertIn("Somebody else changed this key", page.one("p", role="alert").text)
        self.assertEqual(page.one("p", id="rpm-fault").text, "now in force: 60")
        self.assertEqual(page.one("p", id="models-fault").text, "now in force: fast")
        self.assertEqual(page.one("input", name="rpm").attributes["value"], "7")
        self.assertEqual(page.all("p", id="tpm-fault"), [])
        self.assertEqual(self.key("web").rpm, 60)
        mark = page.one("input", name="mark").attributes["value"]
        reply = self.visitor.send("/keys/web/edit", {**mine, "rpm": "7", "mark": mark})
        self.assertEqual(reply.status, 303)
        self.assertEqual((self.key("web").rpm, self.key("web").models), (7, None))

    def test_a_key_that_goes_meanwhile(self) -> None:
        """What was typed is kept, and can be made a key anew."""
        self.create(rpm="5")
        mine = self.form_of("/keys/web/edit")
        self.visitor.send("/keys/web/delete", {})
        reply = self.visitor.send("/keys/web/edit", {**mine, "rpm": "7"})
        self.assertEqual(reply.status, 404)
        page = Page(reply)
        self.assertIn("no key of this name any more", page.one("p", role="alert").text)
        fields = {
            name: page.one("input", name=name).attributes["value"] for name in ("name", "rpm")
        }
        self.assertEqual(fields, {"name": "web", "rpm": "7"})
        self.assertEqual(self.visitor.send("/keys/new", fields).status, 201)

    def test_faults(self) -> None:
        """They stand beside their fields, and the key is as it was."""
        self.create(budget_usd="5")
        reply = self.edit(soft_budget_usd="6")
        self.assertEqual(reply.status, 400)
        fault = Page(reply).one("p", id="soft_budget_usd-fault").text
        self.assertIn("is more than budget_usd", fault)
        self.assertIsNone(self.key("web").soft_budget_nano)

    def test_of_the_config_file(self) -> None:
        """Nothing of it can be changed here."""
        self.visitor.page("/keys")
        for target in ACTIONS:
            reply = self.visitor.send(f"/keys/app/{target}", {})
            self.assertEqual(reply.status, 409, target)
            self.assertIn("stands in the config file", Page(reply).text)
        self.assertEqual(self.visitor.get("/keys/app/edit").status, 409)
        self.assertIsNotNone(self.plane.book.get("app"))

    def test_a_key_that_is_not(self) -> None:
        """Whatever is asked of it, there is none."""
        self.visitor.page("/keys")
        for target in ACTIONS:
            self.assertEqual(self.visitor.send(f"/keys/nobody/{target}", {}).status, 404, target)

    def test_disable_enable_delete(self) -> None:
        """Each says that it is done."""
        self.create()
        for action, found in (("disable", True), ("enable", False)):
            reply = self.visitor.send(f"/keys/web/{action}", {})
            self.assertEqual((reply.status, self.key("web").disabled), (303, found))
            self.assertIn(
                f"{action.capitalize()}d.", self.visitor.page(reply.headers["location"]).text
            )
        reply = self.visitor.send("/keys/web/delete", {})
        self.assertIn("was deleted", self.visitor.page(reply.headers["location"]).text)
        self.assertEqual(
            [action for action, _ in self.audited()],
            ["key.create", "key.change", "key.change", "key.delete"],
        )


class RotateTests(FormCase):
    """New secrets."""

    def test_with_a_grace(self) -> None:
        """The new secret is shown, and until when the old one works."""
        self.create()
        reply = self.rotate(grace="3600")
        (secret,) = set(SECRET.findall(reply.body.decode()))
        self.assertIn("The old secret works until 2026-11-29 21:00:00 UTC", Page(reply).text)
        self.assertNotIn(secret[4:].encode(), self.visitor.get("/keys/web").body)
        self.assertIn("old secret works", self.visitor.page("/keys?state=grace").text)

    def test_a_time_of_ones_own(self) -> None:
        """In minutes; a fault stands beside it, and what was typed is kept."""
        self.create()
        reply = self.rotate(grace="own", own_minutes="90")
        self.assertIn("works until 2026-11-29 21:30:00 UTC", Page(reply).text)
        for typed in ("", "1.5", "-1", "43201", "9" * 40):
            reply = self.rotate(grace="own", own_minutes=typed)
            page = Page(reply)
            self.assertEqual(reply.status, 400, typed)
            self.assertIn("must be", page.one("p", id="own_minutes-fault").text)
            self.assertEqual(page.one("input", name="own_minutes").attributes["value"], typed)
            self.assertEqual(SECRET.findall(reply.body.decode()), [])

    def test_sent_again(self) -> None:
        """The form of a key as it was makes no further secret."""
        self.create()
        page = self.visitor.page("/keys/web")
        sent = {"mark": page.one("input", name="mark").attributes["value"], "grace": "0"}
        self.assertEqual(self.visitor.send("/keys/web/rotate", sent).status, 200)
        secret_sha256 = self.key("web").secret_sha256
        reply = self.visitor.send("/keys/web/rotate", sent)
        self.assertEqual(reply.status, 409)
        self.assertIn("was rotated meanwhile", Page(reply).one("p", role="alert").text)
        self.assertEqual(self.key("web").secret_sha256, secret_sha256)
        self.assertEqual(self.audited(), [("key.create", "web"), ("key.rotate", "web")])

    def test_of_a_key_that_is_disabled(self) -> None:
        """It says what to do first."""
        self.create(disabled="1")
        reply = self.rotate()
        self.assertEqual(reply.status, 409)
        self.assertIn("is disabled; enable it", Page(reply).text)


class WebhookSecretTests(FormCase):
    """What webhooks of a key's jobs are signed with."""

    def renew(self, **fields: Any) -> Reply:
        page = self.visitor.page("/keys/web")
        (mark,) = page.all("input", name="signing_mark")
        sent = {"signing_mark": mark.attributes["value"], "signing_grace": "0", **fields}
        self.sent = sent
        return self.visitor.send("/keys/web/webhook-secret", sent)

    def secret(self, reply: Reply) -> str:
        (secret,) = set(re.findall(r"whsec_[A-Za-z0-9+/]{43}=", reply.body.decode()))
        return str(secret)

    def signing(self) -> tuple[str, ...]:
        return self.key("web").webhook_secrets(self.plane.now_ms())

    def test_make_renew_delete(self) -> None:
        """Each is shown once; the one before signs on for the grace that was chosen."""
        self.create()
        self.assertIn("not signed", self.visitor.page("/keys/web").text)
        first = self.secret(self.renew())
        reply = self.renew(signing_grace="3600")
        second = self.secret(reply)
        self.assertIn("signs too until 2026-11-29 21:00:00 UTC", Page(reply).text)
        self.assertEqual(self.signing(), (second, first))
        shown = self.visitor.get("/keys/web").body
        self.assertNotIn(second[6:].encode(), shown)
        self.assertIn("by an older secret too until", self.visitor.page("/keys/web").text)
        reply = self.visitor.send("/keys/web/unsign", {})
        self.assertIn("not signed any more", self.visitor.page(reply.headers["location"]).text)
        self.assertEqual(self.signing(), ())
        self.assertEqual(
            [action for action, _ in self.audited()],
            ["key.create", *["key.webhook_secret"] * 2, "key.webhook_secret_delete"],
        )

    def test_sent_again(self) -> None:
        """The form of a key as it was makes no further secret."""
        self.create()
        secret = self.secret(self.renew())
        reply = self.visitor.send("/keys/web/webhook-secret", self.sent)
        self.assertEqual(reply.status, 409)
        self.assertIn("made anew meanwhile", Page(reply).one("p", role="alert").text)
        self.assertEqual(self.signing(), (secret,))

    def test_a_grace_that_is_none(self) -> None:
        self.create()
        for grace in ("", "forever", "-1", "9" * 40):
            reply = self.renew(signing_grace=grace)
            self.assertEqual(reply.status, 400, grace)
        self.assertEqual(self.signing(), ())


class ReadOnlyTests(FormCase):
    """Somebody who may look only."""

    def setUp(self) -> None:
        super().setUp()
        self.make("web", budget_usd=Decimal(5))
        body = json.dumps({"name": "viewer", "scope": "read_only"}).encode()
        secret = self.plane.admin("POST", "/admin/admin-keys", body).json()["secret"]
        self.viewer = Visitor(self.plane.talk)
        self.viewer.sign_in(secret)

    def test_nothing_to_press(self) -> None:
        """No page offers what would be refused."""
        for target in ("/keys", "/keys/web", "/keys/app", f"/keys/{APP_SHA}"):
            reply = self.viewer.get(target)
            if reply.status == 303:
                continue
            page = Page(reply)
            posts = [f for f in page.all("form") if f.attributes.get("method") == "post"]
            self.assertEqual([f.attributes["action"] for f in posts], ["/sign-out"], target)
            self.assertEqual(page.all("a", href="/keys/new"), [])
            self.assertEqual(page.all("a", href="/keys/web/edit"), [])

    def test_nothing_is_changed(self) -> None:
        """Every form is refused, and the key is as it was."""
        self.viewer.page("/keys/web")
        before = self.key("web")
        for target in ("/keys/new", "/keys/web/edit"):
            self.assertEqual(self.viewer.get(target).status, 403, target)
        actions = ("edit", "rotate", "webhook-secret", "unsign", "disable", "delete")
        targets = ("new", *(f"web/{what}" for what in actions))
        for target in targets:
            self.assertEqual(self.viewer.send(f"/keys/{target}", {"name": "x"}).status, 403, target)
        self.assertIs(self.key("web"), before)
        self.assertEqual(len(self.plane.store), 1)

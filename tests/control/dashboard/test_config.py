"""The pages of the config in force and of its history."""

from __future__ import annotations

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import config_history_page, config_page
from omnigate.control.dashboard.config_view import ROWS_A_PAGE
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import APP_SHA, CONFIG, Plane

SECOND = CONFIG.replace("rpm = 600", "rpm = 900") + '# password = "hunter2hunter2"\n'
BROKEN = CONFIG.replace('protocol = "openai"', 'protocol = "<b>"')


class ConfigCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.plane.record_start()
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def reload(self, text: str) -> Page:
        """Put another text in the file, and have it read by the button."""
        self.plane.write_config(text)
        self.visitor.page("/config")
        reply = self.visitor.send("/config/reload", {})
        if reply.status == 303:
            return self.visitor.page(reply.headers["location"])
        self.assertEqual(reply.status, 409)
        return Page(reply)


class InForceTests(ConfigCase):
    """What is in force."""

    def test_tables(self) -> None:
        """Each part has a page."""
        page = self.visitor.page("/config")
        self.assertIn(self.plane.config_path, page.text)
        self.assertIn("1 upstream, 1 route, 1 key", page.text)
        self.assertIn("https://api.openai.com/v1", page.text)
        self.assertIn("their ids for 3 days", page.text)
        page = self.visitor.page("/config/routes")
        self.assertEqual(page.one("a", href="/models/one?model=fast").text, "fast")
        self.assertIn("gpt-4o-mini at openai, $0.15 in and $0.60 out", page.text)
        page = self.visitor.page("/config/keys")
        self.assertEqual(page.one("a", href="/keys/app").text, "app")

    def test_media(self) -> None:
        """Routes of media jobs, with their targets, and for how long jobs are kept."""
        target = '{ adapter = "fal", model = "fal-ai/flux", api_key_env = "FAL_KEY" }'
        route = f'[[media.routes]]\nmodel = "flux"\ntargets = [{target}]\n'
        self.reload(CONFIG + route)
        page = self.visitor.page("/config/media")
        self.assertIn("fal-ai/flux at fal, credential FAL_KEY, no price", page.text)
        self.assertIn("media jobs for 30 days", page.text)

    def test_an_empty_config(self) -> None:
        """It says what to do first."""
        self.reload("")
        for path, words in (
            ("/config", "No upstream"),
            ("/config/routes", "No route"),
            ("/config/media", "No media route"),
            ("/config/keys", "No key in the file"),
        ):
            self.assertIn(words, self.visitor.page(path).text)

    def test_text(self) -> None:
        """As it is in the file, but for secrets and hashes, some lines a page."""
        page = self.visitor.page("/config/text")
        text = page.one("pre").text
        self.assertIn('base_url = "https://api.openai.com/v1"', text)
        self.assertNotIn(APP_SHA, page.reply.body.decode())
        self.patch(config_page, "LINES_A_PAGE", 4)
        page = self.visitor.page("/config/text?page=2")
        self.assertEqual(page.one("pre").text.split("\n")[1:], CONFIG.split("\n")[4:8])

    def test_long_tables(self) -> None:
        """They are told a page at a time."""
        key = '[[keys]]\nname = "k%d"\nkey_sha256 = "%064x"\n'
        self.reload("".join(key % (n, n) for n in range(ROWS_A_PAGE + 1)))
        page = self.visitor.page("/config/keys?page=2")
        self.assertEqual(len(page.all("th", scope="row")), 1)


class ReloadTests(ConfigCase):
    """The file is read again by a button."""

    def test_a_good_file(self) -> None:
        """It is in force, and the audit log says who wanted that."""
        page = self.reload(SECOND)
        self.assertIn("has no faults", page.text)
        self.assertEqual(self.plane.config_file.config.keys[0].rpm, 900)
        line = self.plane.audit.entries(1)[0]
        self.assertEqual((line.action, line.actor), ("config.install", "admin-token"))

    def test_a_file_with_faults(self) -> None:
        """They are told with their places and escaped; what was in force still is."""
        page = self.reload(BROKEN)
        self.assertIn("upstreams[0].protocol", page.text)
        self.assertNotIn(b"<b>", page.reply.body)
        self.assertIn("1 upstream, ", page.text)
        # They stay until the file is mended, whatever the address says.
        page = self.visitor.page("/config?read=again")
        self.assertIn("The file has faults", page.text)
        self.assertNotIn("has no faults", page.text)
        self.assertNotIn("The file has faults", self.reload(CONFIG).text)

    def test_who_may_look_only(self) -> None:
        """Sees no button, and is refused without it."""
        reply = self.plane.admin(
            "POST", "/admin/admin-keys", b'{"name": "ann", "scope": "read_only"}'
        )
        visitor = Visitor(self.plane.talk)
        visitor.sign_in(reply.json()["secret"])
        page = visitor.page("/config")
        self.assertEqual(page.all("form", action="/config/reload"), [])
        self.assertEqual(visitor.send("/config/reload", {}).status, 403)


class HistoryTests(ConfigCase):
    """What was in force."""

    def test_entries(self) -> None:
        """Newest first, with what was new and which is in force."""
        self.reload(SECOND)
        page = self.visitor.page("/config/history")
        links = [cell.text.split() for cell in page.all("th", scope="row")]
        self.assertEqual(links, [["2", "in", "force"], ["1"]])
        self.assertIn("1 key changed", page.text)

    def test_an_entry(self) -> None:
        """Its changes by name and by line, its text, and no secret in either."""
        self.reload(SECOND)
        page = self.visitor.page("/config/history/2")
        self.assertIn("Keys changed", [name.text for name in page.all("dt")])
        gone = [cell.text for cell in page.all("td", **{"class": "mono code"})]
        self.assertIn("rpm = 600", gone)
        self.assertIn("rpm = 900", gone)
        self.assertIn("rpm = 900", page.one("pre").text)
        self.assertNotIn(b"hunter2", page.reply.body)

    def test_the_first_one(self) -> None:
        """There is nothing to compare it with."""
        page = self.visitor.page("/config/history/1")
        self.assertIn("what was before is not known", page.text)
        self.assertEqual(page.all("h3"), [])

    def test_texts_that_are_gone(self) -> None:
        """The entry stays, and says so."""
        self.reload(SECOND)
        self.patch(config_history_page, "compare", None)
        history = self.plane.generation.history
        new, old = history.entries()
        self.patch(history, "_entries", (new, replace(old, text=None)))
        self.assertIn("cannot be compared", self.visitor.page("/config/history/2").text)
        self.assertIn("not kept any more", self.visitor.page("/config/history/1").text)

    def test_no_such_entry(self) -> None:
        """Is no page."""
        for number in ("3", "01", "x"):
            self.assertEqual(self.visitor.get(f"/config/history/{number}").status, 404, number)

    def test_only_a_secret_is_new(self) -> None:
        """No line differs, which is said."""
        self.reload(CONFIG.replace(APP_SHA, "0" * 64))
        page = self.visitor.page("/config/history/2")
        self.assertIn("No line that is shown differs", page.text)

"""The pages of models and upstreams."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.models_page import MODELS_A_PAGE
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import CONFIG, Plane, event

ODD_CONFIG = """
[[routes]]
model = "team/x:v1@eu+1~"
  [[routes.targets]]
  upstream = "openai"
  model = "<b>x&y</b>"
  price = { input = 0.125, output = 3 }
"""


class ModelsCase(SynchronousTestCase):
    config = CONFIG

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp(), config=self.config)
        self.addCleanup(self.plane.close)
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def report(self, **members: Any) -> None:
        about = {"host": "gw-1", "address": "127.0.0.1:8080", **members.pop("about", {})}
        body = {"gauges": {"spool_events": 0}, "reporter": "a", "about": about, **members}
        reply = self.plane.internal("POST", "/internal/counters", json.dumps(body).encode())
        self.assertEqual(200, reply.status)

    def used(self, number: int, *outcomes: str, model: str = "gpt-4o-mini", **members: Any) -> None:
        attempts = [
            {
                "upstream": "openai",
                "model": model,
                "outcome": outcome,
                "status": 200 if outcome == "ok" else None,
                "duration_ms": 75,
            }
            for outcome in outcomes
        ]
        batch = {"events": [event(id=f"event-{number}", attempts=attempts, **members)]}
        reply = self.plane.internal("POST", "/internal/usage/batch", json.dumps(batch).encode())
        self.assertEqual(200, reply.status)

    def page(self, target: str) -> Page:
        return self.visitor.page(target)


class ListTests(ModelsCase):
    def test_what_is_known_of_a_model(self) -> None:
        self.report()
        self.used(1, "timeout", "ok")
        text = self.page("/models").text
        for words in (
            "fast",
            "gpt-4o-mini at openai",
            "50 %",
            "no answer in time",
            "$0.15 in, $0.60 out",
        ):
            self.assertIn(words, text.replace("\N{NARROW NO-BREAK SPACE}", " "))

    def test_nobody_reports(self) -> None:
        self.assertIn("No data plane reports", self.page("/models").text)
        self.report()
        self.assertNotIn("No data plane reports", self.page("/models").text)

    def test_trouble(self) -> None:
        self.report()
        text = self.page("/models?state=trouble").text
        self.assertIn("No model is like that", text)
        self.report(about={"resting": [("openai", "gpt-4o-mini", 20.0, 5.0)]})
        page = self.page("/models?state=trouble")
        self.assertIn("resting", page.text)
        self.assertEqual(1, len(page.all("a", href="/models/one?model=fast")))

    def test_by_name(self) -> None:
        self.assertIn("gpt-4o-mini", self.page("/models?q=FAS").text)
        self.assertIn("No model is like that", self.page("/models?q=slow").text)

    def test_odd_filters(self) -> None:
        for query in ("page=-1", "page=x", "page=99999", "page=%D9%A3", "state=other", "q=%00"):
            self.page(f"/models?{query}")


class EmptyTests(ModelsCase):
    config = ""

    def test_what_to_do_next(self) -> None:
        page = self.page("/models")
        self.assertIn("There are no models yet", page.text)
        self.assertIn(self.plane.config_path, page.text)


class ManyTests(ModelsCase):
    config = CONFIG + "".join(
        f'\n[[routes]]\nmodel = "m{n:03}"\ntargets = [{{ upstream = "openai", model = "m{n}" }}]'
        for n in range(2 * MODELS_A_PAGE)
    )

    def test_pages(self) -> None:
        seen: list[str] = []
        target = "/models?q=m"
        while target:
            page = self.page(target)
            seen += [cell.text for cell in page.all("th", scope="rowgroup")]
            older = page.all("a", rel="next")
            target = older[0].attributes["href"] if older else ""
        self.assertEqual([f"m{n:03}" for n in range(2 * MODELS_A_PAGE)], seen)
        self.assertEqual(1, len(page.all("a", rel="prev")))


class OneOfManyThingsTests(ModelsCase):
    config = CONFIG.replace(
        'api_key_env = "OPENAI_API_KEY"',
        'api_key_env = "OPENAI_API_KEY"\ncooldown = { failures = 1 }',
    ) + (
        '\n[[routes]]\nmodel = "many"\nstrategy = "round_robin"\ntargets = ['
        + ", ".join(f'{{ upstream = "openai", model = "m{n}" }}' for n in range(5))
        + "]"
    )

    def test_one_is_told_as_one(self) -> None:
        text = self.page("/models").text
        self.assertIn("and 1 more target ", f"{text} ".replace("targets", "TARGETS"))
        # Of five targets, though four are shown.
        self.assertEqual(4, text.replace("\N{NARROW NO-BREAK SPACE}", " ").count("20 %"))
        self.assertIn("after 1 failure within", self.page("/models/upstream?name=openai").text)


class OneTests(ModelsCase):
    config = CONFIG + ODD_CONFIG

    def test_a_model(self) -> None:
        self.report()
        page = self.page("/models/one?model=fast")
        self.assertEqual("fast", page.one("h1").text)
        self.assertIn("gpt-4o-mini at openai first.", page.text)
        self.assertIn("of the config", page.text)

    def test_any_name(self) -> None:
        (link,) = [link for link in self.page("/models").all("a") if link.text == "team/x:v1@eu+1~"]
        page = self.page(link.attributes["href"])
        self.assertEqual("team/x:v1@eu+1~", page.one("h1").text)
        self.assertIn("<b>x&y</b>", page.text)
        self.assertEqual([], page.all("b"))
        # Not in cents.
        self.assertIn("$0.125\N{NO-BREAK SPACE}in, $3\N{NO-BREAK SPACE}out", page.one("table").text)

    def test_none_such(self) -> None:
        for target in ("/models/one", "/models/one?model=no", "/models/upstream?name=no"):
            self.assertEqual(404, self.visitor.get(target).status)


class UpstreamTests(ModelsCase):
    def test_an_upstream(self) -> None:
        self.report(upstreams={"openai": 2}, about={"resting": [("openai", "gpt-4o-mini", 20, 5)]})
        for number in range(30):
            self.used(number, "status_503")
        page = self.page("/models/upstream?name=openai")
        self.assertEqual("openai", page.one("h1").text)
        for words in (
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "503 from the provider",
            "gw-1",
        ):
            self.assertIn(words, page.text)
        self.assertIn("all models rest", page.text)
        links = [
            link.text for link in page.all("a") if link.attributes["href"].startswith("/requests/")
        ]
        self.assertEqual([f"event-{number}" for number in range(29, 9, -1)], links)

    def test_no_credential(self) -> None:
        self.report(about={"missing": ["openai"]})
        text = self.page("/models/upstream?name=openai").text
        self.assertIn("not set", text)
        self.assertIn("gw-1 (127.0.0.1:8080)", text)

    def test_nothing_yet(self) -> None:
        text = self.page("/models/upstream?name=openai").text
        self.assertIn("No attempt has failed", text)
        self.assertIn("No data plane has reported", text)

"""Requests tried on the dashboard of real planes, with a fake provider behind them."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any
from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    ADMIN_TOKEN,
    SECONDS,
    Gateway,
    cost_of,
    key_of,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)

TARGETS = {
    "plain": "fake-words-20-paced-5",
    "cut": "fake-words-20-cut-after-3",
    "endless": "fake-words-20000-paced-20",
}


def config(provider_port: int) -> str:
    return (
        key_table("app")
        + key_table("once", rpm=1)
        + upstream_table("openai", "openai", provider_port)
        # Of an answer that nobody reads any more the bill comes at once.
        + 'abandon = "cancel"\n'
        + "".join(route_table(model, ("openai", target)) for model, target in TARGETS.items())
    )


class Browser:
    """Somebody who has signed in and opened the page."""

    def __init__(self, port: int, token: str = ADMIN_TOKEN) -> None:
        self._port = port
        self._cookie = ""
        reply = self._ask("POST", "/sign-in", {"token": token})
        self._cookie = (reply.headers["set-cookie"] or "").partition(";")[0]
        reply.read()
        page = self._ask("GET", "/try").read().decode()
        (self._form_token,) = set(re.findall(r'name="form_token" value="([0-9a-f]+)"', page))

    def _ask(
        self, method: str, path: str, fields: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        headers = {"cookie": self._cookie} if self._cookie else {}
        headers["content-type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, urlencode(fields or {}), headers)
        return connection.getresponse()

    def begin(self, model: str, **fields: str) -> http.client.HTTPResponse:
        """Send the form as the script does; the answer is not read here."""
        form = {
            "form_token": self._form_token,
            "model": model,
            "style": "chat",
            "source": "pasted",
            "secret": key_of("app"),
            "message": "Hello",
            "stream": "1",
        }
        return self._ask("POST", "/try/stream", {**form, **fields})

    def watch(self, model: str, **fields: str) -> dict[str, str]:
        """Send the form and read to the end: what came, by the name of the events."""
        told: dict[str, str] = {}
        for part in self.begin(model, **fields).read().decode().split("\n\n"):
            if part.startswith("event: "):
                name, _, data = part.removeprefix("event: ").partition("\ndata: ")
                told[name] = told.get(name, "") + json.loads(data)
        return told


class TryTests(SynchronousTestCase):
    """One gateway for all."""

    def setUp(self) -> None:
        self.gateway = Gateway(config).start()
        self.addCleanup(self.gateway.stop)
        self.browser = Browser(self.gateway.control_port)

    def only_event(self) -> dict[str, Any]:
        (event,) = wait_for("the event", self.gateway.ledger)
        return event

    def test_day(self) -> None:
        """Whole, with a key that is made; cut; refused; left; and the data plane away."""
        told = self.browser.watch("plain", source="made", secret="")
        self.assertEqual(len(told["text"].split()), 20)
        self.assertIn("The answer is whole.", told["outcome"])
        event = self.only_event()
        self.assertIn(event["id"], told["outcome"])
        self.assertEqual(event["cost_usd"], cost_of(event))
        self.assertIn(f"${event['cost_usd']}", told["bill"])

        told = self.browser.watch("cut")
        self.assertTrue(told["text"])
        self.assertIn("The answer is cut.", told["outcome"])
        self.assertIn("openai", told["bill"])

        told = self.browser.watch("plain", secret="no-such-key")
        self.assertIn("Refused with 401 invalid_api_key", told["outcome"])
        self.browser.watch("plain", secret=key_of("once"))
        told = self.browser.watch("plain", secret=key_of("once"))
        self.assertIn("Refused with 429 rate_limit_exceeded", told["outcome"])
        told = self.browser.watch("nothing", stream="")
        self.assertIn("Refused with 404 model_not_found", told["outcome"])

        before = len(self.gateway.ledger())
        answer = self.browser.begin("endless")
        answer.read(200)
        answer.close()
        events = wait_for("the event of who left", lambda: self.gateway.ledger()[before:] or None)
        self.assertEqual(events[0]["route_model"], "endless")

        # A control plane that is asked to stop does not wait for what is being tried.
        answer = self.browser.begin("endless")
        answer.read(200)
        assert self.gateway.control is not None
        self.gateway.control.terminate()
        self.assertEqual(self.gateway.control.wait(20), 0)
        answer.close()
        self.gateway.start_control()

        assert self.gateway.data is not None
        self.gateway.data.terminate()
        self.assertEqual(self.gateway.data.wait(), 0)
        told = self.browser.watch("plain")
        self.assertIn(f"http://127.0.0.1:{self.gateway.data_port}", told["outcome"])
        self.assertIn("cannot be reached", told["outcome"])

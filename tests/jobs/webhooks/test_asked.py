"""Webhooks that clients ask for."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.job import Webhook
from omnigate.jobs.webhooks.asked import asked_for

STRICT = WebhooksConfig()


class AskedTests(SynchronousTestCase):
    def refusal(self, url: object, has_secret: bool = True, **settings: Any) -> str:
        """What the client is told."""
        with self.assertRaises(GatewayError) as caught:
            asked_for(url, WebhooksConfig(**settings), has_secret=has_secret)
        error = caught.exception
        self.assertEqual(("invalid_request", "webhook_url"), (error.kind.code, error.param))
        return str(error.message)

    def test_what_is_taken(self) -> None:
        """A URL of https; nothing where none is given."""
        url = "https://hooks.example:8443/jobs?tenant=7"
        self.assertEqual(Webhook(url), asked_for(url, STRICT, has_secret=True))
        self.assertIs(None, asked_for(None, STRICT, has_secret=False))

    def test_http(self) -> None:
        """http only where the operator allows it."""
        self.assertIn("allow_http", self.refusal("http://hooks.example"))
        allowed = WebhooksConfig(allow_http=True)
        self.assertEqual("", asked_for("http://hooks.example", allowed, has_secret=True).state)  # type: ignore[union-attr]

    def test_without_a_secret(self) -> None:
        """A key without a secret may have one only where unsigned ones are allowed."""
        url = "https://hooks.example"
        self.assertIn("no webhook secret", self.refusal(url, has_secret=False))
        allowed = WebhooksConfig(allow_unsigned=True)
        self.assertEqual(Webhook(url), asked_for(url, allowed, has_secret=False))

    def test_what_is_no_url(self) -> None:
        """What is no plain URL is refused with what is wrong with it, and none of its text."""
        urls: tuple[object, ...] = (
            "",
            5,
            [],
            "hooks.example",
            "ftp://hooks.example",
            "https://me:secret@hooks.example",
            "https://2130706433/",
            "https://hooks.example\\@other.example",
            "https://hööks.example",
            "https://hooks.example/\r\nx: y",
            "https://hooks.example/" + "a" * 3_000,
        )
        for url in urls:
            message = self.refusal(url)
            self.assertTrue(message.startswith("webhook_url "), message)
            self.assertNotIn("secret", message)
            self.assertTrue(len(message) < 200)

"""Webhooks that clients ask for."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.webhooks.asked import check_asked
from omnigate.outbound.addresses import AddressGuard

URL = "https://hooks.example:8443/jobs?tenant=7"
PUBLIC = AddressGuard()


class AskedTests(SynchronousTestCase):
    def refusal(self, url: str, has_secret: bool = True, **settings: Any) -> str:
        """What the client is told."""
        with self.assertRaises(GatewayError) as caught:
            check_asked(url, WebhooksConfig(**settings), PUBLIC, has_secret=has_secret)
        error = caught.exception
        self.assertEqual(("invalid_request", "webhook_url"), (error.kind.code, error.param))
        return str(error.message)

    def test_what_is_taken(self) -> None:
        """A URL of https, for a key that can sign."""
        check_asked(URL, WebhooksConfig(), PUBLIC, has_secret=True)
        check_asked("https://1.1.1.1/", WebhooksConfig(), PUBLIC, has_secret=True)

    def test_http(self) -> None:
        """http only where the operator allows it."""
        self.assertIn("allow_http", self.refusal("http://hooks.example"))
        allowed = WebhooksConfig(allow_http=True)
        check_asked("http://hooks.example", allowed, PUBLIC, has_secret=True)

    def test_without_a_secret(self) -> None:
        """A key without a secret may have one only where unsigned ones are allowed."""
        self.assertIn("no webhook secret", self.refusal(URL, has_secret=False))
        check_asked(URL, WebhooksConfig(allow_unsigned=True), PUBLIC, has_secret=False)

    def test_addresses(self) -> None:
        """One that is written as a number is judged at once, by what the operator has opened."""
        for url in ("https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/"):
            self.assertIn("not public", self.refusal(url))
        opened = AddressGuard(("10.0.0.0/8",))
        check_asked("https://10.0.0.1/", WebhooksConfig(), opened, has_secret=True)

"""Signatures of webhooks."""

import base64
import datetime
import json
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook as Receiver
from standardwebhooks import WebhookVerificationError
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.webhooks.signing import headers, secret_bytes, webhook_id

VECTORS = Path(__file__).parent.parent / "vectors" / "webhooks.json"


def whsec(length: int, first: int = 0) -> str:
    """A secret of so many bytes."""
    return "whsec_" + base64.b64encode(bytes(range(first, first + length))).decode()


class SignatureTests(SynchronousTestCase):
    def test_golden(self) -> None:
        """The headers are those of the golden cases: one secret, two, an empty object."""
        cases: list[dict[str, Any]] = json.loads(VECTORS.read_text("utf-8"))["signatures"]
        self.assertEqual(3, len(cases))
        for case in cases:
            body = case["body"].encode()
            made = headers(case["secrets"], case["webhook_id"], case["timestamp"], body)
            self.assertEqual(case["headers"], dict(made), case["about"])

    def test_the_official_library(self) -> None:
        """The library for receivers takes it, with either secret of a rotation, and no other."""
        now = int(datetime.datetime.now(datetime.UTC).timestamp())
        body = '{"type":"job.succeeded","data":{"metadata":{"note":"Grüße"}}}'.encode()
        new, old = whsec(32), whsec(24, 100)
        made = dict(headers((new, old), webhook_id("job_1"), now, body))
        for secret in (new, old):
            self.assertEqual(json.loads(body), Receiver(secret).verify(body, made))
        with self.assertRaises(WebhookVerificationError):
            Receiver(whsec(32, 50)).verify(body, made)
        with self.assertRaises(WebhookVerificationError):
            Receiver(new).verify(body + b" ", made)

    def test_unsigned(self) -> None:
        """Without a secret there is no signature, and the rest is the same."""
        self.assertEqual(
            ["content-type", "webhook-id", "webhook-timestamp"],
            [name for name, _ in headers((), "msg_1", 5, b"{}")],
        )


class SecretTests(SynchronousTestCase):
    def test_lengths(self) -> None:
        """24 to 64 bytes, and nothing outside."""
        for length in (24, 25, 32, 63, 64):
            self.assertEqual(bytes(range(length)), secret_bytes(whsec(length)))
            self.assertEqual(bytes(range(length)), secret_bytes(whsec(length).rstrip("=")))
        for length in (0, 23, 65):
            with self.assertRaisesRegex(ValueError, f"24 to 64 bytes.*holds {length}"):
                secret_bytes(whsec(length))

    def test_what_is_none(self) -> None:
        """What is no secret is refused in words that do not repeat it."""
        good = whsec(32)
        for bad in (
            good[6:],
            "whsec_" + "ä" * 40,
            good + "*",
            "whsec_" + "A" * 41,
            "",
            good + "=A",
        ):
            with self.assertRaises(ValueError) as caught:
                secret_bytes(bad)
            if bad:
                self.assertNotIn(bad[6:], str(caught.exception))

"""Receipts of an upstream that signs its answers, with real daemons."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.receipts.signatures import extra_is_there
from tests.process.daemons import Gateway, key_of, key_table, route_table, wait_for

#: A model of each way to go wrong, and what comes of it.
VERDICTS = {
    "deep": ("signed", "no_verifier"),
    "deep~two-part": ("signed", "no_verifier"),
    "deep~two-nodes": ("signed", "no_verifier"),
    "deep~late-signature=1": ("signed", "no_verifier"),
    "deep~bad-hash": ("failed", "hash_mismatch"),
    "deep~bad-signer": ("failed", "signature_invalid"),
    "deep~no-such-word": ("signed", "no_verifier"),
}


class ReceiptTests(SynchronousTestCase):
    """``GET /v1/receipts/{id}`` through both planes."""

    if not extra_is_there():
        skip = "the extra attest is not installed"

    def setUp(self) -> None:
        self.upstream = subprocess.Popen(
            [sys.executable, "-m", "omnigate.testing.attested"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.upstream.wait)
        self.addCleanup(self.upstream.kill)
        assert self.upstream.stdout is not None
        port = int(self.upstream.stdout.readline())
        self.addCleanup(self.upstream.stdout.close)

        def config(_: int) -> str:
            parts = [
                key_table("app") + key_table("other"),
                f'[[upstreams]]\nname = "near"\nprotocol = "openai"\n'
                f'base_url = "http://127.0.0.1:{port}/v1"\nattestation = {{ kind = "near" }}\n',
            ]
            models = list(VERDICTS)
            parts += [
                route_table(f"m{index}", ("near", model)) for index, model in enumerate(models)
            ]
            return "".join(parts)

        self.gateway = Gateway(config, {"FLUSH_MS": "50"})
        self.addCleanup(self.gateway.stop)
        self.gateway.start()

    def receipt(self, request_id: str) -> dict[str, Any]:
        """The receipt of a request once it is judged."""

        def judged() -> dict[str, Any] | None:
            told = self.gateway.get(f"/v1/receipts/{request_id}", key_of("app"))
            if told.status != 200 or told.json["verdict"] == "pending":
                return None
            found: dict[str, Any] = told.json
            return found

        return wait_for("the receipt to be judged", judged)

    def test_receipts(self) -> None:
        """Each answer is judged, streamed or not; other keys see nothing of it."""
        answers = {}
        for index, model in enumerate(VERDICTS):
            told = self.gateway.ask(f"m{index}", stream=index % 2 == 0)
            self.assertEqual(200, told.status)
            self.assertEqual(told.id, told.headers.get("x-omnigate-receipt"))
            answers[model] = told
        for model, (verdict, reason) in VERDICTS.items():
            found = self.receipt(answers[model].id)
            self.assertEqual((verdict, reason), (found["verdict"], found["reason"]), model)
            self.assertEqual("near", found["upstream"])
            self.assertNotIn("quote", json.dumps(found["evidence"]).replace("quote_sha256", ""))
        one = answers["deep"].id
        self.assertEqual(404, self.gateway.get(f"/v1/receipts/{one}", key_of("other")).status)
        self.assertEqual(404, self.gateway.get("/v1/receipts/none", key_of("app")).status)
        path = self.gateway.control_state / "receipts.json"
        wait_for("the file", lambda: path.exists() and one in path.read_text())
        self.assertEqual(len(VERDICTS), len(json.loads(path.read_text())["receipts"]))
        assert self.gateway.control is not None
        self.gateway.control.kill()
        self.gateway.start_control()
        self.assertEqual("signed", self.receipt(one)["verdict"])

"""A key that is rotated while real daemons serve it, the control plane gone for the end."""

from __future__ import annotations

import contextlib
import io
import os
import time

from twisted.trial.unittest import SynchronousTestCase

from omnigate import cli
from omnigate.config.key_values import instant_ms
from tests.process.daemons import ADMIN_TOKEN, Gateway, route_table, upstream_table, wait_for

#: Longer than a poll and a start of a command take on a machine under load.
GRACE_SECONDS = 5


def config(provider_port: int) -> str:
    """One model."""
    return upstream_table("openai", "openai", provider_port) + route_table(
        "small", ("openai", "fake-words-3")
    )


class RotationTests(SynchronousTestCase):
    """The whole way from the command line to a client that is refused."""

    def setUp(self) -> None:
        self.gateway = Gateway(config, {"POLL_MS": "200"})
        self.addCleanup(self.gateway.stop)
        self.gateway.start()

    def omnigate(self, *arguments: str) -> str:
        """Run a command; what it prints."""
        url = f"http://127.0.0.1:{self.gateway.control_port}"
        environ = {"OMNIGATE_CONTROL_URL": url, "OMNIGATE_ADMIN_TOKEN": ADMIN_TOKEN}
        self.patch(os, "environ", environ)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(cli.main(arguments), 0)
        return out.getvalue().strip()

    def opens(self, secret: str) -> bool:
        """Whether the data plane takes a secret."""
        answer = self.gateway.get("/v1/models", secret)
        if answer.status != 200:
            self.assertEqual((answer.status, answer.code), (401, "invalid_api_key"))
        return answer.status == 200

    def test_grace(self) -> None:
        """The old secret works to its moment and not beyond, with or without a control plane."""
        old = self.omnigate("keys", "create", "app", "--rpm", "1000")
        wait_for("the key to be known", lambda: self.opens(old))
        new = self.omnigate("keys", "rotate", "app", "--grace", f"{GRACE_SECONDS}s")
        row = self.gateway.admin().call("GET", "/admin/keys/app")
        until = instant_ms(row["old_secrets_until"]) / 1000
        wait_for("the new secret to be known", lambda: self.opens(new))
        assert self.gateway.control is not None
        self.gateway.control.kill()
        worked = 0
        while True:
            asked, opened, told = time.time(), self.opens(old), time.time()
            if opened:
                self.assertLess(asked, until)
                worked += 1
            elif told < until:
                self.fail(f"the old secret stopped {until - told:.3f} s too early")
            if asked >= until:
                break
            time.sleep(0.05)
        self.assertGreater(worked, 0)
        self.assertTrue(self.opens(new))
        self.gateway.start_control()
        self.assertIsNone(self.gateway.admin().call("GET", "/admin/keys/app")["old_secrets_until"])
        self.assertEqual((self.opens(old), self.opens(new)), (False, True))
        self.omnigate("keys", "disable", "app")
        wait_for("the key to be refused", lambda: not self.opens(new))
        self.omnigate("keys", "enable", "app")
        wait_for("the key to be taken", lambda: self.opens(new))

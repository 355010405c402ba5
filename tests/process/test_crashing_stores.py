"""Stores that crash in a real control plane under load: nothing is lost or counts twice."""

from __future__ import annotations

import http.client
import re
import signal
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.process.crashing import AUDIT, BEFORE, BEHIND, BOOKS, PROGRAM, START, THREAD
from tests.process.daemons import (
    INTERNAL_TOKEN,
    SECONDS,
    Daemon,
    Gateway,
    cost_of,
    key_table,
    route_table,
    upstream_table,
    verify_ledger,
    wait_for,
)
from tests.process.test_ledger_kills import KEYS, MODELS, Clients

#: A key whose budget is spent with its first request.
SPENT = "spent"


def config(provider_port: int) -> str:
    """The keys and models of the clients, and a key that is soon blocked."""
    keys = [key_table(name) for name in KEYS]
    keys.append(key_table(SPENT, budget_usd=0.000001, budget_period="total"))
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return "".join([*keys, upstream_table("openai", "openai", provider_port), *routes])


class CrashingGateway(Gateway):
    """A gateway whose control plane crashes where it is told to."""

    def command(self, plane: str) -> Sequence[str]:
        """The command of a plane."""
        command = list(super().command(plane))
        if plane == "control":
            command[2] = PROGRAM
        return command

    def environ(self, plane: str, settings: Any = None) -> dict[str, str]:
        """The variables of a plane."""
        return {**super().environ(plane, settings), "CRASH_FILE": str(self.crash_file)}

    @property
    def crash_file(self) -> Any:
        return self.folder / "crash"

    def traces(self) -> list[str]:
        """Tracebacks that nobody asked for."""
        assert self.control is not None
        log = self.control.log()
        asked = log.count("CrashedOnPurposeError: ")
        found = log.count("Traceback (most recent call last)")
        assert found <= asked, log
        return [line for line in super().traces() if not line.startswith(self.control.name)]


class CrashingStoreTests(SynchronousTestCase):
    """One control plane, crashed in every way."""

    def setUp(self) -> None:
        self.gateway = CrashingGateway(config)
        self.addCleanup(self.gateway.stop)
        self.gateway.start()

    @property
    def control(self) -> Daemon:
        assert self.gateway.control is not None
        return self.gateway.control

    def ask(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Ask the control plane."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.gateway.control_port, timeout=SECONDS
        )
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        text = self.gateway.admin().text("GET", "/metrics", accept="text/plain")
        found = re.search(rf"^omnigate_{name} (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def crash(self, place: str) -> None:
        """Let it crash there, and wait until it is well again."""
        before = self.metric("store_restarts_total")
        self.gateway.crash_file.write_text(place)
        if place == AUDIT:
            status, _ = self.ask("/admin/keys", authorization="Bearer of nobody's token")
            self.assertEqual(status, 401)
        wait_for(f"a crash {place}", lambda: self.metric("store_restarts_total") > before)
        self.wait_ready()
        # What was refused is sent again after a pause, which grows unless something is taken.
        events = len(self.gateway.ledger())
        wait_for("more events", lambda: len(self.gateway.ledger()) > events)

    def wait_ready(self) -> None:
        wait_for("the stores", lambda: self.ask("/readyz")[0] == 200)

    def stay_down(self) -> None:
        """Let starts fail for a while, and look at what is answered meanwhile."""
        self.gateway.crash_file.write_text(f"{BEFORE}+{START}")
        wait_for("starts that fail", lambda: "could not be started" in self.control.log())
        for path in ("/healthz", "/livez"):
            self.assertEqual(self.ask(path)[0], 200)
        status, body = self.ask("/readyz")
        self.assertEqual(status, 503)
        self.assertRegex(body.decode(), "the stores (have failed|are being restarted)")
        token = {"x-omnigate-internal": INTERNAL_TOKEN}
        status, body = self.ask("/internal/config", **token)
        self.assertEqual(status, 503)
        self.assertIn(b'"not_ready"', body)
        self.assertEqual(self.metric("stores_up"), 0)
        self.assertEqual(self.gateway.ask("small", key=SPENT).code, "budget_exceeded")
        self.assertEqual(self.gateway.ask("small", key=KEYS[0]).status, 200)
        self.control.send(signal.SIGHUP)
        self.gateway.crash_file.unlink()
        self.wait_ready()
        self.assertEqual(self.metric("stores_up"), 1)

    def test_sums(self) -> None:
        """Whatever crashes, every event that was answered is recorded once, at its price."""
        self.assertEqual(self.gateway.ask("small", key=SPENT).status, 200)
        wait_for(
            "a blocked key",
            lambda: self.gateway.ask("small", key=SPENT).status == 402,
        )
        pid = self.control.pid
        with Clients(self.gateway) as clients:
            for place in (BEFORE, BEHIND, BOOKS, AUDIT, THREAD):
                clients.wait(0.3)
                self.crash(place)
                self.assertEqual(self.gateway.ask("small", key=SPENT).code, "budget_exceeded")
            clients.wait(0.3)
            self.stay_down()
            clients.wait(0.3)
        self.assertEqual((clients.faults, self.control.pid), ([], pid))
        self.judge(clients)

    def judge(self, clients: Clients) -> None:
        """Hold answers, ledger and sums to each other."""
        wait_for("the spool to be empty", lambda: self.gateway.waiting() == 0)
        events = self.gateway.ledger()
        counted = Counter(event["id"] for event in events)
        self.assertEqual([name for name, count in counted.items() if count > 1], [])
        self.assertEqual([whole.id for whole in clients.whole if not counted[whole.id]], [])
        self.assertGreater(len(clients.whole), 20)
        cost = sum((cost_of(event) for event in events), Decimal(0))
        rows = self.gateway.admin().call("GET", "/admin/usage?by=key")["rows"]
        self.assertEqual(cost, sum((Decimal(row["cost_usd"]) for row in rows), Decimal(0)))
        self.assertEqual(len(events), sum(row["requests"] for row in rows))
        verify_ledger(self.gateway.control_state / "ledger.jsonl")
        self.assertEqual(self.control.log().count("has crashed"), 6)

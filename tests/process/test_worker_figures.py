"""Several workers are one data plane to whoever counts: metrics, the ledger, the access log."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.gateway.scraping import Samples, samples_of, total, value
from tests.process.daemons import (
    SECONDS,
    Gateway,
    free_ports,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)

REQUESTS = "omnigate_data_requests_total"


def config(provider_port: int) -> str:
    """One key, one provider, one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class WorkerFiguresTests(SynchronousTestCase):
    def setUp(self) -> None:
        [self.port] = free_ports(1)
        self.gateway = Gateway(
            config,
            {"DATA_METRICS_LISTEN": f"tcp:{self.port}:interface=127.0.0.1"},
        )
        self.addCleanup(self.gateway.stop)
        self.log = self.gateway.folder / "access.log"
        self.asked: list[str] = []

    def start_workers(self, count: int) -> None:
        """Start the data plane, and wait until all of it serves."""
        self.gateway.data = self.gateway.spawn("data", WORKERS=str(count), ACCESS_LOG=str(self.log))
        self.gateway.data.wait_ready(self.gateway.data_port)
        if count > 1:
            wait_for("all workers", lambda: self.figure("omnigate_data_workers") == count)

    def ask(self, count: int) -> None:
        """Send so many requests, each on a connection of its own."""
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: self.gateway.ask("small", n % 2 > 0), range(count)))
        self.assertEqual({200}, {answer.status for answer in answers})
        self.asked += [answer.id for answer in answers]

    def scrape(self) -> Samples:
        """Scrape the data plane."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        self.assertEqual(200, answer.status, body)
        return samples_of(body)

    def figure(self, name: str) -> float:
        """One sample of a scrape."""
        return value(self.scrape(), name)

    def answered(self) -> float:
        """How many requests the metrics say were answered."""
        return total(self.scrape(), REQUESTS, route="small", outcome="answered")

    def has_log(self, pid: int) -> bool:
        """Whether a process has the log open that stands there now."""
        for found in Path(f"/proc/{pid}/fd").iterdir():
            # Any may be closed at this moment.
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(found) == str(self.log):
                    return True
        return False

    def test_one_plane(self) -> None:
        """All is counted once: by the metrics, through a kill, by the ledger and in the log."""
        gateway = self.gateway
        gateway.start_provider()
        gateway.start_control()
        self.start_workers(2)
        self.ask(40)
        before = self.scrape()
        self.assertEqual(40, total(before, REQUESTS, route="small", outcome="answered"))
        self.assertEqual(2, len(gateway.workers()))
        self.assertEqual(0, value(before, "omnigate_data_worker_restarts_total"))
        self.assertEqual(0, value(before, "omnigate_data_requests_in_flight"))
        self.assertLess(3e6, value(before, "process_resident_memory_bytes"))
        victim = gateway.workers()[0]
        os.kill(victim, signal.SIGKILL)
        wait_for("the restart", lambda: self.figure("omnigate_data_worker_restarts_total") == 1)
        wait_for("both workers", lambda: self.figure("omnigate_data_workers") == 2)
        self.assertNotIn(victim, gateway.workers())
        # The scrape before had all that the dead one counted.
        self.assertEqual(40, self.answered())
        self.ask(40)
        after = self.scrape()
        self.assertEqual(80, total(after, REQUESTS, route="small", outcome="answered"))
        for name in ("process_cpu_seconds_total", f"{REQUESTS}"):
            self.assertLess(total(before, name), total(after, name))
        for request_id in self.asked:
            gateway.event(request_id)
        recorded = [event["id"] for event in gateway.ledger()]
        self.assertEqual(sorted(self.asked), sorted(recorded))
        tokens = "omnigate_data_tokens_total"
        self.assertEqual(
            sum(event["output_tokens"] for event in gateway.ledger()),
            value(after, tokens, route="small", direction="output", cache="none"),
        )
        data = gateway.data
        assert data is not None
        old = self.log.rename(self.log.with_suffix(".old"))
        data.send(signal.SIGHUP)
        wait_for("the new log", lambda: all(map(self.has_log, gateway.workers())))
        whole = old.read_bytes()
        self.ask(20)
        data.terminate()
        self.assertEqual(0, data.wait())
        self.assertEqual(whole, old.read_bytes())
        text = old.read_text() + self.log.read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        told = [line["request_id"] for line in lines]
        self.assertEqual(len(told), len(set(told)))
        # A line may wait for a fifth of a second, and dies with its worker.
        self.assertLessEqual(set(told), set(self.asked))
        self.assertLessEqual(set(self.asked[40:]), set(told))

    def test_fewer_workers(self) -> None:
        """What three workers could not deliver, one does after the next start, each once."""
        gateway = self.gateway
        gateway.start_provider()
        gateway.start_control()
        self.start_workers(3)
        assert gateway.control is not None and gateway.data is not None
        gateway.control.kill()
        self.ask(60)
        gateway.data.terminate()
        self.assertEqual(0, gateway.data.wait())
        folder = gateway.folder / "data"
        left = sorted(path.name for path in folder.glob("omnigate-usage-*.spool"))
        self.assertEqual(["omnigate-usage-1.spool", "omnigate-usage-2.spool"], left)
        self.assertEqual(60, gateway.waiting())
        gateway.start_control()
        self.start_workers(1)
        for request_id in self.asked:
            gateway.event(request_id)
        self.assertEqual(60, len(gateway.ledger()))
        wait_for("the spools to go", lambda: not list(folder.glob("omnigate-usage-*")))
        self.assertEqual(0, gateway.waiting())

"""Metrics of a living data plane, on a port of their own."""

import http.client
import os
import socket
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


def config(provider_port: int) -> str:
    """One key, one provider, one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class MetricsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = Gateway(config)
        self.addCleanup(self.gateway.stop)
        [self.port] = free_ports(1)
        self.endpoint = f"tcp:{self.port}:interface=127.0.0.1"

    def get(self, path: str, port: int) -> tuple[int, bytes]:
        """Read something without a key."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def scrape(self) -> Samples:
        """Scrape the data plane."""
        status, body = self.get("/metrics", self.port)
        self.assertEqual(200, status)
        return samples_of(body)

    def start(self, **settings: str) -> None:
        """Start everything."""
        self.gateway.start_provider()
        self.gateway.start_control()
        self.gateway.data = run = self.gateway.spawn("data", **settings)
        run.wait_ready(self.gateway.data_port)

    def test_scrape(self) -> None:
        """A scrape tells what happened; it is had there and nowhere else."""
        self.start(DATA_METRICS_LISTEN=self.endpoint)
        answers = [self.gateway.ask("small", stream=bool(turn % 2)) for turn in range(4)]
        self.assertEqual({200}, {answer.status for answer in answers})
        self.assertEqual(404, self.gateway.ask("nothing").status)
        data = self.gateway.data
        assert data is not None
        self.assertEqual(2, listeners_of(data.pid))
        for answer in answers:
            self.gateway.event(answer.id)
        # The data plane hears of it a moment after it is recorded.
        delivered = "omnigate_data_usage_delivered_total"
        wait_for("the acknowledgement", lambda: value(self.scrape(), delivered) == 4)
        samples = self.scrape()
        requests = "omnigate_data_requests_total"
        self.assertEqual(4, total(samples, requests, route="small", outcome="answered"))
        self.assertEqual(1, total(samples, requests, outcome="refused"))
        tried = {"upstream": "openai", "outcome": "ok"}
        self.assertEqual(4, value(samples, "omnigate_data_attempts_total", **tried))
        self.assertEqual(0, value(samples, "omnigate_data_requests_in_flight"))
        first = "omnigate_data_time_to_first_event_seconds"
        self.assertEqual(2, value(samples, f"{first}_count", endpoint="chat"))
        self.assertLess(1e6, value(samples, "process_resident_memory_bytes"))
        self.assertLess(1.7e9, value(samples, "omnigate_data_config_last_poll_timestamp_seconds"))
        ledger = self.gateway.ledger()
        for direction, member in (("input", "input_tokens"), ("output", "output_tokens")):
            kind = {"route": "small", "direction": direction, "cache": "none"}
            self.assertEqual(
                sum(event[member] for event in ledger),
                value(samples, "omnigate_data_tokens_total", **kind),
            )
        # A key or none, the public port does not tell them, and the private one tells nothing else.
        self.assertEqual(401, self.get("/metrics", self.gateway.data_port)[0])
        for path in ("/", "/healthz", "/v1/models", "/metrics/x"):
            self.assertEqual(404, self.get(path, self.port)[0], path)

    def test_stop_with_a_scraper(self) -> None:
        """A connection that a scraper keeps does not hold up a stop."""
        self.start(DATA_METRICS_LISTEN=self.endpoint)
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as kept:
            kept.sendall(b"GET /metrics HTTP/1.1\r\nhost: g\r\n\r\n")
            self.assertTrue(kept.recv(100).startswith(b"HTTP/1.1 200 "))
            data = self.gateway.data
            assert data is not None
            data.terminate()
            self.assertEqual(0, data.wait())

    def test_refused_starts(self) -> None:
        """What is no endpoint, and a port that is taken, end the start with one clear line."""
        with socket.create_server(("127.0.0.1", self.port)):
            for listen, words in (
                ("9464", "is no Twisted endpoint string"),
                ("nothing:9464", "is no endpoint"),
                (self.endpoint, "the port is in use"),
            ):
                run = self.gateway.spawn("data", DATA_METRICS_LISTEN=listen)
                self.assertEqual(1, run.wait(), run.log())
                said = [line for line in run.log().splitlines() if line.startswith("omnigate-data")]
                self.assertEqual(1, len(said), run.log())
                self.assertIn("OMNIGATE_DATA_METRICS_LISTEN", said[0])
                self.assertNotIn("--listen", said[0])
                self.assertIn(words, said[0])

    def test_off(self) -> None:
        """Nothing is opened where nothing is set."""
        self.start()
        data = self.gateway.data
        assert data is not None
        wait_for("the start to be told", lambda: "listens on" in data.log())
        self.assertNotIn("metrics at", data.log())
        self.assertEqual(1, listeners_of(data.pid))


def listeners_of(pid: int) -> int:
    """How many TCP ports a process listens on."""
    process = Path(f"/proc/{pid}")
    listening = set()
    for name in ("tcp", "tcp6"):
        for line in (process / "net" / name).read_text("ascii").splitlines()[1:]:
            fields = line.split()
            # 0A is LISTEN; the tenth field is the socket's inode.
            if fields[3] == "0A":
                listening.add(f"socket:[{fields[9]}]")
    return sum(1 for fd in (process / "fd").iterdir() if os.readlink(fd) in listening)

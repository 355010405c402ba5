"""What operators see of living planes: one scrape of the control plane shows both."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from twisted.trial.unittest import SynchronousTestCase

from tests.gateway.scraping import Samples, samples_of, total
from tests.observe.alerts import ALERTS
from tests.observe.dashboard import SECTIONS
from tests.observe.files import promtool
from tests.observe.names import metrics_in
from tests.process.daemons import (
    INTERNAL_TOKEN,
    SECONDS,
    Gateway,
    free_ports,
    key_of,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)

REQUESTS = "omnigate_requests_total"


def config(provider_port: int) -> str:
    """One key, one provider, one model, and one for jobs, which that provider knows nothing of."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
        + '[[media.routes]]\nmodel = "picture"\n[[media.routes.targets]]\nadapter = "replicate"\n'
        f'model = "acme/flux"\nbase_url = "http://127.0.0.1:{provider_port}"\n'
    )


def told() -> Iterator[str]:
    """Every metric that the dashboard or an alert names."""
    for section in SECTIONS:
        for panel in section.panels:
            for query in panel.queries:
                yield from metrics_in(query.expr)
    for alert in ALERTS:
        yield from metrics_in(alert.expr)


class ScrapeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = Gateway(config)
        self.addCleanup(self.gateway.stop)
        self.gateway.start_provider()
        self.gateway.start_control()

    def start_data(self, **settings: str) -> None:
        self.gateway.data = run = self.gateway.spawn("data", **settings)
        run.wait_ready(self.gateway.data_port)
        if "WORKERS" in settings:
            # The answer above was of one of them.
            words = f"all {settings['WORKERS']} workers serve"
            wait_for(words, lambda: words in run.log())

    def report(self, figures: dict[str, float]) -> None:
        """Report figures as another data plane."""
        url = f"http://127.0.0.1:{self.gateway.control_port}/internal/counters"
        body = json.dumps({"gauges": figures, "reporter": "another"}).encode()
        headers = {"x-omnigate-internal": INTERNAL_TOKEN}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            self.assertEqual(200, answer.status)

    def scrape(self) -> Samples:
        """Scrape the control plane."""
        return samples_of(self.text().encode())

    def text(self, accept: str = "text/plain") -> str:
        return self.gateway.admin().text("GET", "/metrics", accept=accept)

    def answered(self) -> float:
        """How many requests were answered, as the control plane shows it."""
        return total(self.scrape(), REQUESTS, outcome="answered", route="small", plane="data")

    def wait_for_answered(self, count: int) -> None:
        wait_for(f"{count} requests to be shown", lambda: self.answered() >= count)
        self.assertEqual(count, self.answered())


class NameTests(ScrapeCase):
    def test_every_metric_that_is_named(self) -> None:
        """What dashboard and alerts name has a sample; promtool takes both planes' scrapes.

        There is a report at the start, and the next comes after five seconds.
        """
        [port] = free_ports(1)
        self.start_data(DATA_METRICS_LISTEN=f"tcp:{port}:interface=127.0.0.1")
        for turn in range(4):
            self.assertEqual(200, self.gateway.ask("small", stream=bool(turn % 2)).status)
        self.assertEqual(404, self.gateway.ask("nothing").status)
        self.wait_for_answered(4)
        secret, body = key_of("app"), {"model": "picture", "input": {"prompt": "a lake"}}
        job = self.gateway.post("/v1/jobs", body, secret).json["id"]

        def is_over() -> bool:
            return bool(self.gateway.get(f"/v1/jobs/{job}", secret).json["status"] == "failed")

        wait_for("the job to fail", is_over)
        # As one would that has TLS.
        self.report({"certificate_expiry_timestamp_seconds": 2e9})
        samples = self.scrape()
        self.assertEqual(set(), set(told()) - {name for name, _ in samples})
        self.assertEqual(4, total(samples, "omnigate_upstream_attempts_total", outcome="ok"))
        self.assertEqual(4, total(samples, "omnigate_request_duration_seconds_count"))
        self.assertEqual(2, total(samples, "omnigate_time_to_first_byte_seconds_count"))
        self.assertEqual(1, total(samples, REQUESTS, outcome="refused", protocol="openai"))
        self.assertEqual(0, total(samples, "omnigate_upstream_state", upstream="openai"))
        self.assertEqual(1, total(samples, "omnigate_data_processes") - 1)
        self.assertLess(40, len(list(read_openmetrics(self.text("application/openmetrics-text")))))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        for text in (self.text().encode(), connection.getresponse().read()):
            self.assertEqual((0, ""), promtool("check", "metrics", given=text))


class RestartTests(ScrapeCase):
    """A plane that stops tells all it counted."""

    def ask_and_stop(self, count: int) -> None:
        """Have a data plane answer requests, and stop it."""
        for _ in range(count):
            self.assertEqual(200, self.gateway.ask("small").status)
        data = self.gateway.data
        assert data is not None
        data.terminate()
        self.assertEqual(0, data.wait())

    def test_totals(self) -> None:
        """Totals go on when a data plane is replaced, be it of one process or of several."""
        self.start_data(WORKERS="2")
        self.ask_and_stop(6)
        self.wait_for_answered(6)
        self.assertEqual(0, total(self.scrape(), "omnigate_data_processes"))
        self.start_data()
        self.ask_and_stop(2)
        self.wait_for_answered(8)

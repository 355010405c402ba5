"""A whole control plane in memory, with its files in a folder of the test."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from omnigate.config.prices import price_for
from omnigate.control.admin_api import AdminApi
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audit import AuditLog
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.health import Health
from omnigate.control.internal_api import InternalApi
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.metrics import ControlMetrics
from omnigate.control.metrics_api import MetricsApi
from omnigate.control.openapi import OpenApi, document
from omnigate.control.reports import Reports
from omnigate.control.snapshots import Snapshots
from omnigate.events import UsageEvent
from omnigate.ledger.service import Ledger
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter
from tests.control.conversation import ADMIN, INTERNAL, Conversation, Reply
from tests.control.described import Described

#: 2026-11-29T20:00:00Z, in seconds.
START = 1_795_982_400

APP_SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

CONFIG = f"""
[[keys]]
name = "app"
key_sha256 = "{APP_SHA}"
rpm = 600
budget_usd = 0.01
budget_period = "daily"

[[upstreams]]
name = "openai"
protocol = "openai"
base_url = "https://api.openai.com/v1"
api_key_env = "OPENAI_API_KEY"

[[routes]]
model = "fast"
  [[routes.targets]]
  upstream = "openai"
  model = "gpt-4o-mini"
  price = {{ input = 0.15, cached_input = 0.075, output = 0.60 }}
"""


def event(**members: Any) -> dict[str, Any]:
    """A usage event, as a data plane sends it."""
    return {
        "id": "event-1",
        "key_sha256": APP_SHA,
        "route_model": "fast",
        "upstream": "openai",
        "target_model": "gpt-4o-mini",
        "status": 200,
        "stream": True,
        "input_tokens": 1000,
        "cached_input_tokens": 100,
        "cache_write_input_tokens": 0,
        "output_tokens": 10,
        "cached": False,
        "estimated": False,
        "latency_ms": 700,
        "attempts": [],
        "ts_ms": START * 1000,
        "endpoint": "chat",
    } | members


class Plane:
    """The parts of a control plane, wired as the tap does it, without a socket."""

    def __init__(self, folder: str, config: str = CONFIG, open_ledger: bool = True) -> None:
        os.makedirs(folder, exist_ok=True)
        self.pauses = 0
        self.clock = Clock()
        self.clock.advance(START)
        self.writer = SynchronousWriter()
        self.config_path = os.path.join(folder, "omnigate.toml")
        self.write_config(config)
        self.config_file = ConfigFile(self.config_path, self.clock, lambda name: None)
        self.config_file.load()
        self.store = KeyStore(os.path.join(folder, "keys.json"), self.writer, self.now_ms)
        self.store.load()
        self.admin_keys = AdminKeyStore(
            os.path.join(folder, "admin_keys.json"), self.writer, self.now_ms
        )
        self.admin_keys.load()
        self.book = KeyBook(self.store, self.config_file.file_keys)
        self.config_file.on_change(lambda _: self.book.install(self.config_file.file_keys))
        self.metrics = ControlMetrics()
        self.scrape_writer = SynchronousWriter()
        self.metrics.allow_names(["fast"], ["openai"])
        self.reports = Reports(self.now_ms())
        self.ledger = Ledger(
            os.path.join(folder, "ledger.jsonl"),
            self.clock,
            self.writer,
            lambda found: price_for(
                self.config_file.config,
                found.route_model,
                found.upstream or "",
                found.target_model or "",
            ),
            observe=self.recorded,
            observe_write=self.metrics.wrote,
        )
        self.audit = AuditLog(
            os.path.join(folder, "audit.jsonl"),
            self.clock,
            SynchronousWriter(),
            self.now_ms,
            max_bytes=1_000_000,
        )
        self.metrics.watch_audit(self.audit)
        self.watch = BudgetWatch(self.book, self.ledger, self.now_ms)
        self.metrics.watch_budgets(self.watch)
        self.metrics.watch_keys(self.book, self.now_ms)
        self.metrics.watch_plane(
            self.ledger,
            self.config_file,
            self.reports,
            ReactorLag(self.clock),
            self.clock.seconds,
        )
        self.snapshots = Snapshots(
            lambda: self.config_file.config,
            self.watch,
            self.writer,
            self.pause,
        )
        self.health = Health(lambda: self.ledger.trouble)
        openapi = OpenApi()
        self.talk = Conversation(
            *openapi.endpoints(),
            *self.health.endpoints(),
            *InternalApi(
                self.snapshots,
                self.ledger,
                self.reports,
                self.metrics,
                self.clock.seconds,
                self.pause,
            ).endpoints(),
            *AdminApi(
                self.book,
                self.watch,
                self.ledger,
                self.config_file,
                self.audit,
                self.reports,
                self.admin_keys,
                self.now_ms,
                self.pause,
            ).endpoints(),
            *MetricsApi(self.metrics, self.scrape_writer).endpoints(),
            clock=self.clock,
        )
        self.talk.credentials.admin_keys = self.admin_keys
        self.talk.credentials.sign_in_failed = self.audit.sign_in_failed
        openapi.describe(self.talk.routes.endpoints)
        self.described = Described(document(self.talk.routes.endpoints))
        if open_ledger:
            self.open_ledger()

    def recorded(self, event: UsageEvent, cost_nano: int) -> None:
        self.watch.touch(event, cost_nano)
        self.metrics.recorded(event, cost_nano)

    async def pause(self) -> None:
        self.pauses += 1

    def now_ms(self) -> int:
        return int(self.clock.seconds() * 1000)

    def write_config(self, text: str) -> None:
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(text)

    def open_ledger(self) -> None:
        """Open the audit log and load the ledger, which is over when this returns."""
        Deferred.fromCoroutine(self.audit.open())
        self.ledger.open()
        if not self.ledger.ready:
            raise AssertionError("the ledger was not loaded")
        self.snapshots.begin()

    def close(self) -> None:
        """Close the files, so that another plane may have the folder."""
        self.ledger.close()
        Deferred.fromCoroutine(self.audit.close())

    def admin(self, method: str, target: str, body: bytes | None = None, accept: str = "") -> Reply:
        """Ask as an operator; the answer is held against the OpenAPI document."""
        headers = ADMIN + (((b"accept", accept.encode()),) if accept else ())
        reply = self.talk.ask(method, target, headers, body)
        self.described.check(method, target, reply)
        return reply

    def scrape(self) -> bytes:
        """The metrics as plain text."""
        return self.admin("GET", "/metrics").body

    def internal(self, method: str, target: str, body: bytes | None = None) -> Reply:
        """Ask as a data plane."""
        return self.talk.ask(method, target, INTERNAL, body)

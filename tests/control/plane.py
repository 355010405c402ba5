"""A whole control plane in memory, with its files in a folder of the test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from omnigate.config.media import ADAPTERS
from omnigate.control.auth import Credentials
from omnigate.control.config_file import ConfigFile
from omnigate.control.dashboard.data_plane import DataPlane
from omnigate.control.dashboard.entrance import make_entrance
from omnigate.control.generation import (
    AUDIT_WRITER,
    HISTORY_WRITER,
    Generation,
    guard_stores,
    record_config,
)
from omnigate.control.lasting import Lasting
from omnigate.control.metrics import ControlMetrics
from omnigate.control.openapi import document
from omnigate.control.reports import Reports
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter
from tests.control.conversation import (
    ADMIN,
    ADMIN_TOKEN,
    INTERNAL,
    INTERNAL_TOKEN,
    Conversation,
    Reply,
)
from tests.control.data_client import SilentClient
from tests.control.described import Described
from tests.outbound.network import Network

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


#: Planes of tests that may have their files open: with four each, far from what a process may have.
MAX_OPEN: Final = 40

#: The folders of the newest planes, the oldest first.
_folders: list[str] = []


def _keep_few_open(folder: str) -> None:
    """Close what the plane of a test that ended long ago has left open, as its process would."""
    _folders.append(os.path.realpath(folder))
    if len(_folders) <= MAX_OPEN:
        return
    old = _folders.pop(0)
    if old in _folders:
        return
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # what lists them is closed by now
            if os.readlink(f"/proc/self/fd/{fd}").startswith(f"{old}/"):
                os.close(fd)


class Plane:
    """The parts of a control plane, wired as the tap does it, without a socket."""

    def __init__(
        self,
        folder: str,
        config: str = CONFIG,
        open_ledger: bool = True,
        environ: Mapping[str, str] | None = None,
        network: Network | None = None,
    ) -> None:
        """Put it together; ``environ`` is the environment that the config names variables of.

        :param network: whom media jobs ask; nobody can be reached without.
        """
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        _keep_few_open(folder)
        self.environ = dict(environ or {})
        self.pauses = 0
        #: Whether stores that are opened anew wait for their writer.
        self.slow_starts = False
        self.clock = Clock()
        self.clock.advance(START)
        self.ahead_seconds = 0.0
        self.writer = SynchronousWriter()
        self.config_path = os.path.join(folder, "omnigate.toml")
        self.write_config(config)
        self.config_file = ConfigFile(self.config_path, self.clock, self.environ.get)
        self.config_file.load()
        self.metrics = ControlMetrics()
        self.scrape_writer = SynchronousWriter()
        self.metrics.allow_names(["fast", "picture"], ["openai", *ADAPTERS])
        self.reports = Reports(self.now_ms())
        self.data_client = SilentClient()
        credentials = Credentials(
            INTERNAL_TOKEN, ADMIN_TOKEN, self.clock.seconds, self.metrics.auth_failed
        )
        self.lasting = Lasting(
            ledger_path=os.path.join(folder, "ledger.jsonl"),
            keys_path=os.path.join(folder, "keys.json"),
            admin_keys_path=os.path.join(folder, "admin_keys.json"),
            audit_path=os.path.join(folder, "audit.jsonl"),
            audit_max_bytes=1_000_000,
            history_path=os.path.join(folder, "config_history.json"),
            jobs_path=os.path.join(folder, "jobs.jsonl"),
            receipts_path=os.path.join(folder, "receipts.json"),
            media_dir=os.path.join(folder, "media"),
            credential=self.config_file.credential,
            config_file=self.config_file,
            credentials=credentials,
            metrics=self.metrics,
            reports=self.reports,
            clock=self.clock,
            wall=lambda: self.now_ms() / 1000,
            steady=self.clock.seconds,
            make_writer=self.make_writer,
            metrics_writer=self.scrape_writer,
            entrance=make_entrance(ADMIN_TOKEN, credentials, self.now_ms),
            pause=self.pause,
            data_plane=DataPlane("http://data.test:8080", self.data_client),
            connect=self.connect if network is None else self.network_of(network),
        )
        self.guard = guard_stores(self.lasting)
        self.record = record_config(self.lasting, self.guard)
        generation = self.guard.latest
        assert generation is not None
        self.take(generation)
        self.store.load()
        self.admin_keys.load()
        self.metrics.watch_plane(
            self.config_file, self.reports, ReactorLag(self.clock), self.clock.seconds
        )
        self.config_file.on_change(lambda _: self.book.install(self.config_file.file_keys))
        self.talk = Conversation(
            routes=self.guard,
            credentials=credentials,
            clock=self.clock,
            door=self.lasting.entrance.door,
        )
        self.described = Described(document(self.guard.endpoints))
        if open_ledger:
            self.open_ledger()

    def connect(self, guard: AddressGuard) -> Outbound:
        """Make what reaches nobody."""
        return Outbound(self.clock, guard)

    def network_of(self, network: Network) -> Callable[[AddressGuard], Outbound]:
        """Return what makes what reaches a network in memory."""
        network.clock = self.clock
        return lambda guard: Outbound(
            self.clock, guard, resolve=network.resolve, connect=network.connect
        )

    def make_writer(self, name: str, lost: Callable[[Failure], None]) -> SynchronousWriter:
        """Make a writer: of its own for audit log and history, one for all other stores."""
        if name in (AUDIT_WRITER, HISTORY_WRITER):
            return SynchronousWriter()
        if self.writer.stopping:
            self.writer = SynchronousWriter(holding=self.slow_starts)
        return self.writer

    def take(self, generation: Generation) -> None:
        """Look at the parts of this generation from now on."""
        self.generation, self.audit = generation, generation.audit
        self.admin_keys = generation.admin_keys
        self.store, self.book, self.ledger = generation.keys, generation.book, generation.ledger
        self.watch, self.snapshots = generation.watch, generation.snapshots

    async def pause(self) -> None:
        self.pauses += 1

    def now_ms(self) -> int:
        return int((self.clock.seconds() + self.ahead_seconds) * 1000)

    def write_config(self, text: str) -> None:
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(text)

    def open_ledger(self) -> None:
        """Open all stores, which is over when this returns."""
        self.guard.start()
        if not self.ledger.ready:
            raise AssertionError("the ledger was not loaded")
        self.snapshots.begin()

    def record_start(self) -> None:
        """Write down the config of the start, as the service does it."""
        assert self.config_file.reading is not None
        Deferred.fromCoroutine(self.record.started(self.config_file.reading))

    def close(self) -> None:
        """Close the files, so that another plane may have the folder."""
        self.guard.stop()

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

# mypy: allow-untyped-calls
# (twisted's services, options and endpoint strings carry no types)
"""``twistd omnigate-control``: the options, and the parts of the control plane put together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from omnigate.collector import set_apart
from omnigate.config.prices import price_for
from omnigate.config.schema import Config, ConfigError
from omnigate.config.structure import Fault
from omnigate.control.admin_api import AdminApi
from omnigate.control.admin_key_file import AdminKeysFileError
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audit import AuditLog
from omnigate.control.auth import Credentials
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.health import Health
from omnigate.control.internal_api import InternalApi
from omnigate.control.key_file import KeysFileError
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.metrics import ControlMetrics
from omnigate.control.metrics_api import MetricsApi
from omnigate.control.openapi import OpenApi
from omnigate.control.reports import Reports
from omnigate.control.routes import Routes
from omnigate.control.service import ControlParts, ControlService
from omnigate.control.snapshots import Snapshots
from omnigate.control.state_folder import StateFolderError, check_writable, claim_folder
from omnigate.control.web import ControlFactory, Gate
from omnigate.daemon import DaemonOptions, Ending, endpoint_of, listen_fault, refuse_start
from omnigate.events import UsageEvent
from omnigate.files import WriterThread
from omnigate.folder_watch import FolderWatch
from omnigate.ledger.service import Ledger
from omnigate.money import Price
from omnigate.reactor_lag import ReactorLag
from omnigate.settings import ControlSettings, SettingsError, provider_key, read_control_settings

PROGRAM = "omnigate-control"

#: For how long the threads that write keep the interpreter from the reactor's thread, each time it
#: comes back from the kernel. By Python's own measure it is 5 ms, and a turn has several such.
SWITCH_SECONDS = 0.001

#: Where the listener is set.
LISTEN = "OMNIGATE_CONTROL_LISTEN or --listen"

_log = Logger(namespace="omnigate.control")


class Options(DaemonOptions):
    """Options of ``twistd omnigate-control``."""

    program = PROGRAM
    synopsis = "[options]"
    longdesc = (
        "The control plane of omnigate: config, keys, ledger, budgets and metrics, on a private "
        "port. Secrets are never options: OMNIGATE_INTERNAL_TOKEN and OMNIGATE_ADMIN_TOKEN stand "
        "in the environment, or OMNIGATE_INTERNAL_TOKEN_FILE and OMNIGATE_ADMIN_TOKEN_FILE name "
        "files that hold them. SIGHUP reads the config file again."
    )
    examples = (
        "  twistd --nodaemon --pidfile= omnigate-control --config ./omnigate.toml --state-dir .\n"
        "  twistd --nodaemon --pidfile= omnigate-control --listen tcp:8081:interface=10.0.0.5\n"
    )
    optParameters = [
        [
            "listen",
            "l",
            None,
            "Where to listen, as a Twisted endpoint. [OMNIGATE_CONTROL_LISTEN, "
            "or tcp:8081:interface=127.0.0.1]",
        ],
        ["config", "c", None, "The config file. [OMNIGATE_CONFIG, or /etc/omnigate/omnigate.toml]"],
        [
            "state-dir",
            "s",
            None,
            "The folder of ledger and keys. [OMNIGATE_STATE_DIR, or /var/lib/omnigate]",
        ],
        [
            "trusted-proxies",
            None,
            None,
            "Whose X-Forwarded-For is believed: addresses, networks and unix, with commas. "
            "[OMNIGATE_TRUSTED_PROXIES, or nobody's]",
        ],
    ]


def makeService(options: Options) -> Service:
    """Put the control plane together.

    :raises SystemExit: with status 1, and a line on standard error, when it cannot start.
    """
    from twisted.internet import reactor as global_reactor

    reactor: Any = global_reactor
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = _read_settings(options)
    _check_folders(settings)

    def now_ms() -> int:
        return int(time.time() * 1000)

    ledger_writer = WriterThread("omnigate-ledger", reactor.callFromThread)
    keys_writer = WriterThread("omnigate-keys", reactor.callFromThread)
    audit_writer = WriterThread("omnigate-audit", reactor.callFromThread)
    # A thread of its own: no poll of a data plane waits for the disk.
    snapshots_writer = WriterThread("omnigate-snapshots", reactor.callFromThread)
    # A scrape of thousands of routes takes a quarter of a second.
    metrics_writer = WriterThread("omnigate-metrics", reactor.callFromThread)
    config_file = ConfigFile(
        settings.config,
        reactor,
        lambda name: provider_key(os.environ, name),
        time.time,
        WriterThread("omnigate-config", reactor.callFromThread),
        partial(FolderWatch, reactor),
    )
    book = KeyBook(KeyStore(settings.keys, keys_writer, now_ms))
    admin_keys = AdminKeyStore(settings.admin_keys, keys_writer, now_ms)
    _load(config_file, book, admin_keys)

    metrics = ControlMetrics()
    reports = Reports(now_ms())
    lag = ReactorLag(reactor)
    audit = AuditLog(
        settings.audit, reactor, audit_writer, now_ms, max_bytes=settings.audit_max_mb * 1024 * 1024
    )
    metrics.watch_audit(audit)
    ledger = Ledger(
        settings.ledger,
        reactor,
        ledger_writer,
        lambda event: price_of(config_file.config, event),
        ids_days=config_file.config.retention.ledger_ids_days,
        ledger_days=config_file.config.retention.ledger_days,
        wall=time.time,
        steady=time.monotonic,
        observe=lambda event, cost_nano: recorded(event, cost_nano),
        observe_write=metrics.wrote,
        pause=lambda: pause(reactor),
    )
    watch = BudgetWatch(book, ledger, now_ms)

    def recorded(event: UsageEvent, cost_nano: int) -> None:
        watch.touch(event, cost_nano)
        metrics.recorded(event, cost_nano)

    metrics.watch_plane(ledger, config_file, reports, lag, time.time)
    metrics.watch_budgets(watch)
    metrics.watch_keys(book, now_ms)
    snapshots = Snapshots(
        lambda: config_file.config, watch, snapshots_writer, lambda: pause(reactor)
    )
    credentials = Credentials(
        settings.internal_token, settings.admin_token, reactor.seconds, metrics.auth_failed
    )
    credentials.sign_in_failed = audit.sign_in_failed
    credentials.admin_keys = admin_keys
    health = Health(lambda: ledger.trouble)
    openapi = OpenApi()
    routes = Routes(
        *health.endpoints(),
        *openapi.endpoints(),
        *InternalApi(
            snapshots, ledger, reports, metrics, time.time, lambda: pause(reactor)
        ).endpoints(),
        *AdminApi(
            book,
            watch,
            ledger,
            config_file,
            audit,
            reports,
            admin_keys,
            now_ms,
            lambda: pause(reactor),
        ).endpoints(),
        *MetricsApi(metrics, metrics_writer).endpoints(),
    )
    openapi.describe(routes.endpoints)
    parts = ControlParts(
        endpoint=endpoint_of(PROGRAM, reactor, settings.listen, LISTEN),
        factory=ControlFactory(
            Gate(routes, credentials, reactor, time.time, settings.trusted_proxies)
        ),
        health=health,
        audit=audit,
        ledger=ledger,
        config_file=config_file,
        book=book,
        metrics=metrics,
        lag=lag,
        snapshots=snapshots,
        writers=(ledger_writer, keys_writer, snapshots_writer, metrics_writer),
        release_state=_claim_state(settings),
        stays=lambda: set_apart(collect=False),
    )
    return ControlService(
        parts,
        reactor,
        os.environ,
        Ending(PROGRAM, reactor, options.stays_in_front),
        lambda error: listen_fault(settings.listen, LISTEN, error),
    )


async def pause(reactor: IReactorTime) -> None:
    """Let the reactor do what else there is to do."""
    await deferLater(reactor, 0)


def price_of(config: Config, event: UsageEvent) -> Price | None:
    """Return the price of an event's target, or ``None`` where there is none."""
    return price_for(config, event.route_model, event.upstream or "", event.target_model or "")


def _read_settings(options: Options) -> ControlSettings:
    """Read environment and options; warnings go to the log."""
    given = {name: options[name] for name in ("listen", "config", "state-dir")}
    try:
        settings, warnings = read_control_settings(os.environ, given)
    except SettingsError as error:
        refuse_start(PROGRAM, error.faults)
    for warning in warnings:
        _log.warn("{warning}", warning=warning)
    return settings


def _check_folders(settings: ControlSettings) -> None:
    """Make sure of the folders that state is written to."""
    try:
        for path in (settings.ledger, settings.keys, settings.admin_keys, settings.audit):
            check_writable(os.path.dirname(path))
    except StateFolderError as error:
        refuse_start(PROGRAM, [str(error)])


def _claim_state(settings: ControlSettings) -> Callable[[], None]:
    """Hold the state folder for this control plane; the result lets it go."""
    try:
        held = claim_folder(settings.state_dir)
    except StateFolderError as error:
        refuse_start(PROGRAM, [str(error)])
    return lambda: os.close(held)


def _load(config_file: ConfigFile, book: KeyBook, admin_keys: AdminKeyStore) -> None:
    """Read the config, the managed keys and the admin keys."""
    try:
        config_file.load()
        book.managed.load()
        admin_keys.load()
        book.install(config_file.file_keys)
        faults = book.clashes()
        if faults:
            raise ConfigError(faults)
    except (KeysFileError, AdminKeysFileError) as error:
        refuse_start(PROGRAM, [str(error)])
    except ConfigError as error:
        refuse_start(PROGRAM, fault_lines(config_file.path, error.faults))


def fault_lines(path: str, faults: Sequence[Fault]) -> list[str]:
    """Return the lines for a config that cannot be used: one for a single fault, else a head."""
    if len(faults) == 1:
        return [str(faults[0]) if faults[0].path == path else f"{path}: {faults[0]}"]
    return [f"{path} has {len(faults)} faults:", *(f"  {fault}" for fault in faults)]

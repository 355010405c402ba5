"""The parts of a data plane, put together: alone in its process, or as one of several workers."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IStreamServerEndpoint
from twisted.logger import Logger

from omnigate.collector import set_apart
from omnigate.config.snapshot import SnapshotUpstream
from omnigate.daemon import (
    HELD,
    START_FAILED,
    Ending,
    endpoint_of,
    listen_fault,
    refuse_start,
)
from omnigate.data_tap import LISTEN, METRICS_LISTEN, METRICS_PORT, PROGRAM
from omnigate.gateway.access_log import AccessLog
from omnigate.gateway.attesting import Attesting
from omnigate.gateway.config_pull import ConfigPull
from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.count_reports import CountReports
from omnigate.gateway.delivery import Delivery
from omnigate.gateway.forwards import Forwards
from omnigate.gateway.own_usage import OwnUsage
from omnigate.gateway.plane import DataPlane
from omnigate.gateway.plane_figures import Identity, PlaneFigures
from omnigate.gateway.service import DataParts, DataService
from omnigate.gateway.settle import Books
from omnigate.gateway.shared_uses import SharedUses
from omnigate.gateway.spool import Spool, SpoolInUseError, at_once
from omnigate.gateway.worker_spools import LeftSpools
from omnigate.protocols.addresses import AddressError, parse_address
from omnigate.protocols.connector import connect
from omnigate.protocols.pool import Connect
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import DataSettings
from omnigate.writer_thread import WriterThread

_log = Logger(namespace="omnigate.data")


def data_service(
    settings: DataSettings,
    reactor: Any,
    ending: Ending,
    endpoint: IStreamServerEndpoint,
    shared: SharedUses | None = None,
) -> DataService:
    """Put a data plane together; what is wrong ends the start with status 1 and its line.

    :param shared: what a worker counts in; its parent does what is there once for all.
    """
    writer = WriterThread("omnigate-data", reactor.callFromThread)
    log_writer = WriterThread("omnigate-access-log", reactor.callFromThread)
    # Only our own reactor sends the answers of a turn together.
    before_sends = getattr(reactor, "before_sends", at_once)
    spool = Spool(settings.spool, writer, before_sends=before_sends)
    _open_spool(settings, spool, START_FAILED if shared is None else HELD)
    watchdog = Watchdog(reactor)
    try:
        client = ControlClient(reactor, watchdog, settings.control_url, settings.internal_token)
    except AddressError as error:
        refuse_start(PROGRAM, [f"OMNIGATE_CONTROL_URL: {error}"])
    flush_seconds = settings.flush_ms / 1000
    left = None
    if shared is None or shared.index == 0:
        count = 1 if shared is None else shared.workers
        left = LeftSpools(settings.spool, count, writer, client.post, reactor, flush_seconds)
    reports = CountReports(client.post, reactor, secrets.token_hex(16))
    delivery = Delivery(
        spool,
        client.post,
        reactor,
        flush_seconds,
        reports.send,
        lambda version: parts.pull.told(version) if parts.pull is not None else None,
    )
    access_log = AccessLog(settings.access_log, log_writer, reactor, shared=shared is not None)
    books = Books(spool.append, reports.refusal)
    plane = DataPlane(settings, reactor, watchdog, books, access_log, time.time, shared)
    plane.forwards = Forwards(client)
    plane.own_usage = OwnUsage(client.get)
    parts = DataParts(
        plane=plane,
        spool=spool,
        delivery=delivery,
        client=client,
        access_log=access_log,
        endpoint=endpoint,
        connect=lambda config: _connector(reactor, config),
        writers=(writer, log_writer),
        attesting=Attesting(client.post, reactor, lambda: int(time.time() * 1000)),
        left=left,
    )
    service = DataService(
        parts,
        settings,
        reactor,
        os.environ,
        ending,
        lambda error: listen_fault(settings.listen, LISTEN, error),
    )
    identity = Identity(
        socket.gethostname(),
        lambda: service.listener.address,
        -1 if shared is None else shared.index,
    )
    reports.figures = PlaneFigures(parts, service.factory, identity)
    parts.pull = ConfigPull(
        lambda: client.get("/internal/config"),
        reactor,
        settings.poll_ms / 1000,
        settings.config_cache,
        service.install,
        writer,
        keeps=shared is None or shared.index == 0,
    )
    if settings.metrics_listen and shared is None:
        _serve_metrics(reactor, service, settings.metrics_listen)
    reactor.callWhenRunning(set_apart)
    return service


def _serve_metrics(reactor: Any, service: DataService, listen: str) -> None:
    """Add the listener for metrics."""
    # Where nobody scrapes, the Prometheus client need not be in memory.
    from omnigate.gateway.metrics import DataMetrics, OneProcess
    from omnigate.gateway.scrapes import scrape_factory

    parts = service.parts
    metrics = DataMetrics(PlaneFigures(parts, service.factory).parts, OneProcess().read)
    writer = WriterThread("omnigate-metrics", reactor.callFromThread)
    parts.writers = (*parts.writers, writer)
    service.serve_metrics(
        endpoint_of(PROGRAM, reactor, listen, METRICS_LISTEN),
        scrape_factory(metrics, parts.plane, writer),
        lambda error: listen_fault(listen, METRICS_PORT, error),
    )


def _open_spool(settings: DataSettings, spool: Spool, held_status: int) -> None:
    """Open the spool, and make the folders of both files where they are not there yet.

    :param held_status: what the process ends with where another one holds the spool.
    """
    for path in (settings.config_cache, settings.spool):
        folder = os.path.dirname(path) or "."
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            refuse_start(
                PROGRAM,
                [
                    f"{folder}: the folder cannot be made ({error.strerror or error}); give one "
                    "that this user may write in OMNIGATE_STATE_DIR or --state-dir"
                ],
            )
    try:
        spool.open()
    except SpoolInUseError as error:
        refuse_start(PROGRAM, [str(error)], held_status)
    except OSError as error:
        refuse_start(
            PROGRAM,
            [
                f"{settings.spool}: cannot be written: {error.strerror or error}; give a folder "
                "that this user may write in OMNIGATE_STATE_DIR or --state-dir"
            ],
        )


def _connector(reactor: Any, config: SnapshotUpstream) -> Connect:
    address = parse_address(config.base_url, config.proxy, config.ca_file)
    seconds = config.connect_timeout_ms / 1000

    def open_connection(build: Callable[[], IProtocol]) -> Deferred[IProtocol]:
        return connect(reactor, address, build, seconds)

    return open_connection

"""One generation of the control plane's stores, and all that hangs on them.

What lasts beside it (the config file, metrics, reports, the listener) is handed in; what is made
here is thrown away as a whole when a store has crashed, and made anew
(:mod:`~omnigate.control.guard`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.config.prices import price_for
from omnigate.config.schema import Config
from omnigate.control.admin_api import AdminApi
from omnigate.control.admin_jobs_api import AdminJobsApi
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audit import AuditLog
from omnigate.control.audit_line import AuditEntry
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_history import ConfigHistory
from omnigate.control.config_record import ConfigRecord
from omnigate.control.counters_api import CountersApi
from omnigate.control.dashboard.alerts import alerts_of
from omnigate.control.dashboard.dashboard import Dashboard
from omnigate.control.dashboard.live import Live
from omnigate.control.dashboard.sources import Sources
from omnigate.control.guard import RESTARTING, Crashed, Guard, Store
from omnigate.control.health import Health
from omnigate.control.internal_api import InternalApi
from omnigate.control.job_changes import JobChanges
from omnigate.control.jobs_api import JobsApi
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.last_uses import LastUses
from omnigate.control.lasting import Lasting
from omnigate.control.media_jobs import MediaJobs, state_folder_of
from omnigate.control.media_views import Surroundings
from omnigate.control.metrics_api import MetricsApi
from omnigate.control.openapi import OpenApi
from omnigate.control.own_usage import OwnUsage
from omnigate.control.receipts_api import ReceiptsApi
from omnigate.control.routes import Endpoint
from omnigate.control.snapshots import Snapshots
from omnigate.errors import GatewayError
from omnigate.events import UsageEvent
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.jobs.store import JobStore
from omnigate.ledger.event_search import EventSearch
from omnigate.ledger.service import Ledger
from omnigate.money import Price
from omnigate.receipts.store import ReceiptStore
from omnigate.writer_thread import IWriter

#: The writer threads of a generation. No poll of a data plane waits for the disk, so snapshots are
#: encoded by one of their own.
AUDIT_WRITER: Final = "omnigate-audit"
HISTORY_WRITER: Final = "omnigate-history"
LEDGER_WRITER: Final = "omnigate-ledger"
KEYS_WRITER: Final = "omnigate-keys"
SNAPSHOTS_WRITER: Final = "omnigate-snapshots"

JOBS_WRITER: Final = "omnigate-jobs"
RECEIPTS_WRITER: Final = "omnigate-receipts"
MEDIA_WRITER: Final = "omnigate-media"
#: Encrypts and copies files, which takes long, so it is beside the one that takes what arrives.
MEDIA_WORKER: Final = "omnigate-media-work"
#: Reads them for whoever downloads them.
MEDIA_READER: Final = "omnigate-media-reader"

#: Looks for events further back than memory goes, beside the writer of the ledger.
LEDGER_READER: Final = "omnigate-ledger-reader"

_log = Logger(namespace="omnigate.control")


@attrs.frozen(eq=False)
class Generation:
    """The stores of one life, and what is made of them; a :class:`~omnigate.control.guard.Group`.

    :ivar stores: in the order they are opened in.
    :ivar crashed: called with the name of what broke, and with what that was.
    """

    lasting: Lasting
    audit: AuditLog
    history: ConfigHistory
    keys: KeyStore
    admin_keys: AdminKeyStore
    book: KeyBook
    ledger: Ledger
    search: EventSearch
    watch: BudgetWatch
    snapshots: Snapshots
    live: Live
    jobs: JobStore
    media: MediaJobs
    stores: tuple[Store, ...]
    writers: tuple[IWriter, ...]
    endpoints: tuple[Endpoint, ...]
    crashed: Crashed

    def take_config(self) -> None:
        """Take over what the config in force says of keys and ledger.

        A generation that cannot is crashed: it would go on to let in who is no longer in the file,
        and the next one begins with the config in force.
        """
        try:
            config_file = self.lasting.config_file
            retention = config_file.config.retention
            self.ledger.keep(ids_days=retention.ledger_ids_days, ledger_days=retention.ledger_days)
            self.book.take(config_file.gateway_keys)
        except Exception:
            self.crashed("taking the config over", Failure())

    def tell_clashes(self) -> None:
        """Log the file keys that have the name or the secret of a managed key."""
        for clash in self.book.clashes():
            _log.error("config {clash}", clash=str(clash))


def make_generation(lasting: Lasting, crashed: Crashed) -> Generation:
    """Make a generation; nothing is read from the disk yet.

    :param crashed: called with the name of a store, and with what broke in it.
    """
    config_file, metrics = lasting.config_file, lasting.metrics

    writers: list[IWriter] = []

    def writer(name: str) -> IWriter:
        made = lasting.make_writer(name, partial(crashed, f"the writer {name}"))
        writers.append(made)
        return made

    def recorded(event: UsageEvent, cost_nano: int) -> None:
        watch.touch(event, cost_nano)
        last_uses.recorded(event)
        metrics.recorded(event, cost_nano)
        lasting.lately.recorded(event, cost_nano, config_file.config, lasting.now_ms())

    audit = AuditLog(
        lasting.audit_path,
        lasting.clock,
        writer(AUDIT_WRITER),
        lasting.now_ms,
        lasting.audit_max_bytes,
        partial(crashed, "audit"),
    )
    history = ConfigHistory(
        lasting.history_path,
        writer(HISTORY_WRITER),
        lasting.now_ms,
        partial(crashed, "config history"),
    )
    keys_writer = writer(KEYS_WRITER)
    keys = KeyStore(lasting.keys_path, keys_writer, lasting.now_ms, crashed=crashed)
    admin_keys = AdminKeyStore(
        lasting.admin_keys_path, keys_writer, lasting.now_ms, crashed=crashed
    )
    book = KeyBook(keys)
    book.take(config_file.gateway_keys)
    retention = config_file.config.retention
    ledger = Ledger(
        lasting.ledger_path,
        lasting.clock,
        writer(LEDGER_WRITER),
        lambda event: price_of(config_file.config, event),
        ids_days=retention.ledger_ids_days,
        ledger_days=retention.ledger_days,
        wall=lasting.wall,
        steady=lasting.steady,
        observe=recorded,
        observe_write=metrics.wrote,
        pause=lasting.pause,
        crashed=partial(crashed, "ledger"),
    )
    search = EventSearch(
        lasting.ledger_path,
        ledger,
        writer(LEDGER_READER),
        lambda: config_file.config.retention.ledger_ids_days,
    )
    watch = BudgetWatch(book, ledger, lasting.now_ms)
    last_uses = LastUses(ledger.recent, lasting.now_ms)
    snapshots = Snapshots(
        lambda: config_file.config, watch, writer(SNAPSHOTS_WRITER), lasting.pause
    )
    admin = AdminApi(
        book,
        watch,
        ledger,
        search,
        config_file,
        audit,
        history,
        lasting.reports,
        admin_keys,
        lasting.now_ms,
        lasting.stand_back,
    )
    receipts = ReceiptStore(
        lasting.receipts_path,
        lasting.clock,
        writer(RECEIPTS_WRITER),
        lasting.now_ms,
        lambda: config_file.config.retention.receipts_days,
        partial(crashed, "receipts"),
    )
    jobs = JobStore(
        lasting.jobs_path, writer(JOBS_WRITER), lasting.now_ms, crashed=partial(crashed, "jobs")
    )
    media = MediaJobs(
        jobs,
        Surroundings(
            config=lambda: config_file.config,
            credential=lasting.credential,
            book=book,
            books=ledger,
            state_folder=state_folder_of(lasting.jobs_path),
            media_folder=lasting.media_dir,
            writer=writer(MEDIA_WRITER),
            worker=writer(MEDIA_WORKER),
            reader=writer(MEDIA_READER),
            clock=lasting.clock,
            now_ms=lasting.now_ms,
            steady=lasting.steady,
            connect=lasting.connect,
            pause=lasting.pause,
        ),
    )
    live = Live(lasting.clock)
    sources = Sources(
        book,
        watch,
        ledger,
        config_file,
        audit,
        history,
        admin_keys,
        lasting.reports,
        last_uses,
        metrics,
        lasting.clock,
        lasting.now_ms,
        lasting.stand_back,
        live,
        lately=lasting.lately,
        snapshots=snapshots,
        search=search,
        data_plane=lasting.data_plane,
        media=media,
    )
    # Until these are open, an admin key is answered that they are not.
    lasting.credentials.admin_keys = admin_keys
    lasting.credentials.sign_in_failed = audit.sign_in_failed
    metrics.watch_audit(audit)
    metrics.watch_receipts(receipts)
    metrics.watch_keys(book, lasting.now_ms)
    metrics.watch_ledger(ledger)
    metrics.watch_budgets(watch)
    metrics.jobs.watch(media)
    return Generation(
        lasting,
        audit,
        history,
        keys,
        admin_keys,
        book,
        ledger,
        search,
        watch,
        snapshots,
        live,
        jobs,
        media,
        stores=(audit, history, keys, admin_keys, ledger, receipts, jobs, media, live),
        writers=tuple(writers),
        endpoints=(
            *InternalApi(snapshots, ledger).endpoints(),
            *ReceiptsApi(receipts).endpoints(),
            *OwnUsage(book, watch, lambda: config_file.config.media.max_jobs_per_day).endpoints(),
            *admin.endpoints(),
            *AdminJobsApi(
                jobs, book, media.views.shown, JobChanges(media, audit), lasting.stand_back
            ).endpoints(),
            *Dashboard(lasting.entrance.pages, sources).endpoints(),
            *live.endpoints(),
            *media.endpoints(),
            *JobsApi(
                jobs,
                media.runner,
                book.owner,
                watch,
                lambda: config_file.config,
                ADAPTERS,
                media.views.shown,
                media.input_reads,
                now_ms=lasting.now_ms,
                steady=lasting.steady,
                pause=lasting.pause,
            ).endpoints(),
        ),
        crashed=crashed,
    )


def price_of(config: Config, event: UsageEvent) -> Price | None:
    """Return the price of an event's target, or ``None`` where there is none."""
    return price_for(config, event.route_model, event.upstream or "", event.target_model or "")


def guard_stores(lasting: Lasting) -> Guard[Generation]:
    """Return the guard over the stores, its first generation made and not opened.

    What needs no store stands beside them: probes, metrics, what data planes count, the description
    of the API.
    """
    metrics, openapi, entrance = lasting.metrics, OpenApi(), lasting.entrance

    def unready() -> str | None:
        generation = guard.current
        return guard.words or (None if generation is None else generation.ledger.trouble)

    guard: Guard[Generation] = Guard(
        partial(make_generation, lasting),
        lasting.clock,
        (
            *Health(unready, lambda: bool(lasting.config_file.faults)).endpoints(),
            *MetricsApi(metrics, lasting.metrics_writer).endpoints(),
            *CountersApi(
                lasting.reports, metrics, lasting.lately, lasting.wall, lasting.pause
            ).endpoints(),
            *openapi.endpoints(),
            *entrance.front.endpoints(),
        ),
    )

    async def record(entry: AuditEntry) -> None:
        # It is opened first; a large ledger may take a while longer.
        if guard.latest is None:
            raise GatewayError("not_ready", guard.words or RESTARTING, retry_after=1)
        await guard.latest.audit.record(entry)

    entrance.front.record = record
    entrance.pages.alerts = lambda: alerts_of(len(lasting.config_file.faults), unready())
    metrics.watch_stores(lambda: guard.current is not None, lambda: guard.restarts)
    guard.make_first()
    openapi.describe(guard.endpoints)
    return guard


def record_config(lasting: Lasting, guard: Guard[Generation]) -> ConfigRecord:
    """Have each reading of the config file written down by the stores of the moment."""

    def audit() -> AuditLog | None:
        return None if guard.current is None else guard.current.audit

    def history() -> ConfigHistory | None:
        return None if guard.current is None else guard.current.history

    record = ConfigRecord(audit, history)
    lasting.config_file.witness = record
    return record

"""What pages are made of: the stores of one generation, and what lasts beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
from twisted.internet.interfaces import IReactorTime

from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audit import AuditLog
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.config_history import ConfigHistory
from omnigate.control.dashboard.data_plane import DataPlane
from omnigate.control.dashboard.live import Live
from omnigate.control.keys import KeyBook
from omnigate.control.last_uses import LastUses
from omnigate.control.lately import Lately
from omnigate.control.media_jobs import MediaJobs
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.snapshots import Snapshots
from omnigate.ledger.event_search import EventSearch
from omnigate.ledger.service import Ledger


@attrs.frozen(eq=False)
class Sources:
    """Where pages look.

    :ivar now_ms: milliseconds since 1970.
    :ivar pause: lets the reactor do something else.
    :ivar live: where parts of pages are registered that come up by themselves.
    :ivar data_plane: where a request can be tried.
    :ivar media: the job store, and all that runs jobs.
    """

    book: KeyBook
    watch: BudgetWatch
    ledger: Ledger
    config_file: ConfigFile
    audit: AuditLog
    history: ConfigHistory
    admin_keys: AdminKeyStore
    reports: Reports
    last_uses: LastUses
    metrics: ControlMetrics
    clock: IReactorTime
    now_ms: Callable[[], int]
    pause: Callable[[], Awaitable[None]]
    live: Live
    lately: Lately
    snapshots: Snapshots
    search: EventSearch
    data_plane: DataPlane
    media: MediaJobs

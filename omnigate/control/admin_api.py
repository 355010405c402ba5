"""The admin API: the endpoints of all its topics together.

Everything here needs the credential of an operator. Each topic has a module of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from omnigate.control.admin_key_api import AdminKeyApi
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audit import AuditLog
from omnigate.control.audit_api import AuditApi
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_api import ConfigApi
from omnigate.control.config_file import ConfigFile
from omnigate.control.config_history import ConfigHistory
from omnigate.control.key_api import KeyApi
from omnigate.control.keys import KeyBook
from omnigate.control.reports import Reports
from omnigate.control.requests_api import RequestsApi
from omnigate.control.routes import Endpoint
from omnigate.control.usage_api import Accounts, UsageApi
from omnigate.ledger.event_search import EventSearch


class AdminApi:
    """The endpoints of operators.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        book: KeyBook,
        watch: BudgetWatch,
        ledger: Accounts,
        search: EventSearch,
        config_file: ConfigFile,
        audit: AuditLog,
        history: ConfigHistory,
        reports: Reports,
        admin_keys: AdminKeyStore,
        now_ms: Callable[[], int],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._topics = (
            KeyApi(book, watch, ledger, audit, pause),
            UsageApi(book, ledger, reports, pause),
            RequestsApi(book, ledger, search),
            ConfigApi(config_file, history, pause),
            AuditApi(audit),
            AdminKeyApi(admin_keys, audit, now_ms),
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return tuple(endpoint for topic in self._topics for endpoint in topic.endpoints())

"""The pages that are made of the stores, all topics together."""

from __future__ import annotations

from omnigate.control.dashboard.admin_keys_page import AdminKeysPage
from omnigate.control.dashboard.audit_page import AuditPage
from omnigate.control.dashboard.config_history_page import ConfigHistoryPage
from omnigate.control.dashboard.config_page import ConfigPage
from omnigate.control.dashboard.job_files_page import JobFilesPage
from omnigate.control.dashboard.jobs_page import JobsPage
from omnigate.control.dashboard.key_form_page import KeyFormPage
from omnigate.control.dashboard.keys_page import KeysPage
from omnigate.control.dashboard.models_page import ModelsPage
from omnigate.control.dashboard.overview_page import OverviewPage
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.refusals_page import RefusalsPage
from omnigate.control.dashboard.requests_page import RequestsPage
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.try_page import TryPage
from omnigate.control.dashboard.usage_page import UsagePage
from omnigate.control.routes import Endpoint


class Dashboard:
    """The endpoints of people who have signed in; each topic has a module of its own."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        keys = KeysPage(pages, sources)
        self._topics = (
            OverviewPage(pages, sources),
            keys,
            KeyFormPage(pages, sources, keys),
            RequestsPage(pages, sources),
            JobsPage(pages, sources),
            JobFilesPage(sources),
            ModelsPage(pages, sources),
            UsagePage(pages, sources),
            RefusalsPage(pages, sources),
            AuditPage(pages, sources),
            ConfigPage(pages, sources),
            ConfigHistoryPage(pages, sources),
            TryPage(pages, sources),
            AdminKeysPage(pages, sources),
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return tuple(endpoint for topic in self._topics for endpoint in topic.endpoints())

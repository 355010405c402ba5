"""Pages of gateway keys: the list, and one key with all that explains how it is doing."""

from __future__ import annotations

import re
from typing import Any, Final

from omnigate.control.dashboard.key_list import ORDERS, KeyList, wanted
from omnigate.control.dashboard.key_states import STATES
from omnigate.control.dashboard.key_view import (
    PERIOD_WORDS,
    find_key,
    plot_days,
    view_key,
)
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.dashboard.paths import key_path
from omnigate.control.dashboard.rotations import GRACES, renewal_mark, rotation_mark
from omnigate.control.dashboard.sources import Sources
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.ledger.books import RECENT_EVENTS

#: The menu's entry.
PLACE: Final = "/keys"

#: What has just been done, as the address of the page behind it says.
DONE: Final = {
    "saved": "Saved. Data planes take it over within seconds.",
    "disabled": "Disabled. Requests with this key are refused within seconds.",
    "enabled": "Enabled. The key works again within seconds.",
    "unsigned": "Webhooks of this key's jobs are not signed any more.",
    "deleted": "The key was deleted. What it spent stays in the usage.",
}

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class KeysPage:
    """The endpoints that only show keys."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._list = KeyList(sources)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PLACE, self.show_list, free_query=True),
            Endpoint("GET", "/keys/{name}", self.show, free_query=True),
            # Of a key that is called as the page for new ones is.
            Endpoint("GET", "/keys/{name}/key", self.show, free_query=True),
        )

    async def show_list(self, call: Call) -> Answer:
        """Show a page of the list."""
        filters = wanted(call.query)
        return self._pages.answer(
            "keys.html",
            call.person,
            title="Keys",
            place=PLACE,
            filters=filters,
            page=await self._list.find(filters, call.query.get("page")),
            states=STATES,
            orders=ORDERS,
            periods=PERIOD_WORDS,
            done=DONE.get(call.query.get("done", ""), ""),
            since_ms=self._sources.reports.since_ms,
        )

    async def show(self, call: Call) -> Answer:
        """Show one key; one that is gone is found by its hash."""
        key = find_key(self._sources, call.name)
        if key is not None:
            return self.answer(call, key, done=DONE.get(call.query.get("done", ""), ""))
        if _SHA256.fullmatch(call.name):
            return self._by_hash(call)
        raise GatewayError("not_found", f'There is no key named "{call.name}".')

    def answer(
        self, call: Call, key: GatewayKey, *, done: str = "", status: int = 200, **values: Any
    ) -> Answer:
        """Return the page of a key.

        :param values: of the form for rotating it, after a fault.
        """
        rotation = {"grace": "86400", "own_minutes": "", "fault": "", "note": ""}
        return self._pages.answer(
            "key.html",
            call.person,
            status=status,
            title=key.name,
            place=PLACE,
            view=view_key(self._sources, self._list, key),
            states=STATES,
            path=key_path(key.name),
            graces=(*GRACES, ("own", "Another time, typed below")),
            newest=RECENT_EVENTS,
            done=done,
            rotation={**rotation, **values},
            rotation_mark=rotation_mark(key),
            renewal_mark=renewal_mark(key),
            webhook_graces=GRACES,
        )

    def _by_hash(self, call: Call) -> Answer:
        """Show a key that is known by its hash: one that there is, else what it used."""
        sha256, ledger = call.name, self._sources.ledger
        for key in self._sources.book:
            if sha256 in key.hashes:
                return see_other(key_path(key.name))
        now_ms = self._sources.now_ms()
        history = ledger.key_history([sha256], now_ms)
        if not history.lifetime.requests:
            raise GatewayError(
                "not_found", "There is no key with this hash, and the ledger has no use of one."
            )
        return self._pages.answer(
            "key_gone.html",
            call.person,
            title="A key that is gone",
            place=PLACE,
            sha256=sha256,
            history=history,
            plot=plot_days(history),
            last_day=ledger.last_days([sha256], now_ms).get(sha256),
        )

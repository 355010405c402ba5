"""What a key may know of itself: what it has spent, what is left, and its limits.

A data plane asks for a client that showed the key, since it knows nothing about money itself. What
is the operator's own business, soft budgets and networks, is not told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigate.control.admin_json import dollars, encode, time
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.keys import KeyBook
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError


class OwnUsage:
    """The endpoint under ``/internal/`` that tells of one key."""

    def __init__(
        self, book: KeyBook, watch: BudgetWatch, max_jobs_per_day: Callable[[], int]
    ) -> None:
        """Take the parts.

        :param max_jobs_per_day: gives how many media jobs a key may make that says nothing of it.
        """
        self._max_jobs_per_day = max_jobs_per_day
        self._book = book
        self._watch = watch

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (Endpoint("GET", "/internal/v1/usage/{identity}", self.usage),)

    async def usage(self, call: Call) -> Answer:
        """Answer what the key with this identity has spent, and its limits."""
        if not self._watch.ready:
            raise GatewayError(
                "not_ready", "what keys have spent is still being read; try again", retry_after=1
            )
        key = self._book.owner(call.name)
        if key is None:
            raise GatewayError("not_found", "no key has this identity")
        return Answer(encode(self._told(key)))

    def _told(self, key: GatewayKey) -> dict[str, Any]:
        stands = self._watch.standing(key)
        budget = key.budget_nano is not None
        return {
            "name": key.name,
            "spent_usd": dollars(stands.spent_nano),
            "budget_usd": dollars(key.budget_nano),
            "left_usd": dollars(stands.left_nano),
            "blocked": stands.blocked,
            # Spend is counted by the period of the budgets, and told as what it is.
            "period": key.budget_period,
            "timezone": key.budget_timezone,
            "turns_at": time(stands.turns_at_ms) if budget else None,
            "rpm": key.rpm,
            "tpm": key.tpm,
            "max_concurrent": key.max_concurrent,
            "max_open_jobs": key.max_open_jobs,
            "max_jobs_per_day": key.max_jobs_per_day or self._max_jobs_per_day(),
            "models": key.models,
            "endpoints": key.endpoints,
            "expires_at": time(key.expires_ms or None),
        }

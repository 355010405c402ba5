"""What an ended exchange owes: one usage event or one counted refusal.

This is the only place where either is made, so that the sum over both is the number of
exchanges that asked for work.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigate.events import UsageEvent, encode_event
from omnigate.gateway.tally import NONE, Tally


class Books:
    """Takes events and refusals.

    :param append: puts an event's line into the spool; ``False`` when it is full.
    :param refuse: counts a refusal by key name and code.
    :ivar events: usage events so far.
    :ivar refusals: refusals so far.
    :ivar tally: what metrics are made of.
    """

    def __init__(self, append: Callable[[bytes], bool], refuse: Callable[[str, str], None]) -> None:
        self._append = append
        self._refuse = refuse
        self.events = 0
        self.refusals = 0
        self.tally = Tally()

    def usage(
        self,
        event: UsageEvent,
        outcome: str,
        seconds: float,
        first_seconds: float | None = None,
    ) -> None:
        """Account for an exchange that cost, or may have cost, money.

        :param outcome: see :class:`~omnigate.gateway.tally.Tally`.
        :param seconds: how long it took, from its head on.
        :param first_seconds: how long it took to the first byte of a relayed answer.
        """
        self.events += 1
        self._append(encode_event(event))
        self.tally.used(event, outcome, seconds, first_seconds)

    def refusal(
        self, key_name: str, code: str, status: int, endpoint: str = NONE, route: str = NONE
    ) -> None:
        """Account for an exchange that was turned away before any upstream was asked."""
        self.refusals += 1
        self._refuse(key_name, code)
        self.tally.refused(code, status, endpoint, route)

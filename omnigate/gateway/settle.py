"""What an ended exchange owes: one usage event or one counted refusal.

This is the only place where either is made, so that the sum over both is the number of
exchanges that asked for work.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigate.events import UsageEvent, encode_event


class Books:
    """Takes events and refusals.

    :param append: puts an event's line into the spool; ``False`` when it is full.
    :param refuse: counts a refusal by key name and code.
    :ivar events: usage events so far.
    :ivar refusals: refusals so far.
    """

    def __init__(self, append: Callable[[bytes], bool], refuse: Callable[[str, str], None]) -> None:
        self._append = append
        self._refuse = refuse
        self.events = 0
        self.refusals = 0

    def usage(self, event: UsageEvent) -> None:
        """Account for an exchange that cost, or may have cost, money."""
        self.events += 1
        self._append(encode_event(event))

    def refusal(self, key_name: str, code: str) -> None:
        """Account for an exchange that was turned away before any upstream was asked."""
        self.refusals += 1
        self._refuse(key_name, code)

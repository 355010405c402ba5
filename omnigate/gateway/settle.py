"""What an ended exchange owes: one usage event or one counted refusal.

This is the only place where either is made, so that the sum over both is the number of
exchanges that asked for work.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from omnigate.events import UsageEvent, encode_event


@attrs.define
class LogEntry:
    """One request as the access log tells it; see :class:`~omnigate.gateway.access_log.Entry`."""

    ts: float
    request_id: str
    method: str
    path: str
    client: str
    status: int
    duration_ms: int
    key: str
    route: str
    model: str
    upstream: str
    error_code: str
    stream: bool
    first_byte_ms: int | None
    attempts: int
    bytes_in: int
    bytes_out: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    estimated: bool


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

"""Whether every answered request is in the books: once, with its tokens and its exact price."""

import json
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import attrs

from bench import traffic
from omnigate.admin_client import AdminClient

#: US dollars for a million tokens, as the config of the benchmark has them.
INPUT_USD = Decimal("0.15")
OUTPUT_USD = Decimal("0.60")

#: How long the last events may take from a data plane into the ledger: it flushes each second.
BOOKED_SECONDS = 20.0

_LOOK_AGAIN_SECONDS = 0.05


class UsageLostError(Exception):
    """The books do not say what was served; the text says what they say."""


@attrs.define
class Usage:
    """Requests and their tokens, added up.

    :ivar cost_usd: ``None`` where it is not known: only the ledger prices.
    """

    requests: int = 0
    prompt: int = 0
    completion: int = 0
    cost_usd: Decimal | None = None

    def add(self, kind: str, answers: int, paced_events: int) -> None:
        """Add the answers to requests of one kind."""
        tokens = traffic.tokens_of(kind, paced_events)
        self.requests += answers
        self.prompt += answers * tokens.prompt
        self.completion += answers * tokens.completion

    def agrees(self, books: "Usage") -> bool:
        """Return whether the books say the same."""
        if books.cost_usd is not None and books.cost_usd != self.priced():
            return False
        mine = (self.requests, self.prompt, self.completion)
        return mine == (books.requests, books.prompt, books.completion)

    def priced(self) -> Decimal:
        """Return what all of it costs, exactly."""
        return (self.prompt * INPUT_USD + self.completion * OUTPUT_USD) / 1_000_000

    def __str__(self) -> str:
        cost = self.priced() if self.cost_usd is None else self.cost_usd
        tokens = f"{self.prompt} tokens in, {self.completion} out"
        return f"{self.requests} requests, {tokens}, {cost:f} USD"


def in_ledger(admin: AdminClient) -> Usage:
    """Return what the control plane has recorded.

    :raises omnigate.admin_client.AdminError: it does not tell
    """
    total = admin.call("GET", "/admin/usage?by=model")["total"]
    return Usage(
        requests=total["requests"],
        prompt=total["input_tokens"] + total["cached_input_tokens"],
        completion=total["output_tokens"],
        cost_usd=Decimal(total["cost_usd"]),
    )


def in_spool(path: Path) -> Usage:
    """Return what a data plane without a control plane has put into its spool."""
    usage = Usage()
    with path.open("rb") as lines:
        for line in lines:
            event = json.loads(line)
            usage.requests += 1
            usage.prompt += event["input_tokens"] + event["cached_input_tokens"]
            usage.completion += event["output_tokens"]
    return usage


def wait_until_booked(owed: Usage, books: Callable[[], Usage]) -> None:
    """Wait until the books say what is owed.

    :raises UsageLostError: they do not within :data:`BOOKED_SECONDS`, or they say more
    """
    end = time.monotonic() + BOOKED_SECONDS
    while True:
        booked = books()
        if owed.agrees(booked):
            return
        if booked.requests > owed.requests or time.monotonic() > end:
            raise UsageLostError(f"served: {owed}; in the books: {booked}")
        time.sleep(_LOOK_AGAIN_SECONDS)

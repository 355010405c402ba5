"""A player of golden cases that has an adapter speak, without a runner, a socket or a clock.

Each request is judged against the exchange that comes next, and answered with what stands there.
A download is not made: what counts is that an output names that URL, with those headers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TypeVar

import attrs

from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    Done,
    Failed,
    Handle,
    InlineSource,
    Running,
    Source,
    Steps,
    Stopped,
    Transient,
    UrlSource,
)
from omnigate.jobs.job import Billable, JobError
from tests.jobs.cases import Case, Exchange

JOB_ID = "job_01jdexample00000000000000"

#: Answers in a row that tell nothing, and the target is abandoned.
TRANSIENT_IN_A_ROW = 5

_SUBMIT = frozenset(("catalog", "submit"))
_POLL = frozenset(("poll", "result"))
_CANCEL = frozenset(("cancel",))

T = TypeVar("T")


class DeviationError(AssertionError):
    """An adapter did what the case does not say."""


@attrs.define
class Played:
    """What came of a case.

    :ivar outcomes: of the attempts, in their order.
    :ivar done: of the last attempt, where it came to outputs.
    """

    outcomes: list[str] = attrs.field(factory=list)
    done: Done | None = None
    error: JobError | None = None
    billable: Billable | None = None
    provider_job_id: str = ""


class Player:
    """Plays one case.

    :param taken_out: whether base64 is taken out of the answers, as of long ones.
    """

    def __init__(
        self, case: Case, adapters: Mapping[str, Adapter], *, taken_out: bool = False
    ) -> None:
        self._case = case
        self._adapters = adapters
        self._taken_out = taken_out
        self._at = 0
        self._target = 0
        self.played = Played()

    def play(self) -> Played:
        """Play it to its end.

        :raises DeviationError: a request, or the end, is another one than the case tells.
        """
        for target in range(len(self._case.route["targets"])):
            self._target = target
            outcome = self._attempt()
            self.played.outcomes.append(outcome)
            if outcome in ("succeeded", "canceled"):
                break
        left = [one.kind for one in self._case.exchanges[self._at :]]
        if left:
            raise DeviationError(f"{self._case.id}: nobody asked for {left}")
        return self.played

    def _attempt(self) -> str:
        case, played = self._case, self.played
        adapter = self._adapters[case.route["targets"][self._target]["adapter"]]
        task = case.task(self._target, JOB_ID)
        adapter.check(task.model, case.input)
        played.billable = adapter.billable(task)
        outcome = self._converse(adapter.submit(task), _SUBMIT)
        if isinstance(outcome, Failed):
            return self._failed(outcome)
        if isinstance(outcome, Done):
            return self._finished(outcome)
        assert isinstance(outcome, Accepted)
        handle = outcome.handle
        played.provider_job_id = handle.provider_job_id
        task = attrs.evolve(task, input={})  # as it is after a restart
        in_a_row = 0
        while True:
            if self._at == case.cancel_after and self._canceled(adapter, handle):
                return "canceled"
            exchange = self._next_exchange()
            if exchange is not None and exchange.kind == "restart":
                self._at += 1
                continue
            told = self._converse(adapter.poll(task, handle), _POLL)
            match told:
                case Running() if exchange is not None and exchange.repeat:
                    self._converse(adapter.cancel(task, handle), _CANCEL)
                    return "failed"
                case Running():
                    in_a_row = 0
                    if self._next_exchange() is None and case.cancel_after != self._at:
                        raise DeviationError(f"{case.id}: it would be polled for ever")
                case Transient(error):
                    in_a_row += 1
                    if in_a_row == TRANSIENT_IN_A_ROW:
                        return self._failed(Failed(error))
                case Stopped():
                    return "canceled"
                case Failed():
                    return self._failed(told)
                case Done():
                    return self._finished(told)

    def _canceled(self, adapter: Adapter, handle: Handle) -> bool:
        if not adapter.can_cancel:
            return True
        task = attrs.evolve(self._case.task(self._target, JOB_ID), input={})
        return isinstance(self._converse(adapter.cancel(task, handle), _CANCEL), Stopped)

    def _next_exchange(self) -> Exchange | None:
        exchanges = self._case.exchanges
        return exchanges[self._at] if self._at < len(exchanges) else None

    def _converse(self, steps: Steps[T], kinds: Collection[str]) -> T:
        """Answer an adapter's requests out of the case until it has come to something."""
        try:
            request = next(steps)
            while True:
                exchange = self._next_exchange()
                asked = f"{self._case.id}, exchange {self._at}: {request.method} {request.url}"
                if exchange is None or exchange.kind not in kinds:
                    raise DeviationError(f"{asked} is not in the case")
                faults = exchange.faults(request, JOB_ID, self._target)
                if faults:
                    raise DeviationError(f"{asked}: {'; '.join(faults)}")
                self._at += 1
                request = steps.send(exchange.answer(request, taken_out=self._taken_out))
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _failed(self, outcome: Failed) -> str:
        self.played.error = outcome.error
        self.played.provider_job_id = outcome.provider_job_id or self.played.provider_job_id
        return "rate_limited" if outcome.rate_limited else "failed"

    def _finished(self, done: Done) -> str:
        """Hold the outputs against the downloads that follow, and against what is expected."""
        case = self._case
        self.played.done, self.played.error = done, None
        self.played.provider_job_id = done.provider_job_id or self.played.provider_job_id
        urls = [source for source in done.sources if isinstance(source, UrlSource)]
        hop = False
        while (exchange := self._next_exchange()) is not None and exchange.kind == "download":
            if not hop:
                self._named(urls.pop(0) if urls else None, exchange)
            hop = 300 <= exchange.response["status"] < 400
            self._at += 1
        expected = case.expect["outputs"]
        if not expected:
            return "failed"  # for what the downloads, or their number, came to
        if len(done.sources) != len(expected):
            raise DeviationError(f"{case.id}: {len(done.sources)} outputs, not {len(expected)}")
        for source, output in zip(done.sources, expected, strict=True):
            if isinstance(source, InlineSource) != (output["source"] == "inline"):
                raise DeviationError(f"{case.id}: {source} is not {output['source']}")
            if isinstance(source, InlineSource) and _sha256(source) != output["sha256"]:
                raise DeviationError(f"{case.id}: {source} is other media")
        return "succeeded"

    def _named(self, source: Source | None, exchange: Exchange) -> None:
        wanted = exchange.request
        if not isinstance(source, UrlSource) or source.url != wanted["url"]:
            raise DeviationError(f"{self._case.id}: {wanted['url']} is no output: {source}")
        headers = dict(source.headers)
        if any(headers.get(name) != value for name, value in wanted["headers"].items()):
            raise DeviationError(f"{self._case.id}: {wanted['url']} lacks headers")
        if any(name in headers for name in wanted.get("absent_headers", ())):
            raise DeviationError(f"{self._case.id}: {wanted['url']} is sent a credential")


def _sha256(source: InlineSource) -> str:
    content = source.content
    if isinstance(content, bytes):
        return hashlib.sha256(source.prefix + content).hexdigest()
    if not source.prefix:
        return content.sha256
    if content.size > len(content.head):
        raise DeviationError("the content of a file with a prefix is not at hand here")
    return hashlib.sha256(source.prefix + content.head).hexdigest()

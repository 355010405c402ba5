"""The books of a soak held against each other, request by request; pure.

A request is followed from its client over its line in the access log (the client's address names
the connection, and lines of one connection stand in order) to its event in the ledger, and from
the event's figures to the one attempt at a provider that they bill.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import attrs

from bench.soak import mix, replies, scene
from bench.soak.books import Asked, Attempt, Event, LogLine
from bench.soak.check import Check
from bench.soak.states import Gauges

#: How exactly the gateway's time for reading on is known from outside, in seconds: a stalled
#: client is noticed late, and clocks are looked at every tenth of a second.
DRAIN_SLACK_SECONDS = 1.5

#: What a client may be told by the gateway alone, whatever was asked: nothing.
_CLIENT_GONE = "client_disconnected"

#: Faults after which a stream that has begun does not come to its end.
_CUTS = frozenset(
    (
        *("cut-stream", "reset-stream", "bad-chunk", "silent-stream", "cut-after-usage"),
        *("cut-body", "reset-body", "silent-body"),
    )
)


#: Of these nobody is billed.
_NO_ANSWERS = frozenset(
    (
        *("429", "429-retry-after", "500", "503-retry-after", "529", "400", "401"),
        *("html", "error-envelope", "empty", "error-first", "garbage-head", "two-lengths"),
    )
)


@attrs.define
class Linked:
    """One request, and what the others wrote of it."""

    asked: Asked
    line: LogLine | None = None
    event: Event | None = None


class Judge:
    """Compares four books.

    :ivar checks: what was compared, in order.
    :ivar linked: every request with its line and its event.
    :ivar total_nano: what the ledger's events must cost, worked out apart.
    """

    def __init__(
        self,
        asked: Sequence[Asked],
        attempts: Sequence[Attempt],
        log: Sequence[LogLine],
        ledger: Sequence[Event],
    ) -> None:
        self._asked = asked
        self._attempts = attempts
        self._log = log
        self._ledger = ledger
        self._by_serial = {attempt.serial: attempt for attempt in attempts}
        self._events: dict[str, Event] = {}
        self._by_mark: dict[int, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            self._by_mark[attempt.mark].append(attempt)
        self.checks: list[Check] = []
        self.linked: list[Linked] = []
        self.total_nano = 0
        #: Attempts that an event bills, by their serial numbers.
        self.billed: Counter[int] = Counter()
        #: Refusals by code that the clients and the log know of.
        self.refusals: Counter[str] = Counter()

    def run(self, gauges: Gauges | None = None, total_usd: str = "") -> list[Check]:
        """Compare everything.

        :param gauges: what the data plane has counted, where that is compared too.
        :param total_usd: the sum of the ledger, as the control plane tells it.
        """
        self._clients_saw_nothing_odd()
        self._providers_saw_nothing_odd()
        self._ids_are_there_once()
        self._link()
        self._answers_are_right()
        self._events_are_right()
        self._every_bill_is_in_the_ledger()
        self._costs_are_right()
        if gauges is not None:
            self._sum_is_right(total_usd)
            self._counters_are_right(gauges)
        return self.checks

    def _check(self, name: str, counted: int = 0) -> Check:
        check = Check(name, counted)
        self.checks.append(check)
        return check

    def _clients_saw_nothing_odd(self) -> None:
        check = self._check("no client saw a broken answer", len(self._asked))
        for asked in self._asked:
            if asked.fault:
                check.fail(f"{_told(asked)}: {asked.fault}")

    def _providers_saw_nothing_odd(self) -> None:
        name = "every request reached its provider as its client wrote it"
        check = self._check(name, len(self._attempts))
        for attempt in self._attempts:
            if attempt.odd:
                check.fail(f"attempt {attempt.serial} at {attempt.upstream}: {attempt.odd}")

    def _ids_are_there_once(self) -> None:
        check = self._check("no event is in the ledger twice", len(self._ledger))
        for event in self._ledger:
            if event.id in self._events:
                check.fail(f"{event.id} is there twice")
            self._events[event.id] = event

    # -- from the client to the log and the ledger

    def _link(self) -> None:
        check = self._check("the access log has a line for each request", len(self._log))
        lines: dict[str, list[LogLine]] = defaultdict(list)
        for line in self._log:
            lines[line.client].append(line)
        asked_at: dict[str, list[Asked]] = defaultdict(list)
        for asked in self._asked:
            asked_at[asked.address].append(asked)
        for address, askeds in asked_at.items():
            self._link_connection(check, askeds, lines.pop(address, []))
        for address, rest in lines.items():
            if address != "127.0.0.1":  # probes of whoever waited for the start
                check.fail(f"{len(rest)} lines of {address}, where no client was")
        causes = {linked.event.id for linked in self.linked if linked.event is not None}
        check = self._check("every event has a request that caused it", len(self._events))
        for request_id, event in self._events.items():
            if request_id not in causes:
                check.fail(f"{request_id} of {event.route_model}: nobody asked for it")

    def _link_connection(self, check: Check, askeds: list[Asked], lines: list[LogLine]) -> None:
        at = 0
        for asked in askeds:
            linked = Linked(asked)
            self.linked.append(linked)
            if not asked.lines:
                continue
            if at == len(lines):
                if asked.lines > 0:
                    check.fail(f"{_told(asked)} has no line")
                continue
            line = linked.line = lines[at]
            at += 1
            if asked.id and line.request_id != asked.id:
                check.fail(f"{_told(asked)} was answered as {asked.id}, logged {line.request_id}")
            linked.event = self._events.get(line.request_id)
        if at != len(lines):
            check.fail(f"{len(lines) - at} lines too many of {askeds[0].address}")

    # -- answers

    def _answers_are_right(self) -> None:
        statuses = self._check("every answer has a status that fits", len(self.linked))
        bodies = self._check("every whole answer is what a provider sent, to the byte")
        counted = self._check("a request is either refused or in the ledger")
        for linked in self.linked:
            asked, line, event = linked.asked, linked.line, linked.event
            if line is not None:
                counted.counted += 1
                self._count_refusal(counted, asked, line, event)
            if asked.left_at or asked.fault:
                continue
            self._judge_status(statuses, asked, line, event)
            if asked.status == 200 and asked.whole and event is not None and not asked.cached:
                bodies.counted += 1
                if not any(
                    attempt.crc == asked.body_crc and attempt.upstream == asked.upstream
                    for attempt in self._by_mark[asked.mark]
                ):
                    bodies.fail(f"{_told(asked)} got {asked.answer_bytes} other bytes")
        for linked in self.linked:
            asked = linked.asked
            if linked.line is None and asked.code and asked.kind in mix.REFUSED:
                self.refusals[asked.code] += 1

    def _count_refusal(
        self, check: Check, asked: Asked, line: LogLine, event: Event | None
    ) -> None:
        reads = asked.kind in ("models", "model")
        if event is None and not reads:
            if not line.error_code:
                check.fail(f"{_told(asked)}: status {line.status}, no refusal and no event")
            else:
                self.refusals[line.error_code] += 1
        elif event is not None and event.status != line.status:
            check.fail(f"{_told(asked)}: {event.status} in the ledger, {line.status} in the log")

    def _judge_status(
        self, check: Check, asked: Asked, line: LogLine | None, event: Event | None
    ) -> None:
        if asked.status < 400:
            if asked.status != 200:
                check.fail(f"{_told(asked)}: status {asked.status}")
            elif asked.kind in mix.REFUSED:
                check.fail(f"{_told(asked)} was not refused")
            elif not asked.whole and not self._may_be_cut(asked):
                check.fail(f"{_told(asked)} was cut after {asked.answer_bytes} bytes")
        elif not asked.whole:
            check.fail(f"{_told(asked)}: an error of {asked.status} that is not whole")
        elif asked.code not in asked.expected:
            check.fail(f"{_told(asked)}: {asked.status} {asked.code}")
        if line is not None:
            seen = asked.status if asked.whole else 499
            if line.status != seen:
                check.fail(f"{_told(asked)} saw {seen}, the log says {line.status}")

    def _may_be_cut(self, asked: Asked) -> bool:
        return any(
            attempt.fault in _CUTS and attempt.upstream == asked.upstream
            for attempt in self._by_mark[asked.mark]
        )

    # -- events

    def _events_are_right(self) -> None:
        exact = self._check("every event with figures has those of one provider's answer")
        guessed = self._check("every estimate is of an answer that gave no figures")
        nothing = self._check("every event without tokens is of a request without an answer")
        for linked in self.linked:
            event = linked.event
            if event is None:
                continue
            if event.estimated:
                guessed.counted += 1
                self._judge_estimate(guessed, linked.asked, event)
            elif any(event.tokens):
                exact.counted += 1
                self._judge_exact(exact, linked.asked, event)
            else:
                nothing.counted += 1
                self._judge_nothing(nothing, linked.asked, event)

    def _judge_exact(self, check: Check, asked: Asked, event: Event) -> None:
        serial = replies.serial_of(event.input_tokens)
        attempt = self._by_serial.get(serial)
        if attempt is None or attempt.mark != asked.mark or attempt.upstream != event.upstream:
            check.fail(f"{_told(asked)} has the figures of {_told_attempt(attempt)}")
            return
        self.billed[serial] += 1
        if self.billed[serial] > 1:
            check.fail(f"{_told_attempt(attempt)} is billed {self.billed[serial]} times")
        figures = replies.figures_of(serial, attempt.kind)
        if event.tokens != attrs.astuple(figures):
            check.fail(f"{_told(asked)}: {event.tokens} of {figures}")
        if attempt.says == "no":
            check.fail(f"{_told(asked)} has figures that {_told_attempt(attempt)} never sent")
        if event.target_model != scene.BY_NAME[attempt.upstream].model:
            check.fail(f"{_told(asked)}: target model {event.target_model}")

    def _judge_estimate(self, check: Check, asked: Asked, event: Event) -> None:
        attempts = [
            attempt for attempt in self._by_mark[asked.mark] if attempt.upstream == event.upstream
        ]
        if not attempts:
            if asked.left_at and event.status == 499:
                return  # written to a provider that had not read it when all was over
            check.fail(f"{_told(asked)} is billed for {event.upstream}, which was not asked")
            return
        # Requests to the cached route share their marks: any attempt may be the one.
        faults = [self._estimate_fault(asked, event, attempt) for attempt in attempts]
        if all(faults):
            check.fail(f"{_told(asked)}: {faults[-1]}")

    def _estimate_fault(self, asked: Asked, event: Event, attempt: Attempt) -> str:
        """Say why an estimate cannot be of an attempt; nothing where it can."""
        if attempt.says == "yes" and not self._was_given_up(asked, attempt):
            return f"estimated, but {_told_attempt(attempt)} gave figures"
        plain = replies.figures_of(attempt.serial, attempt.kind).input
        if event.input_tokens not in (asked.body_bytes // 4, plain):
            return f"{event.input_tokens} tokens in, estimated"
        if attempt.stream:
            most = max(attempt.pieces + 2, attempt.text_bytes // 4, 1)
        else:
            most = attempt.sent_bytes // 4
        if event.output_tokens > most:
            return f"{event.output_tokens} tokens out, where {_told_attempt(attempt)} made {most}"
        return ""

    def _was_given_up(self, asked: Asked, attempt: Attempt) -> bool:
        """Whether the gateway had reason to stop reading an answer before its figures."""
        if not asked.left_at:
            return False
        if scene.BY_NAME[attempt.upstream].cancels:
            return True
        limit = scene.DRAIN_SECONDS - DRAIN_SLACK_SECONDS
        return attempt.ended_at - asked.left_at > limit

    def _judge_nothing(self, check: Check, asked: Asked, event: Event) -> None:
        if event.cached or asked.kind == "count_tokens" or event.endpoint == "count_tokens":
            return
        if event.upstream is None:
            if event.status not in (429, 499, 502):
                check.fail(f"{_told(asked)}: {event.status} without an upstream and without tokens")
        elif event.status == 499 and asked.left_at:
            # An error that its client did not wait for.
            attempts = self._by_mark[asked.mark]
            if not any(attempt.fault in _NO_ANSWERS for attempt in attempts):
                check.fail(f"{_told(asked)} left an answer of {event.upstream} that is not billed")
        elif event.status != 400:
            check.fail(f"{_told(asked)}: {event.status} of {event.upstream} without tokens")

    # -- bills

    def _every_bill_is_in_the_ledger(self) -> None:
        check = self._check("everything that the providers billed is in the ledger, once")
        by_mark: dict[int, list[Asked]] = defaultdict(list)
        for asked in self._asked:
            by_mark[asked.mark].append(asked)
        for attempt in self._attempts:
            if attempt.says != "yes" or attempt.kind == "count_tokens":
                continue
            check.counted += 1
            if self.billed[attempt.serial]:
                continue
            askeds = by_mark[attempt.mark]
            if attempt.left or any(self._was_given_up(asked, attempt) for asked in askeds):
                continue
            check.fail(f"{_told_attempt(attempt)} for {_told(askeds[0]) if askeds else 'nobody'}")

    def _costs_are_right(self) -> None:
        check = self._check("every event costs what its tokens cost", len(self._ledger))
        for event in self._ledger:
            right = scene.cost_nano(event.upstream, event.tokens)
            self.total_nano += right
            if nano_of(bytes(event.cost_usd)) != right:
                check.fail(f"{event.id}: {bytes(event.cost_usd)!r}, not {right} nano-dollars")

    def _sum_is_right(self, total_usd: str) -> None:
        check = self._check("the sum in the ledger is the sum worked out apart", 1)
        if nano_of(total_usd.encode()) != self.total_nano:
            check.fail(f"{total_usd} USD in the ledger, {self.total_nano} nano-dollars")

    def _counters_are_right(self, gauges: Gauges) -> None:
        refused = self._check("the refusals counted are those that clients and log know of")
        counted = {
            labels.removeprefix('reason="').rstrip('"'): int(value)
            for labels, value in gauges.labelled("refusals_total").items()
        }
        for code in sorted({*counted, *self.refusals}):
            refused.counted += self.refusals[code]
            if counted.get(code, 0) != self.refusals[code]:
                refused.fail(f"{code}: {counted.get(code, 0)} counted, {self.refusals[code]} known")
        totals = self._check("the counters of tokens and deliveries are those of the ledger", 2)
        delivered = gauges.get("usage_delivered_total")
        if delivered != len(self._events):
            totals.fail(f"{delivered:g} events delivered, {len(self._events)} in the ledger")
        tokens = sum(gauges.labelled("tokens_total").values())
        right = sum(sum(event.tokens) for event in self._ledger)
        if tokens != right:
            totals.fail(f"{tokens:g} tokens counted, {right} in the ledger")


def nano_of(digits: bytes) -> int:
    """Return dollars as they stand in the ledger in nano-dollars."""
    dollars, _, rest = digits.partition(b".")
    return int(dollars) * 10**9 + int(rest.ljust(9, b"0"))


def tables(asked: Iterable[Asked], attempts: Iterable[Attempt]) -> dict[str, Counter[str]]:
    """Count what was done: by what was asked, by the clients' manner, by the providers' fault."""
    counts: dict[str, Counter[str]] = {
        "asked": Counter(),
        "manner": Counter(),
        "answers": Counter(),
        "provider": Counter(),
    }
    for one in asked:
        counts["asked"][one.kind] += 1
        counts["manner"][one.manner] += 1
        if one.status:
            ending = "" if one.whole else " cut"
            counts["answers"][f"{one.status}{ending} {one.code}".strip()] += 1
        else:
            counts["answers"]["none"] += 1
    for attempt in attempts:
        counts["provider"][attempt.fault + (" (left)" if attempt.left else "")] += 1
    return counts


def _told(asked: Asked) -> str:
    stream = " stream" if asked.stream else ""
    return f"request {asked.mark} ({asked.kind}{stream} of {asked.model}, {asked.manner})"


def _told_attempt(attempt: Attempt | None) -> str:
    if attempt is None:
        return "no attempt"
    left = ", left" if attempt.left else ""
    return (
        f"attempt {attempt.serial} of request {attempt.mark} at {attempt.upstream} "
        f"({attempt.fault}, {attempt.pieces} of {attempt.total} pieces{left})"
    )

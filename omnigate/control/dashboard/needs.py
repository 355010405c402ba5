"""What needs somebody: everything that is not well, the worst first, each in one sentence.

Pure: what is looked at is handed in, and what comes out is text with a link.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from omnigate.control.dashboard.budget_shares import Budgets
from omnigate.control.dashboard.causes import attempt_cause
from omnigate.control.dashboard.formats import count, duration, percent
from omnigate.control.dashboard.paths import job_path, upstream_path
from omnigate.control.dashboard.target_states import State
from omnigate.control.job_figures import LATELY_MINUTES, EndedLately
from omnigate.control.minutes import Minute
from omnigate.control.plane_states import PlaneState
from omnigate.control.target_record import AttemptError, Fared

BAD: Final = "bad"
WARN: Final = "warn"

#: Sentences that are shown; of more the number is told.
MAX_NEEDS: Final = 20

#: Names in one sentence.
MAX_NAMES: Final = 4

#: Events go to the ledger within a second; some that wait for a minute are held up by something.
SPOOL_WAITS_MS: Final = 60_000
#: The same for data planes that do not tell since when.
SPOOL_EVENTS: Final = 1_000

#: Of so many requests in five minutes a share of failed ones says something, and this one is high.
ENOUGH_REQUESTS: Final = 20
HIGH_SHARE: Final = 0.05
VERY_HIGH_SHARE: Final = 0.25

#: Jobs are fewer than requests, and each has been tried at every target that it has.
ENOUGH_JOBS: Final = 5
HIGH_JOB_SHARE: Final = 0.2
VERY_HIGH_JOB_SHARE: Final = 0.5

#: The ledger is told of a cost within a second, and once a minute of what it did not take.
OWED_SECONDS: Final = 600.0

#: A certificate is renewed a month before its end; two weeks before, something has not worked.
ENDING_MS: Final = 14 * 86_400_000
ENDED_SOON_MS: Final = 3 * 86_400_000

#: Everybody waits while a reactor is held; half a second is felt.
LONG_HOLD_SECONDS: Final = 0.5


@attrs.frozen
class Need:
    """One sentence.

    :ivar path: the page that shows why; empty where none does.
    :ivar more: what the link says.
    """

    text: str
    kind: str = WARN
    path: str = ""
    more: str = ""


@attrs.frozen
class UpstreamSeen:
    """How an upstream is, its last ten minutes, and its newest error."""

    name: str
    state: State
    fared: Fared
    last: AttemptError | None


@attrs.frozen
class Seen:
    """Everything that may need somebody.

    :ivar faults: how many the config file has.
    :ivar trouble: why nothing can be recorded, in words.
    :ivar is_expected: whether a data plane should have reported by now.
    :ivar planes: all that reported in the last hour.
    :ivar upstreams: those of the config that were asked, or of which something is told.
    :ivar budgets: of the keys.
    :ivar recent: the last five minutes.
    :ivar certificate_ms: until when this plane's own certificate is valid.
    :ivar hold_seconds: the longest that this plane's reactor was held in the last minute.
    :ivar unpriced: events that were recorded at $0 since the start, for want of a price.
    :ivar jobs: those that ended in the last minutes.
    :ivar given_up: jobs whose webhooks were given up within a day, the newest first.
    :ivar owed: costs of jobs that the ledger lacks, the first of them for ``owed_seconds``.
    """

    now_ms: int
    faults: int = 0
    trouble: str | None = None
    is_expected: bool = False
    planes: Sequence[PlaneState] = ()
    upstreams: Sequence[UpstreamSeen] = ()
    budgets: Budgets = attrs.Factory(Budgets)
    recent: Minute = attrs.Factory(Minute)
    certificate_ms: int | None = None
    hold_seconds: float = 0.0
    unpriced: int = 0
    jobs: EndedLately = attrs.Factory(EndedLately)
    given_up: Sequence[str] = ()
    owed: int = 0
    owed_seconds: float = 0.0


def needs(seen: Seen) -> list[Need]:
    """Return what needs somebody, the worst first; nothing where all is well."""
    found = [
        *_stores(seen),
        *_planes(seen),
        *_upstreams(seen.upstreams),
        *_errors(seen.recent),
        *_jobs(seen),
        *_budgets(seen.budgets),
        *_certificates(seen),
        *_holds(seen),
        *_prices(seen),
    ]
    found.sort(key=lambda need: need.kind != BAD)  # stable: within a kind, in the order above
    if len(found) > MAX_NEEDS:
        found = [*found[:MAX_NEEDS], Need(f"And {len(found) - MAX_NEEDS} more like these.")]
    return found


def _stores(seen: Seen) -> Iterable[Need]:
    if seen.trouble is not None:
        yield Need(f"Nothing can be recorded: {seen.trouble}. Data planes keep it meanwhile.", BAD)
    if seen.faults:
        are = "1 fault" if seen.faults == 1 else f"{seen.faults} faults"
        text = f"The config file has {are}; the last good config is in force."
        yield Need(text, BAD, "/config", "See what is wrong")


def _planes(seen: Seen) -> Iterable[Need]:
    where = ("/#planes", "See the data planes")
    if seen.is_expected and not any(not plane.is_silent(seen.now_ms) for plane in seen.planes):
        yield Need(
            "No data plane reports. Is one running, and does it reach this plane?", BAD, *where
        )
    for plane in seen.planes:
        if plane.is_silent(seen.now_ms):
            ago = duration(seen.now_ms - plane.told_ms)
            yield Need(f"{plane.name} has not reported for {ago}.", BAD, *where)
            continue
        if plane.is_stale(seen.now_ms) and plane.polled_ms is not None:
            ago = duration(seen.now_ms - plane.polled_ms)
            text = f"{plane.name} has had no usable config for {ago}; it works with the one before."
            yield Need(text, WARN, *where)
        waiting = int(plane.figures.get("spool_events", 0))
        if plane.spool_since_ms is None:
            if waiting >= SPOOL_EVENTS:
                yield Need(f"{count(waiting)} usage events wait at {plane.name}.", WARN, *where)
        elif waiting and seen.now_ms - plane.spool_since_ms >= SPOOL_WAITS_MS:
            ago = duration(seen.now_ms - plane.spool_since_ms)
            are = "1 usage event waits" if waiting == 1 else f"{count(waiting)} usage events wait"
            yield Need(f"{are} at {plane.name}, for up to {ago}.", WARN, *where)


def _upstreams(upstreams: Iterable[UpstreamSeen]) -> Iterable[Need]:
    for seen in upstreams:
        if not seen.state.is_trouble:
            continue
        words = f"Upstream {seen.name}: {seen.state.text}"
        fared = seen.fared
        if fared.failed:
            share = percent(fared.failed / fared.attempts)
            words += f"; {share} of {count(fared.attempts)} attempts failed in ten minutes"
        if seen.last is not None and (fared.failed or seen.state.kind == BAD):
            words += f", the last one: {attempt_cause(seen.last.outcome).title}"
        yield Need(f"{words}.", seen.state.kind, upstream_path(seen.name), "See its errors")


def _errors(recent: Minute) -> Iterable[Need]:
    if recent.requests >= ENOUGH_REQUESTS:
        share = recent.failures / recent.requests
        if share >= HIGH_SHARE:
            text = (
                f"{percent(share)} of the requests of the last five minutes failed "
                f"({count(recent.failures)} of {count(recent.requests)})."
            )
            kind = BAD if share >= VERY_HIGH_SHARE else WARN
            yield Need(text, kind, "/requests?status=5xx", "See them")


def _jobs(seen: Seen) -> Iterable[Need]:
    if seen.owed and seen.owed_seconds >= OWED_SECONDS:
        ago = duration(seen.owed_seconds * 1000)
        jobs = "1 job" if seen.owed == 1 else f"{count(seen.owed)} jobs"
        text = f"The ledger lacks the cost of {jobs}, for up to {ago}; budgets do not know of it."
        yield Need(text, BAD, "/jobs", "See the jobs")
    ended, failed = seen.jobs.ended, seen.jobs.failed
    if ended >= ENOUGH_JOBS and failed / ended >= HIGH_JOB_SHARE:
        text = (
            f"{percent(failed / ended)} of the media jobs that ended in the last {LATELY_MINUTES} "
            f"minutes failed ({count(failed)} of {count(ended)})."
        )
        kind = BAD if failed / ended >= VERY_HIGH_JOB_SHARE else WARN
        yield Need(text, kind, "/jobs?status=failed", "See them")
    if seen.given_up:
        number = len(seen.given_up)
        text = "The webhook of 1 job was given up in the last day: its receiver did not take it."
        if number > 1:
            text = f"Webhooks of {count(number)} jobs were given up in the last day."
        more = "See the job" if number == 1 else "See the newest"
        yield Need(text, WARN, job_path(seen.given_up[0]), more)


def _budgets(budgets: Budgets) -> Iterable[Need]:
    number, are_one = budgets.blocked, budgets.blocked == 1
    if number:
        names = [budget.name for budget in budgets.fullest if budget.is_blocked]
        have = "has spent its budget and is" if are_one else "have spent their budgets and are"
        yield Need(
            f"{_keys(names, number)} {have} blocked.",
            WARN,
            "/keys?state=blocked",
            "See blocked keys",
        )
    number, are_one = budgets.near, budgets.near == 1
    if number:
        names = [
            f"{budget.name} at {percent(budget.share)}"
            for budget in budgets.nearest
            if budget.is_near
        ]
        have = "has nearly spent its budget" if are_one else "have nearly spent their budgets"
        yield Need(f"{_keys(names, number)} {have}.", WARN, "/keys?state=near", "See these keys")


def _certificates(seen: Seen) -> Iterable[Need]:
    ends = [("This control plane", seen.certificate_ms)]
    for plane in seen.planes:
        seconds = plane.figures.get("certificate_expiry_timestamp_seconds")
        if seconds is not None and not plane.is_silent(seen.now_ms):
            ends.append((plane.name, int(seconds * 1000)))
    for name, end_ms in ends:
        if end_ms is None or end_ms - seen.now_ms > ENDING_MS:
            continue
        left = end_ms - seen.now_ms
        when = f"ends in {duration(left)}" if left > 0 else "has ended"
        yield Need(f"{name}: its certificate {when}.", BAD if left < ENDED_SOON_MS else WARN)


def _holds(seen: Seen) -> Iterable[Need]:
    held = [("This control plane", seen.hold_seconds)]
    held += [
        (plane.name, plane.figures.get("reactor_lag_seconds", 0.0))
        for plane in seen.planes
        if not plane.is_silent(seen.now_ms)
    ]
    for name, seconds in held:
        if seconds >= LONG_HOLD_SECONDS:
            text = f"{name} stood still for {duration(seconds * 1000)} in the last minute."
            yield Need(text, WARN, "/#planes", "See the data planes")


def _prices(seen: Seen) -> Iterable[Need]:
    if seen.unpriced:
        text = "1 request was recorded at $0, since its target has no price."
        if seen.unpriced > 1:
            requests = f"{count(seen.unpriced)} requests were"
            text = f"{requests} recorded at $0, since their targets have no price."
        yield Need(text, WARN, "/models", "See the models")


def _keys(names: Sequence[str], total: int) -> str:
    """Return so many keys with some of their names."""
    shown = ", ".join(names[:MAX_NAMES])
    if total == 1:
        return f"Key {shown}" if shown else "1 key"
    others = " and others" if total > len(names[:MAX_NAMES]) else ""
    return f"{count(total)} keys ({shown}{others})" if shown else f"{count(total)} keys"

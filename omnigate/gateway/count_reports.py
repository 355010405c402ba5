"""Tells the control plane what this process counted: refusals, figures, the state of upstreams.

None of it costs anybody money, so it is told at best effort, and kept in memory only. But it is
told exactly once: counts go in numbered reports, each of which holds what was counted since the
one before. A report without an answer is sent again as it was, under its number, and the control
plane takes no number twice. So it needs no memory of what each process has told so far, and one
that starts anew begins at 0 without counting again what the one before it has shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import attrs
import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from omnigate.gateway.figure_changes import Changes, Piece, encode_piece
from omnigate.metric_families import Part

COUNTERS_PATH: Final = "/internal/counters"

#: Pairs of key and reason that are counted apart. Keys are a few hundred, and each is refused for
#: few reasons; beyond this, counts lose their key.
MAX_COUNTERS: Final = 4000

#: Rows of refusals in one report: 130 KB, or 400 KB of the longest names.
MAX_ROWS: Final = 2000

#: When a report has as many bytes of other counts as this, the rest goes in the next. A piece is
#: one of 400 rows, so together with refusals the control plane's bound of 1 MiB is never met.
MAX_COUNTS_BYTES: Final = 256 * 1024

#: Figures change all the time; sending them at every flush would make a request out of nothing.
SECONDS_BETWEEN_FIGURES: Final = 5.0

#: Pieces that are gone through in one turn of the reactor: two or three milliseconds.
PIECES_A_TURN: Final = 8

Post = Callable[[str, bytes], Deferred[tuple[int, bytes]]]


class Figures:
    """What a process tells of itself beside refusals; nothing by default."""

    def gauges(self) -> Mapping[str, float]:
        """Figures as they are now; each report has all of them."""
        return {}

    def upstreams(self) -> Mapping[str, int]:
        """The states of upstreams that are not healthy now."""
        return {}

    def about(self) -> Mapping[str, object]:
        """Who this process is, and what it knows that is no figure; with the figures."""
        return {}

    def counts(self) -> Iterable[Part]:
        """Counters and histograms since the start, a few hundred rows at a time."""
        return ()


@attrs.frozen
class _Report:
    """Counts that were not told before.

    :ivar counts: pieces of :mod:`omnigate.gateway.figure_changes`.
    """

    number: int
    refusals: list[tuple[tuple[str, str], int]]
    counts: list[bytes]


class CountReports:
    """See the module's docstring.

    :param post: sends a body to a path of the control plane, within a time limit of its own.
    :param reporter: what this process calls itself there; no other has the same.
    :ivar figures: what is told beside refusals; said before the first report.
    """

    def __init__(self, post: Post, clock: IReactorTime, reporter: str) -> None:
        self._post = post
        self._clock = clock
        self._reporter = reporter
        self.figures = Figures()
        self._refusals: dict[tuple[str, str], int] = {}
        self._changes = Changes()
        # The figures being gone through; a report that is full leaves the rest to the next.
        self._pass: Iterator[Piece] | None = None
        self._unanswered: _Report | None = None
        self._number = 0
        self._told_at = float("-inf")
        # Whether the control plane has heard of this process.
        self._known = False

    def refusal(self, key_name: str | None, code: str) -> None:
        """Count one refused request; no name is the empty name."""
        refusals = self._refusals
        pair = (key_name or "", code)
        if pair not in refusals and len(refusals) >= MAX_COUNTERS:
            pair = ("", code)
        refusals[pair] = refusals.get(pair, 0) + 1

    async def send(self, stopping: bool) -> None:
        """Tell refusals, and every few seconds the rest; what fails is told the next time.

        :param stopping: whether this is the last time: then everything is told, and that this
            process leaves, so that its figures count no more.
        """
        now = self._clock.seconds()
        due = stopping or now - self._told_at >= SECONDS_BETWEEN_FIGURES
        if due and self._pass is None:
            self._pass = self._changes.since(self.figures.counts())
        gauges = self.figures.gauges() if due and not stopping else {}
        upstreams = self.figures.upstreams() if gauges else {}
        about = self.figures.about() if gauges else {}
        while True:
            again = self._unanswered is not None
            if not again:
                self._unanswered = await self._next_report()
            report = self._unanswered
            left = self._pass is not None or self._refusals
            leaving = stopping and not left and (self._known or report is not None)
            if report is None and not gauges and not leaving:
                break
            body = _encode(self._reporter, report, gauges, upstreams, about, leaving)
            if not await self._tell(body):
                return
            self._unanswered = None
            self._known = not leaving
            gauges, upstreams, about = {}, {}, {}
            # Refusals that came meanwhile can wait for the next flush, or this might have no end.
            if not (again or stopping or self._pass is not None):
                break
        if due:
            self._told_at = now

    async def _next_report(self) -> _Report | None:
        """Put together what was not told before, as much as fits; ``None`` if there is nothing."""
        counts: list[bytes] = []
        size = looked = 0
        while self._pass is not None and size < MAX_COUNTS_BYTES:
            piece = next(self._pass, None)
            if piece is None:
                self._pass = None
            elif piece:
                text = encode_piece(piece)[1:-1]
                counts.append(text)
                size += len(text)
            looked += 1
            if looked % PIECES_A_TURN == 0:
                turn: Deferred[None] = Deferred()
                self._clock.callLater(0, turn.callback, None)
                await turn
        refusals = list(islice(self._refusals.items(), MAX_ROWS))
        if not counts and not refusals:
            return None
        for pair, _ in refusals:
            del self._refusals[pair]
        self._number += 1
        return _Report(self._number, refusals, counts)

    async def _tell(self, body: bytes) -> bool:
        """Post a report.

        :return: whether the control plane took it.
        """
        try:
            status, _ = await self._post(COUNTERS_PATH, body)
        except CancelledError:
            raise
        except Exception:
            # Why it cannot be reached is told by the delivery of usage.
            return False
        return 200 <= status < 300


def _encode(
    reporter: str,
    report: _Report | None,
    gauges: Mapping[str, float],
    upstreams: Mapping[str, int],
    about: Mapping[str, object],
    leaving: bool,
) -> bytes:
    """Write a report; what there is nothing of is left out, but for what has always been there."""
    message: dict[str, object] = {"refusals": [], "gauges": gauges, "reporter": reporter}
    if report is not None:
        message["number"] = report.number
        message["refusals"] = [
            {"key": key, "code": code, "count": count} for (key, code), count in report.refusals
        ]
        if report.counts:
            message["counts"] = msgspec.Raw(b"[%b]" % b",".join(report.counts))
    if upstreams:
        message["upstreams"] = upstreams
    if about:
        message["about"] = about
    if leaving:
        message["leaving"] = True
    return msgspec.json.encode(message)

"""What several workers tell is the sum of what they counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway import figure_sums as figure_sums_module
from omnigate.gateway import figures
from omnigate.gateway.figure_changes import Change, Changes, Piece, decode_piece, encode_piece
from omnigate.gateway.figure_sums import FigureSums
from omnigate.gateway.figures import FAMILIES
from omnigate.metric_families import (
    ROWS_AT_A_TIME,
    Family,
    Labels,
    Number,
    Part,
    Row,
    parts_of,
)
from tests.gateway.scraping import figures_of
from tests.gateway.test_metrics import crowd
from tests.planes.memory import MemoryDataPlane

Figured = dict[Family, dict[Labels, Number]]


def read(figured: Figured) -> Iterator[Part]:
    """Parts of figures."""
    for family, rows in figured.items():
        yield from parts_of(family, list(rows.items()))


def rows_of(parts: Iterable[Part], family: Family) -> dict[Labels, Number]:
    """The rows of a family; none stands twice."""
    found: list[Row] = [row for part in parts if part.family is family for row in part.rows]
    assert len(found) == len(dict(found))
    return dict(found)


def over_the_line(piece: Piece) -> Piece:
    """A piece as it arrives."""
    return decode_piece(encode_piece(piece))


class ChangeTests(SynchronousTestCase):
    """What a worker tells."""

    def setUp(self) -> None:
        self.changes = Changes()

    def since(self, figured: Figured) -> Piece:
        """What is told, in one."""
        return [family for piece in self.changes.since(read(figured)) for family in piece]

    def test_growth(self) -> None:
        """Of a counter what it grew by, and what it has where it began anew; zeros once."""
        family = figures.UPSTREAM_OPENED
        for values, told in (
            ({"a": 0, "b": 5}, {"a": 0, "b": 5}),
            ({"a": 0, "b": 5}, {}),
            ({"a": 2, "b": 5}, {"a": 2}),
            ({"a": 2, "b": 3}, {"b": 3}),
            ({"a": 2}, {}),
            ({"a": 2, "b": 4}, {"b": 4}),
        ):
            piece = self.since({family: {(name,): value for name, value in values.items()}})
            expected = [((name,), value) for name, value in told.items()]
            self.assertEqual([(family.name, expected)] if told else [], piece)

    def test_values(self) -> None:
        """Of what is no counter the value, and that a row is no more."""
        family = figures.RESTING
        for values, told in (
            ({"a": 1, "b": 0}, {"a": 1, "b": 0}),
            ({"a": 1, "b": 1}, {"b": 1}),
            ({"b": 1}, {"a": None}),
            ({"a": 0, "b": 1}, {"a": 0}),
        ):
            piece = self.since({family: {(name, "m"): value for name, value in values.items()}})
            self.assertEqual(
                [(family.name, [((name, "m"), value) for name, value in told.items()])], piece
            )

    def test_in_pieces(self) -> None:
        """However many rows there are, a piece has a few hundred, and none is lost."""
        figured: Figured = {
            figures.REQUESTS: {(str(n), "chat", "2xx", "answered"): n for n in range(5000)},
            figures.CLIENTS: {(): 3},
            figures.TOKENS: {(str(n), "input", "none"): n for n in range(1000)},
        }
        pieces = list(self.changes.since(read(figured)))
        sizes = [sum(len(changes) for _, changes in piece) for piece in pieces]
        self.assertLess(max(sizes), 2 * ROWS_AT_A_TIME)
        self.assertEqual(6001, sum(sizes))
        self.assertEqual([[]] * len(pieces), list(self.changes.since(read(figured))))

    def test_broken_off(self) -> None:
        """What was not asked for counts as not told."""
        figured: Figured = {figures.CLIENTS: {(): 3}}
        figured[figures.TOKENS] = {(str(n), "input", "none"): 1 for n in range(1000)}
        sums = FigureSums()
        going = self.changes.since(read(figured))
        sums.take(0, next(going))
        for piece in self.changes.since(read(figured)):
            sums.take(0, piece)
        self.assertEqual(figured[figures.TOKENS], rows_of(sums.parts(), figures.TOKENS))


_labels = st.sampled_from([("a", "m"), ("b", "m"), ("c", "m")])
_rows = st.dictionaries(_labels, st.integers(0, 5), max_size=3)


class SumTests(SynchronousTestCase):
    """What the parent makes of it."""

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), _rows, _rows, st.booleans()), max_size=12))
    def test_any_story(
        self, story: list[tuple[int, dict[Labels, int], dict[Labels, int], bool]]
    ) -> None:
        """Counters are all that was counted, by the dead too; the rest is of the living."""
        sums = FigureSums()
        counted: dict[int, Counter[Labels]] = {}
        told: dict[int, Changes] = {}
        kept: dict[int, dict[Labels, int]] = {}
        everything: Counter[Labels] = Counter()
        for worker, grown, values, dies in story:
            mine = counted.setdefault(worker, Counter())
            mine.update(grown)
            everything.update(grown)
            kept[worker] = values
            figured: Figured = {figures.ATTEMPTS: dict(mine), figures.TIMERS: {(): 7}}
            for family in (figures.RESTING, figures.UPSTREAM_CONNECTIONS, figures.POLLED):
                figured[family] = dict(values)
            for piece in told.setdefault(worker, Changes()).since(read(figured)):
                sums.take(worker, over_the_line(piece))
            if dies:
                sums.forget(worker)
                del counted[worker], told[worker], kept[worker]
        parts = list(sums.parts())
        self.assertEqual(dict(everything), rows_of(parts, figures.ATTEMPTS))
        names = {labels for values in kept.values() for labels in values}
        for family, how in (
            (figures.RESTING, max),
            (figures.UPSTREAM_CONNECTIONS, sum),
            (figures.POLLED, min),
        ):
            together = {
                labels: how([values[labels] for values in kept.values() if labels in values])
                for labels in names
            }
            self.assertEqual(together, rows_of(parts, family))
        self.assertEqual({(): 7 * len(kept)} if kept else {}, rows_of(parts, figures.TIMERS))

    def test_bounded(self) -> None:
        """Rows beyond the most are one, by their first label; none is lost."""
        self.patch(figure_sums_module, "MAX_ROWS", 10)
        sums = FigureSums()
        for number in range(50):
            labels = (f"r{number}", "chat", "2xx", "answered")
            sums.take(0, [(figures.REQUESTS.name, [(labels, 2)])])
            sums.take(0, [(figures.RESTING.name, [((f"u{number}", "m"), 1)])])
        rows = rows_of(sums.parts(), figures.REQUESTS)
        self.assertEqual(11, len(rows))
        self.assertEqual(80, rows["other", "chat", "2xx", "answered"])
        self.assertEqual(10, len(rows_of(sums.parts(), figures.RESTING)))

    def test_every_figure_of_a_plane(self) -> None:
        """The sum over one worker is what it has, figure by figure, in the same order."""
        memory = MemoryDataPlane()
        crowd(memory, 30)
        sums = FigureSums()
        for piece in Changes().since(figures_of(memory).parts()):
            sums.take(0, over_the_line(piece))
        own = list(figures_of(memory).parts())
        summed = list(sums.parts())
        for part in own:
            self.assertEqual(
                rows_of(own, part.family), rows_of(summed, part.family), part.family.name
            )
        order = list(dict.fromkeys(part.family for part in own))
        self.assertEqual(list(FAMILIES), list(dict.fromkeys(part.family for part in summed)))
        self.assertEqual(order, [family for family in FAMILIES if family in order])


class CostTests(SynchronousTestCase):
    """What telling and summing cost the reactor."""

    def test_many_workers(self) -> None:
        """To add up what 64 workers have of the most upstreams and targets takes no 20 ms."""
        sums = FigureSums()
        for worker in range(64):
            resting: list[Change] = [((f"u{n % 500}", f"m{n}"), 1) for n in range(1000)]
            idle: list[Change] = [
                ((f"u{n % 500}", ("idle", "busy")[n // 500]), 3) for n in range(1000)
            ]
            sums.take(
                worker,
                [(figures.RESTING.name, resting), (figures.UPSTREAM_CONNECTIONS.name, idle)],
            )
        best: list[float] = []
        for _ in range(3):
            parts, steps = sums.parts(), []
            while True:
                begun = time.thread_time()
                if next(parts, None) is None:
                    break
                steps.append(time.thread_time() - begun)
            best = [min(pair) for pair in zip(steps, best or steps, strict=True)]
        self.assertLess(max(best), 0.020)
        rows = rows_of(sums.parts(), figures.UPSTREAM_CONNECTIONS)
        self.assertEqual((1000, {192}), (len(rows), set(rows.values())))

    def test_no_step_is_long(self) -> None:
        """With 5,000 routes and 50,000 rows no step of either takes 20 ms."""
        memory = MemoryDataPlane()
        crowd(memory, 5000)
        tally = memory.plane.books.tally
        for number in range(35_000):
            tally.requests[f"route-{number % 5000}", f"kind-{number // 5000}", 2, "answered"] = 1
        self.assertEqual(50_000, len(tally.requests))
        best: list[float] = []
        for _ in range(3):
            steps = list(self.steps(memory))
            best = [min(pair) for pair in zip(steps, best or steps, strict=True)]
        self.assertGreater(len(best), 300)
        self.assertLess(max(best), 0.020)

    def steps(self, memory: MemoryDataPlane) -> Iterator[float]:
        """What each step takes: of telling all and then nothing, of taking it in, of the sum."""
        changes, sums = Changes(), FigureSums()
        for _ in range(2):
            going = changes.since(figures_of(memory).parts())
            while True:
                begun = time.thread_time()
                piece = next(going, None)
                if piece is None:
                    break
                text = encode_piece(piece)
                yield time.thread_time() - begun
                begun = time.thread_time()
                for worker in (0, 1):
                    sums.take(worker, decode_piece(text))
                yield time.thread_time() - begun
        parts = sums.parts()
        while True:
            begun = time.thread_time()
            if next(parts, None) is None:
                break
            yield time.thread_time() - begun

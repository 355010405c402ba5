"""The guard over stores that crash, on a clock."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.guard import (
    LOADING,
    PAUSING,
    RESTARTING,
    SILENT,
    SILENT_SECONDS,
    STOPPING,
    Crashed,
    Guard,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.writer_thread import WriterStoppedError
from tests.control.crashing import CrashError, CrashingGroup, CrashingStore, group


async def alive(call: Call) -> Answer:
    return Answer(b"{}")


def run(endpoint: Endpoint, call: Call) -> Deferred[Answer]:
    """Have an endpoint answer."""

    async def answer() -> Answer:
        return await endpoint.run(call)

    return Deferred.fromCoroutine(answer())


class GuardCase(SynchronousTestCase):
    """A guard over two stores."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[str] = []
        #: The generations that were made, and what is done to each before it is opened.
        self.groups: list[CrashingGroup] = []
        self.prepare: Callable[[CrashingGroup], None] = lambda made: None
        self.ups: list[int] = []
        self.downs: list[str] = []
        self.guard = Guard(self.build, self.clock, [Endpoint("GET", "/healthz", alive)])
        self.guard.came_up = lambda made, seconds: self.ups.append(made.number)
        self.guard.went_down = self.downs.append

    def build(self, crashed: Crashed) -> CrashingGroup:
        made = group(crashed, len(self.groups), self.told, "keys", "ledger")
        self.prepare(made)
        self.groups.append(made)
        return made

    def started(self) -> None:
        self.successResultOf(self.guard.start())
        self.told.clear()

    @property
    def newest(self) -> CrashingGroup:
        return self.groups[-1]

    @property
    def ledger(self) -> CrashingStore:
        return self.newest.stores[1]

    def crash(self) -> None:
        """Let the ledger crash, and the guard take note."""
        self.ledger.crash()
        self.assertEqual(len(self.flushLoggedErrors(CrashError)), 1)
        self.clock.advance(0)

    def ask(self, path: str = "/admin/work", method: str = "POST") -> Deferred[Answer]:
        endpoint, name = self.guard.find(method, path)
        return run(endpoint, Call(method, path, name, {}, b"", "r"))

    def refused(self, asked: Deferred[Answer] | None = None) -> str:
        error = self.failureResultOf(asked or self.ask(), GatewayError).value
        self.assertEqual((error.kind.code, error.kind.status), ("not_ready", 503))
        return str(error.message)

    def served_by(self, asked: Deferred[Answer] | None = None) -> bytes:
        return self.successResultOf(asked or self.ask()).body


class CrashTests(GuardCase):
    """From one generation to the next."""

    def test_a_crash(self) -> None:
        """Every store is let go, the last opened first, and all are opened anew at once."""
        self.started()
        writer = self.newest.writers[0]
        self.crash()
        self.assertEqual(self.told, ["abandon ledger", "abandon keys", "open keys", "open ledger"])
        self.failureResultOf(writer.submit(lambda: None), WriterStoppedError)
        self.assertEqual(self.served_by(), b'{"generation":1}')
        self.assertEqual((self.ups, self.downs, self.guard.restarts), ([0, 1], [RESTARTING], 1))
        self.assertIsNone(self.guard.words)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_four_inside_five_seconds(self) -> None:
        """Three are followed by a start at once, the fourth by half a second."""
        self.started()
        for number in range(1, 4):
            self.clock.advance(1.5)
            self.crash()
            self.assertEqual(self.ups[-1], number)
        self.clock.advance(0.4)
        self.crash()
        self.assertEqual((self.ups[-1], self.guard.words), (3, PAUSING))
        self.clock.advance(0.49)
        self.assertEqual(self.guard.words, PAUSING)
        self.clock.advance(0.01)
        self.assertEqual((self.ups[-1], self.guard.words), (4, None))

    def pauses(self, count: int) -> list[float]:
        """How long the guard waits before so many starts, to a hundredth."""
        found = []
        for _ in range(count):
            made, waited = len(self.groups), 0.0
            while len(self.groups) == made:
                (timer,) = self.clock.getDelayedCalls()
                waited += timer.getTime() - self.clock.seconds()
                self.clock.advance(timer.getTime() - self.clock.seconds())
            found.append(round(waited, 2))
        return found

    def test_starts_that_fail(self) -> None:
        """The pauses double up to half a minute, and a minute up makes them short again."""
        self.started()
        self.prepare = lambda made: made.stores[1].failing.add("open")
        self.crash()
        delays = [0.5, 1, 2, 4, 8, 16, 30, 30]
        self.assertEqual(self.pauses(8), delays)
        self.assertEqual((self.guard.words, self.guard.restarts), (PAUSING, 9))
        self.prepare = lambda made: None
        self.assertEqual(self.pauses(1), [30])
        self.assertIsNone(self.guard.words)
        self.clock.advance(60)
        self.prepare = lambda made: made.stores[1].failing.add("open")
        self.crash()
        self.assertEqual(self.pauses(2), [0.5, 1])
        # Of a start that failed what was opened is let go, too.
        self.assertEqual(
            self.told[-4:], ["open keys", "open ledger", "abandon ledger", "abandon keys"]
        )

    def test_stores_that_cannot_be_made(self) -> None:
        """A fault in the making is a start that failed."""
        self.started()

        def broken(made: CrashingGroup) -> None:
            raise ZeroDivisionError

        self.prepare = broken
        self.crash()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.guard.words, PAUSING)
        self.refused()
        self.prepare = lambda made: None
        self.clock.advance(0.5)
        self.assertEqual(self.served_by(), b'{"generation":1}')

    def test_who_is_told_and_fails(self) -> None:
        """A fault in what is done with stores that came up counts as their crash."""
        self.started()

        def broken(made: CrashingGroup, seconds: float) -> None:
            if made.number == 1:
                raise ZeroDivisionError

        self.guard.came_up = broken
        self.crash()
        self.clock.advance(0)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.served_by(), b'{"generation":2}')

    def test_nothing_of_an_old_generation_stays(self) -> None:
        """Neither the stores nor what they hold, so that two ledgers are never in memory."""
        self.started()
        old = weakref.ref(self.newest)
        self.prepare = lambda made: made.stores[1].slow.add("open")
        self.crash()
        del self.groups[0]
        gc.collect()
        self.assertIsNone(old())

    def test_a_crash_that_comes_late(self) -> None:
        """What a generation says after its end, or says twice, counts no more."""
        self.started()
        first = self.ledger
        first.crash()
        first.crash()
        self.clock.advance(0)
        first.crash()
        self.clock.advance(0)
        self.assertEqual(len(self.flushLoggedErrors(CrashError)), 1)
        self.assertEqual((self.ups, self.guard.restarts), ([0, 1], 1))


class RequestTests(GuardCase):
    """What is answered, and by whom."""

    def test_before_and_while_down(self) -> None:
        """What needs stores is refused with the reason; what needs none answers; paths stay."""
        self.guard.make_first()
        self.assertIn(LOADING, self.refused())
        self.started()
        self.prepare = lambda made: made.stores[0].slow.add("open")
        self.crash()
        self.assertEqual(self.guard.words, RESTARTING)
        self.assertIsNone(self.guard.current)
        self.assertIn(RESTARTING, self.refused())
        self.assertEqual(self.served_by(self.ask("/healthz", "GET")), b"{}")
        for method, path, code in (
            ("GET", "/admin/work", "method_not_allowed"),
            ("POST", "/admin/none", "not_found"),
        ):
            error = self.assertRaises(GatewayError, self.guard.find, method, path)
            self.assertEqual(error.kind.code, code)
        self.newest.stores[0].go_on()
        self.assertEqual(self.served_by(), b'{"generation":1}')

    def test_under_way(self) -> None:
        """A request in the middle of a crash is answered 503, and never by what crashed."""
        self.started()
        self.newest.work = work = Deferred[None]()
        asked = self.ask()
        found, _ = self.guard.find("POST", "/admin/work")
        self.ledger.crash()
        self.flushLoggedErrors(CrashError)
        # Down at once, before anything is let go.
        self.refused()
        self.clock.advance(0)
        self.assertIn("was under way", self.refused(asked))
        work.callback(None)
        # One whose endpoint was found before, and which runs only now.
        self.refused(run(found, Call("POST", "/admin/work", "", {}, b"", "r")))
        self.assertEqual(self.served_by(), b'{"generation":1}')

    def test_what_fails_with_the_crash(self) -> None:
        """Nobody is told that nothing was done by what has just crashed."""
        self.started()
        self.newest.work = work = Deferred[None]()
        asked = self.ask()
        self.ledger.crash()
        work.errback(GatewayError("storage_unavailable", "so nothing was changed"))
        self.assertIn("was under way", self.refused(asked))
        self.flushLoggedErrors(CrashError)

    def test_an_answer_before_the_crash_counts(self) -> None:
        """So does a refusal of the endpoint's own."""
        self.started()
        self.newest.work = work = Deferred[None]()
        asked = self.ask()
        work.errback(GatewayError("conflict", "no"))
        self.assertEqual(self.failureResultOf(asked, GatewayError).value.kind.code, "conflict")
        self.crash()
        self.assertEqual(self.served_by(), b'{"generation":1}')


class OpeningTests(GuardCase):
    """Starts that do not come to their end."""

    def test_the_first_start(self) -> None:
        """It is ready when all stores are open, in their order."""
        self.prepare = lambda made: made.stores[0].slow.add("open")
        starting = self.guard.start()
        self.assertEqual((self.told, self.guard.words), (["open keys"], LOADING))
        self.assertIs(self.guard.latest, self.newest)
        self.assertIsNone(self.guard.current)
        self.newest.stores[0].go_on()
        self.successResultOf(starting)
        self.assertEqual(self.told, ["open keys", "open ledger"])
        self.assertIs(self.guard.current, self.newest)

    def test_a_first_start_that_fails(self) -> None:
        """It is told, everything is let go, and nothing is tried again."""
        self.prepare = lambda made: made.stores[1].failing.add("open")
        self.failureResultOf(self.guard.start(), CrashError)
        self.assertEqual(self.told, ["open keys", "open ledger", "abandon ledger", "abandon keys"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.refused()
        self.successResultOf(self.guard.stop())

    def test_a_crash_in_the_first_start(self) -> None:
        """Is a first start that fails."""
        self.prepare = lambda made: made.stores[1].slow.add("open")
        starting = self.guard.start()
        self.crash()
        self.failureResultOf(starting, CrashError)
        self.clock.advance(100)
        self.assertEqual((len(self.groups), self.ups), (1, []))

    def test_a_crash_in_a_later_start(self) -> None:
        """Is a start that fails; the one that is under way comes to nothing."""
        self.started()
        self.prepare = lambda made: made.stores[0].slow.add("open")
        self.crash()
        opening = self.newest.stores[0]
        self.crash()
        self.assertEqual(self.guard.words, PAUSING)
        opening.go_on()
        self.assertEqual(self.ups, [0])
        self.prepare = lambda made: None
        self.clock.advance(0.5)
        self.assertEqual(self.ups, [0, 2])

    def test_a_writer_that_hangs(self) -> None:
        """Nothing is opened before it has ended, however long that takes; /readyz says why."""
        self.started()
        writer = self.newest.writers[0]
        writer.stuck = True
        self.crash()
        self.assertEqual(self.guard.words, RESTARTING)
        self.clock.advance(SILENT_SECONDS)
        self.assertEqual((self.guard.words, len(self.groups)), (SILENT, 1))
        self.refused()
        self.clock.advance(1000)
        self.assertEqual(len(self.groups), 1)
        writer.unstick()
        self.assertEqual((self.guard.words, self.ups), (None, [0, 1]))

    def test_a_store_that_cannot_be_let_go(self) -> None:
        """Its fault is logged, and keeps nobody up."""
        self.started()
        self.ledger.failing.add("abandon")
        self.ledger.crash()
        self.clock.advance(0)
        self.assertEqual(len(self.flushLoggedErrors(CrashError)), 2)
        self.assertEqual(self.ups, [0, 1])


class StopTests(GuardCase):
    """The end, whatever is going on."""

    def test_in_order(self) -> None:
        """The last opened is closed first; until then the rest answers, and says that it stops."""
        self.started()
        self.ledger.slow.add("close")
        self.guard.about_to_stop()
        self.assertEqual((self.guard.words, self.told), (STOPPING, []))
        stopping, again = self.guard.stop(), self.guard.stop()
        self.assertEqual(self.told, ["close ledger"])
        self.assertEqual(self.served_by(), b'{"generation":0}')
        self.ledger.go_on()
        self.assertEqual(self.told, ["close ledger", "close keys"])
        for stopped in (stopping, again, self.guard.stop()):
            self.successResultOf(stopped)
        self.assertIn(STOPPING, self.refused())
        self.assertTrue(self.newest.writers[0].stopping)
        self.assertEqual((self.downs, self.clock.getDelayedCalls()), ([], []))

    def test_while_paused(self) -> None:
        """It is over at once, and nothing is started any more."""
        self.started()
        self.prepare = lambda made: made.stores[0].failing.add("open")
        self.crash()
        self.assertEqual(self.guard.words, PAUSING)
        self.successResultOf(self.guard.stop())
        self.assertEqual((self.clock.getDelayedCalls(), self.guard.words), ([], STOPPING))

    def test_while_opening(self) -> None:
        """What is open is let go, without writing anything; a first start is never told of."""
        for first in (True, False):
            self.setUp()
            if not first:
                self.started()
            self.prepare = lambda made: made.stores[1].slow.add("open")
            starting = self.guard.start() if first else None
            if not first:
                self.crash()
            opening = self.ledger
            self.told.clear()
            self.successResultOf(self.guard.stop())
            self.assertEqual(self.told, ["abandon ledger", "abandon keys"])
            opening.go_on(CrashError("closed"))
            if starting is not None:
                self.assertNoResult(starting)
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_while_letting_go(self) -> None:
        """A crash and a stop at once: it is waited for the writer, and nothing is opened."""
        self.started()
        writer = self.newest.writers[0]
        writer.stuck = True
        self.crash()
        stopping = self.guard.stop()
        self.clock.advance(100)
        self.assertNoResult(stopping)
        writer.unstick()
        self.successResultOf(stopping)
        self.assertEqual(len(self.groups), 1)

    def test_right_after_a_crash(self) -> None:
        """Before anything was let go."""
        self.started()
        self.ledger.crash()
        self.flushLoggedErrors(CrashError)
        stopping = self.guard.stop()
        self.assertNoResult(stopping)
        self.clock.advance(0)
        self.successResultOf(stopping)
        self.assertEqual((self.told, len(self.groups)), (["abandon ledger", "abandon keys"], 1))

    def test_a_crash_in_closing(self) -> None:
        """Everything is let go, and the stop says that it was not in order."""
        self.started()
        closing = self.ledger
        closing.slow.add("close")
        stopping = self.guard.stop()
        self.crash()
        self.failureResultOf(stopping, CrashError)
        self.assertEqual(self.told, ["close ledger", "abandon ledger", "abandon keys"])
        closing.go_on()
        self.assertEqual((len(self.told), self.clock.getDelayedCalls()), (3, []))

    def test_a_store_that_cannot_be_closed(self) -> None:
        """The same."""
        self.started()
        self.newest.stores[0].failing.add("close")
        self.failureResultOf(self.guard.stop(), CrashError)
        self.assertEqual(len(self.flushLoggedErrors(CrashError)), 1)
        self.assertEqual(self.told[2:], ["abandon ledger", "abandon keys"])

    def test_never_started(self) -> None:
        """A guard whose daemon was stopped before it began."""
        self.guard.make_first()
        self.successResultOf(self.guard.stop())

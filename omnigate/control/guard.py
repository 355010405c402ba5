"""The guard over the stores: opens them as one group, and starts them again when one has crashed.

The stores of the control plane hang on each other: budgets on keys and ledger, snapshots on
budgets, the API on all of them. So they live and die together. A *generation* is all that hangs on
them, made by one function. Where something breaks in a store that it has no answer for, it says so,
and its generation is *abandoned*: requests under way are answered 503, every store lets go of what
it holds without writing, and a new generation is opened from the files. When that is, is
:mod:`~omnigate.control.restarts`' to say.

The listener stands beside the guard and asks it for the endpoints (:meth:`Guard.find`). While no
generation is up, those of the stores refuse, and those that need no store answer as ever.

Only the first start is another matter: a group that cannot be opened then is the end of the
process, and nothing is tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.control.restarts import Restarts
from omnigate.control.routes import Answer, Call, Endpoint, Routes, Run
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter

#: Why requests are not served, in fixed words: who asks /readyz needs no credential.
LOADING: Final = "the ledger is being loaded"
RESTARTING: Final = "the stores are being restarted"
PAUSING: Final = "the stores have failed, and are started again soon"
SILENT: Final = "the stores are to be restarted, but the disk does not answer"
STOPPING: Final = "stopping"

#: How long a writer may take to end before it is told: a sync of a busy disk takes a second or two.
SILENT_SECONDS: Final = 10.0

#: Called by a store that has no answer for what broke: with its name, and what it was.
Crashed = Callable[[str, Failure], None]


class Store(Protocol):
    """One store of the group.

    It is given something to call when it crashes: something broke in it that it has no answer for,
    such as an unexpected exception in its own work. Expected faults, such as a disk that is full,
    are its answers to whoever asked.
    """

    @property
    def name(self) -> str:
        """What the log calls it."""

    def open(self) -> Awaitable[None]:
        """Read what is on the disk, in the writer thread; whatever it raises fails the start."""

    def close(self) -> Awaitable[None]:
        """Finish what is to be written, and close the files."""

    def abandon(self) -> object:
        """Let go of everything at once, and write nothing; fail whoever waits.

        Its writer is ended by the guard. What has to be done in the writer's thread, such as
        closing files, is handed to :meth:`~omnigate.writer_thread.IWriter.abandon`. What it returns
        is waited for if it is a Deferred.
        """


class Group(Protocol):
    """A generation, as far as the guard needs to know it."""

    @property
    def stores(self) -> Sequence[Store]:
        """The stores in the order they are opened in; they are closed the other way round."""

    @property
    def writers(self) -> Sequence[IWriter]:
        """Their writer threads, stopped once all stores are closed."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """What needs the stores; the same paths in each generation."""


G = TypeVar("G", bound=Group)


@attrs.define(eq=False)
class _Life(Generic[G]):
    """One generation from its making to its end.

    :ivar generation: None once it has ended, so that nothing of it is kept.
    :ivar opened: whether it has been up.
    :ivar closing: whether it is being closed.
    :ivar ended: whether it was closed or abandoned; nothing that it says counts any more.
    :ivar under_way: the answers that somebody waits for.
    """

    generation: G | None = None
    began: float = 0.0
    opened: bool = False
    closing: bool = False
    ended: bool = False
    failure: Failure | None = None
    under_way: set[Deferred[Answer]] = attrs.Factory(set)


class Guard(Generic[G]):
    """Keeps one generation of stores alive.

    :param build: makes a generation; given what its stores are to call when they crash.
    :param standing: endpoints that need no store.
    :ivar restarts: how many times the stores were started again.
    :ivar came_up: called with a generation that is open, and how many seconds that took.
    :ivar went_down: called with the reason when it is open no more, unless it is to stop.
    """

    _log = Logger()

    def __init__(
        self,
        build: Callable[[Crashed], G],
        clock: IReactorTime,
        standing: Sequence[Endpoint] = (),
    ) -> None:
        self._build = build
        self._clock = clock
        self._standing = tuple(standing)
        self._rule = Restarts()
        self._life: _Life[G] | None = None
        self._routes = Routes(*self._standing)
        self._closed_routes = self._routes
        self._words: str | None = LOADING
        self._timer: IDelayedCall | None = None
        self._first: Deferred[None] | None = None
        self._leaving = False
        self._stopping = False
        self._stopped: list[Deferred[None]] = []
        self._has_stopped = False
        self.restarts = 0
        self.came_up: Callable[[G, float], None] = lambda generation, seconds: None
        self.went_down: Callable[[str], None] = lambda words: None

    # -- what others ask ----------------------------------------------------------------------

    @property
    def words(self) -> str | None:
        """Why the stores cannot be used, one of the constants above; None while they can."""
        return STOPPING if self._leaving else self._words

    @property
    def current(self) -> G | None:
        """The generation that is up; None while none is."""
        life = self._life
        return life.generation if life is not None and life.opened and not life.ended else None

    @property
    def latest(self) -> G | None:
        """The generation that is up or being opened, which has to hear of a new config."""
        life = self._life
        return life.generation if life is not None and not life.ended else None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All endpoints; the same paths whatever is up."""
        return self._routes.endpoints

    def find(self, method: str, path: str) -> tuple[Endpoint, str]:
        """Return the endpoint for a request as of now; see :meth:`Routes.find`."""
        return self._routes.find(method, path)

    # -- the start ----------------------------------------------------------------------------

    def make_first(self) -> G:
        """Make the first generation, which :meth:`start` opens.

        Whoever starts the daemon may read in advance what must be good to start at all.
        """
        life = self._make()
        assert life.generation is not None
        return life.generation

    def start(self) -> Deferred[None]:
        """Open the first generation.

        :return: fires when it is up. Fails with what kept it from that, all stores abandoned, and
            then nothing is tried again.
        """
        self._first = first = Deferred[None]()
        self._open(self._life or self._make())
        return first

    def _make(self) -> _Life[G]:
        life: _Life[G] = _Life()
        generation = self._build(partial(self._crashed, life))
        life.generation = generation
        self._life = life
        self._closed_routes = self._routes = Routes(
            *self._standing,
            *(attrs.evolve(endpoint, run=self._refuse) for endpoint in generation.endpoints),
        )
        return life

    def _open(self, life: _Life[G]) -> None:
        life.began = self._clock.seconds()
        Deferred.fromCoroutine(self._open_stores(life)).addCallbacks(
            lambda _: self._opened(life), lambda failure: self._cannot_open(life, failure)
        ).addErrback(lambda failure: self._crashed(life, "guard", failure))

    async def _open_stores(self, life: _Life[G]) -> None:
        assert life.generation is not None
        for store in life.generation.stores:
            if life.ended:
                return
            await store.open()

    def _opened(self, life: _Life[G]) -> None:
        generation = life.generation
        if life.ended or generation is None:
            return
        life.opened = True
        self._rule.opened(self._clock.seconds())
        self._routes = Routes(
            *self._standing,
            *(
                attrs.evolve(endpoint, run=partial(self._answer, life, endpoint.run))
                for endpoint in generation.endpoints
            ),
        )
        self._words = None
        self.came_up(generation, self._clock.seconds() - life.began)
        first, self._first = self._first, None
        if first is not None:
            first.callback(None)

    def _cannot_open(self, life: _Life[G], failure: Failure) -> None:
        if life.ended:
            return
        if self._first is None:
            self._log.error(
                "the stores could not be started again: {reason}",
                reason=failure.getErrorMessage(),
            )
        self._end(life, failure)
        self._let_go(life)

    # -- requests -----------------------------------------------------------------------------

    async def _refuse(self, call: Call) -> Answer:
        """Answer what needs the stores while there are none."""
        words = self.words or RESTARTING
        raise GatewayError("not_ready", f"{words}; try again in a second", retry_after=1)

    async def _answer(self, life: _Life[G], run: Run, call: Call) -> Answer:
        """Have a generation answer; if it ends before it has, that is the answer."""
        if life.ended:
            return await self._refuse(call)
        outcome: Deferred[Answer] = Deferred()
        life.under_way.add(outcome)
        Deferred.fromCoroutine(_awaited(run(call))).addBoth(self._answered, life, outcome)
        return await outcome

    def _answered(
        self, result: Answer | Failure, life: _Life[G], outcome: Deferred[Answer]
    ) -> None:
        if outcome in life.under_way:
            life.under_way.remove(outcome)
            # What fails in a crash says more than it knows.
            doubtful = life.ended and isinstance(result, Failure)
            outcome.callback(Failure(_interrupted()) if doubtful else result)

    # -- the end of a generation --------------------------------------------------------------

    def _crashed(self, life: _Life[G], store: str, failure: Failure) -> None:
        """A store has no answer for what broke."""
        if life.ended:
            return
        self._log.failure(
            "{store} has crashed; all stores are started again from their files",
            failure,
            store=store,
        )
        self._end(life, failure)
        # Whoever calls may be in the middle of something.
        self._clock.callLater(0, self._let_go, life)

    def _end(self, life: _Life[G], failure: Failure | None) -> None:
        """Take a generation out of service, as of now."""
        life.ended = True
        life.failure = failure
        self._routes = self._closed_routes
        if not self._stopping:
            self._words = RESTARTING if self._first is None else LOADING
            if life.opened:
                self.went_down(RESTARTING)

    def _let_go(self, life: _Life[G]) -> None:
        """Abandon everything, and go on when all writers have ended."""
        generation = life.generation
        assert generation is not None
        life.generation = None
        under_way, life.under_way = life.under_way, set()
        for outcome in under_way:
            outcome.errback(_interrupted())
        ends: list[Deferred[Any]] = [
            *(maybeDeferred(store.abandon) for store in reversed(generation.stores)),
            *(maybeDeferred(writer.abandon) for writer in generation.writers),
        ]
        for end in ends:
            end.addErrback(
                lambda failure: self._log.failure("a store could not be let go", failure)
            )
        silent = self._clock.callLater(SILENT_SECONDS, self._tell_silent)
        DeferredList(ends).addCallback(lambda _: self._gone(life, silent))

    def _tell_silent(self) -> None:
        self._log.error(
            "the stores wait for a writer that has not ended for {seconds:.0f} s; nothing is "
            "opened before that, since two may not write one file. Look after the disk.",
            seconds=SILENT_SECONDS,
        )
        self._words = SILENT

    def _gone(self, life: _Life[G], silent: IDelayedCall) -> None:
        """Nothing of a generation is at work any more."""
        if silent.active():
            silent.cancel()
        failure, life.failure = life.failure, None
        self._life = None
        first, self._first = self._first, None
        if self._stopping:
            self._note_stopped(failure if life.closing else None)
        elif first is not None:
            first.errback(failure)
        else:
            self._next(
                self._rule.crashed(self._clock.seconds()) if life.opened else self._rule.failed()
            )

    def _next(self, pause: float) -> None:
        if not pause:
            self._again()
            return
        self._words = PAUSING
        self._log.warn("the stores are started again in {seconds} s", seconds=pause)
        self._timer = self._clock.callLater(pause, self._again)

    def _again(self) -> None:
        self._timer = None
        self._words = RESTARTING
        self.restarts += 1
        try:
            life = self._make()
        except Exception:
            self._life = None
            self._log.failure("the stores cannot be made anew")
            self._next(self._rule.failed())
        else:
            self._open(life)

    # -- the stop -----------------------------------------------------------------------------

    def about_to_stop(self) -> None:
        """Say from now on that it is stopping; the stores go on until :meth:`stop`."""
        self._leaving = True

    def stop(self) -> Deferred[None]:
        """Close the stores in order; those that are being opened or have crashed are let go.

        :return: fires when nothing of them is at work any more; fails where they could not be
            closed in order, all the same let go.
        """
        if self._has_stopped:
            return succeed(None)
        stopped: Deferred[None] = Deferred()
        self._stopped.append(stopped)
        if self._stopping:
            return stopped
        self._leaving = self._stopping = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        life = self._life
        if life is None:
            self._note_stopped(None)
        elif life.opened and not life.ended:
            life.closing = True
            Deferred.fromCoroutine(self._close_stores(life)).addCallbacks(
                lambda _: self._closed(life), lambda failure: self._cannot_close(life, failure)
            )
        elif not life.ended:
            self._end(life, None)
            self._let_go(life)
        return stopped

    async def _close_stores(self, life: _Life[G]) -> None:
        generation = life.generation
        assert generation is not None
        for store in reversed(generation.stores):
            if life.ended:
                return
            await store.close()
        for writer in generation.writers:
            await writer.stop()

    def _closed(self, life: _Life[G]) -> None:
        if not life.ended:
            self._end(life, None)
            life.generation = None
            self._life = None
            self._note_stopped(None)

    def _cannot_close(self, life: _Life[G], failure: Failure) -> None:
        if not life.ended:
            self._log.failure("the stores could not be closed in order", failure)
            self._end(life, failure)
            self._let_go(life)

    def _note_stopped(self, failure: Failure | None) -> None:
        self._has_stopped = True
        stopped, self._stopped = self._stopped, []
        for waiter in stopped:
            waiter.callback(failure)


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


def _interrupted() -> GatewayError:
    """Return the answer for a request whose stores crashed while it was under way."""
    return GatewayError(
        "not_ready",
        "the stores were restarted while this was under way; look whether it was done before "
        "trying again",
        retry_after=1,
    )

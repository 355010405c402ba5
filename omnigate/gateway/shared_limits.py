"""The limits of keys and of the plane where several workers serve them: one limit over all.

Each class stands beside the one that a single process uses, says and refuses the same, and tells
``in_flight``, ``memory_bytes`` and ``bytes`` of this worker alone. What differs is what is
compared: the sum over all workers' slots (:mod:`omnigate.gateway.shared_uses`). Between reading the
others' slots and writing one's own another worker may decide as well, so a limit may be passed by
one request for each worker but one, and never by more: whoever asks next sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol
from twisted.logger import Logger

from omnigate.gateway import admission, parse_memory
from omnigate.gateway.admission import Admission, KeyUse, Ticket
from omnigate.gateway.parse_memory import ParseMemory, Reservation
from omnigate.gateway.shared_uses import (
    BODY_MEMORY,
    CONNECTIONS,
    IN_FLIGHT,
    PARSE_MEMORY,
    PLANE_BODY_MEMORY,
    PLANE_PARSE_MEMORY,
    RATE_BASE,
    RATE_TAKEN,
    TOKENS_BASE,
    TOKENS_HELD,
    TOKENS_TAKEN,
    Row,
    SharedUses,
    own_row,
)
from omnigate.gateway.tables import KeyLimits
from omnigate.protocols.client import ClientConnection, ClientFactory, Plane
from omnigate.token_bucket import (
    MOST_AHEAD_SECONDS,
    NANOSECOND,
    SLACK_SECONDS,
    WINDOW_NS,
    WINDOW_SECONDS,
    AmountBucket,
    TokenBucket,
)

#: A worker may stand still after it has looked at the clock, while others take tokens: up to here
#: this is no clock that went back. Beyond, the next look at the clock has to say the same.
_STALE_SECONDS = 5.0

#: Where the clock has not gone back, as it seems.
_NEVER = float("inf")


class SharedKeyUse(KeyUse):
    """What one key holds: this worker's part as numbers, and the slots of all.

    Without one of the shared rows it counts alone, and as if each of the others held as much.

    :ivar index: which slots are this worker's.
    :ivar alone: whether nobody else counts in its row.
    :ivar held: what this worker has reserved of the key's tokens, in nanoseconds.
    :ivar weight: how often what the row holds is counted: once, or as often as there are workers.
    :ivar in_flights: the slots of requests in flight.
    :ivar memories: the slots of memory for bodies.
    """

    __slots__ = ("alone", "held", "in_flights", "index", "memories", "row", "weight")

    def __init__(self, index: int, row: Row, alone: bool) -> None:
        super().__init__()
        self.index = index
        self.held = 0
        self.move(row, alone)

    def move(self, row: Row, alone: bool) -> None:
        """Count in this row from now on; this worker's slots in it are zero.

        A bucket follows, but what was taken stays behind: alone, that was part of a burst.
        """
        self.row = row
        self.alone = alone
        self.weight = row.workers if alone else 1
        self.in_flights = row.ints(IN_FLIGHT)
        self.memories = row.ints(BODY_MEMORY)
        if not self.idle:
            self.in_flights[self.index] = self.in_flight
            self.memories[self.index] = self.memory_bytes
            row.ints(PARSE_MEMORY)[self.index] = self.parse_bytes
            row.ints(TOKENS_HELD)[self.index] = self.held

    @property
    def idle(self) -> bool:
        """Whether this worker holds nothing of the key's."""
        return not (self.in_flight or self.memory_bytes or self.parse_bytes or self.held)


class SharedTicket(Ticket):
    """A place that all workers see."""

    __slots__ = ()

    _admission: SharedAdmission
    _use: SharedKeyUse | None

    def release(self) -> None:
        """Give the place back."""
        use, self._use = self._use, None
        if use is not None:
            index = use.index
            use.in_flight = use.in_flights[index] = use.in_flight - 1
            whole = self._admission
            whole.in_flight -= 1
            size = self._bytes
            if size:
                use.memory_bytes = use.memories[index] = use.memory_bytes - size
                whole.memory_bytes = whole.memories[index] = whole.memory_bytes - size


class SharedAdmission(Admission):
    """Counts what is in flight in all workers.

    :ivar memories: the slots of memory for the bodies of all keys.
    """

    def __init__(self, memory_bytes: int, default_in_flight: int, shared: SharedUses) -> None:
        super().__init__(memory_bytes, default_in_flight)
        self.memories = shared.plane.ints(PLANE_BODY_MEMORY)

    # All keys of a plane with shared counters have shared uses.
    def enter(  # type: ignore[override]
        self, use: SharedKeyUse, max_in_flight: int, declared_bytes: int
    ) -> Ticket:
        """As :meth:`Admission.enter`."""
        limit = max_in_flight or self._default_in_flight
        weight = use.weight
        if sum(use.in_flights) * weight >= limit:
            raise admission.too_many(limit)
        index = use.index
        size = declared_bytes * 2
        if size:
            budget = self._budget_bytes
            if sum(use.memories) * weight + size > budget // admission.KEY_SHARE:
                raise admission.too_large_together()
            if sum(self.memories) + size > budget:
                raise admission.no_room()
            use.memory_bytes = use.memories[index] = use.memory_bytes + size
            self.memory_bytes = self.memories[index] = self.memory_bytes + size
        use.in_flight = use.in_flights[index] = use.in_flight + 1
        self.in_flight += 1
        return SharedTicket(self, use, size)


class SharedReservation(Reservation):
    """Room for one tree that all workers see."""

    __slots__ = ()

    _memory: SharedParseMemory
    _use: SharedKeyUse | None

    def release(self) -> None:
        """Give the room back; the tree is to be gone by now."""
        use, self._use = self._use, None
        if use is not None:
            self._memory.count(use, -self.size)


class SharedParseMemory(ParseMemory):
    """Counts what trees may take in all workers."""

    def __init__(self, budget_bytes: int, shared: SharedUses) -> None:
        super().__init__(budget_bytes)
        self._all = shared.plane.ints(PLANE_PARSE_MEMORY)

    def reserve(self, use: SharedKeyUse, size: int) -> Reservation:  # type: ignore[override]
        """As :meth:`ParseMemory.reserve`."""
        of_key = sum(use.row.ints(PARSE_MEMORY)) * use.weight
        if of_key + size > self.budget_bytes // parse_memory.KEY_SHARE:
            raise parse_memory.too_large_together()
        if sum(self._all) + size > self.budget_bytes:
            raise parse_memory.no_room()
        self.count(use, size)
        return SharedReservation(self, use, size)

    def count(self, use: SharedKeyUse, size: int) -> None:
        """Have so much more reserved, or less."""
        use.parse_bytes += size
        use.row.ints(PARSE_MEMORY)[use.index] = use.parse_bytes
        self.bytes += size
        self._all[use.index] = self.bytes


class SharedBucket(TokenBucket):
    """A bucket that all workers take tokens from.

    The instant at which it would be full is told in two parts: the latest instant at which a worker
    found it full, less what all had taken by then (``base``, the greatest of the slots), and the
    seconds that all takings have come to (``taken``, their sum). So two workers that take at the
    same moment both move the instant, as one after the other would: a token that a race gave away
    is missing later. Being in seconds, what was taken stays in proportion when the rate changes,
    and workers that learn of a new rate at different moments agree.

    A limit that was lifted and comes back within a minute finds what was taken before.
    """

    __slots__ = ("_astray", "_bases", "_cost", "_doubted_at", "_row", "_takens", "_use")

    def __init__(self, rpm: int, use: SharedKeyUse) -> None:
        self._use = use
        self._doubted_at = _NEVER
        super().__init__(rpm)

    def _set_rate(self, rpm: int) -> None:
        super()._set_rate(rpm)
        self._move()

    def _move(self) -> None:
        use = self._use
        row = self._row = use.row
        self._bases = row.floats(RATE_BASE)
        self._takens = row.floats(RATE_TAKEN)
        workers = len(self._bases)
        # A worker that counts for itself has its part of the rate.
        self._cost = self._interval * use.weight
        self._room = max(0.0, WINDOW_SECONDS - self._cost)
        # Each worker may have taken one too many.
        self._astray = workers * self._interval + _STALE_SECONDS

    def take(self, now: float) -> float:
        """As :meth:`TokenBucket.take`."""
        interval = self._interval
        if not interval:
            return 0.0
        use = self._use
        if self._row is not use.row:
            self._move()
        takens = self._takens
        taken = sum(takens)
        full_at = max(self._bases) + taken
        if full_at < now:
            self._bases[use.index] = now - taken
            takens[use.index] += self._cost
            self._doubted_at = _NEVER
            return 0.0
        wait = full_at - now - self._room
        if wait <= SLACK_SECONDS:
            takens[use.index] += self._cost
            self._doubted_at = _NEVER
            return 0.0
        if wait > self._astray:
            return self._clock_astray(now, full_at)
        self._doubted_at = _NEVER
        return wait

    def _clock_astray(self, now: float, full_at: float) -> float:
        """Refuse, and set the bucket right if the clock went back indeed.

        One look does not tell that from a worker that has stood still since it looked; a second
        one does.
        """
        doubted_at, self._doubted_at = self._doubted_at, now
        if doubted_at < now:
            # An empty bucket is the worst that may come of it, or a full one where several workers
            # see it at the same moment.
            self._takens[self._use.index] -= full_at - now - WINDOW_SECONDS
            self._doubted_at = _NEVER
        return self._interval

    def resize(self, rpm: int, now: float) -> None:
        """Change the rate; what is in the bucket stays, in proportion to its size."""
        if rpm != self.rpm:
            self._set_rate(rpm)


class SharedAmountBucket(AmountBucket):
    """A bucket of amounts that all workers reserve from.

    It is told as :class:`SharedBucket` is, with a third part: what is reserved (``held``, the sum
    of the slots). That part is given back when a worker is gone, whatever it was at.
    """

    __slots__ = ("_bases", "_doubted_at", "_helds", "_row", "_takens", "_use")

    def __init__(self, rate: int, use: SharedKeyUse) -> None:
        self.rate = rate
        self._use = use
        self._doubted_at = _NEVER
        self._move()

    @property
    def held(self) -> int:
        """What this worker has reserved, in nanoseconds."""
        return self._use.held

    def _move(self) -> None:
        row = self._row = self._use.row
        self._bases = row.floats(TOKENS_BASE)
        self._takens = row.floats(TOKENS_TAKEN)
        self._helds = row.ints(TOKENS_HELD)

    def need(self, amount: int) -> int:
        """As :meth:`AmountBucket.need`."""
        # A worker that counts for itself has its part of the rate.
        return min(amount * self._use.weight * WINDOW_NS // self.rate, WINDOW_NS)

    def reserve(self, need: int, now: float) -> float:
        """As :meth:`AmountBucket.reserve`."""
        full_at = self._filled(now)
        doubted_at, self._doubted_at = self._doubted_at, _NEVER
        if full_at > now + MOST_AHEAD_SECONDS + _STALE_SECONDS:
            if doubted_at >= now:
                # It may be that this worker has stood still since it looked at the clock.
                self._doubted_at = now
                return need * NANOSECOND + SLACK_SECONDS
            self._takens[self._use.index] -= full_at - now - WINDOW_SECONDS
            full_at = now + WINDOW_SECONDS
        wait = full_at + need * NANOSECOND - now - WINDOW_SECONDS
        if wait > SLACK_SECONDS:
            return wait
        self._hold(need)
        return 0.0

    def settle(self, need: int, amount: int, now: float) -> None:
        """As :meth:`AmountBucket.settle`."""
        most = now + MOST_AHEAD_SECONDS - self._filled(now) + need * NANOSECOND
        use = self._use
        self._hold(-need)
        cost = amount * use.weight * WINDOW_SECONDS / self.rate
        self._takens[use.index] += max(0.0, min(cost, most))

    def _hold(self, need: int) -> None:
        use = self._use
        use.held = self._helds[use.index] = use.held + need

    def _filled(self, now: float) -> float:
        """The instant at which it will be full, with all that is reserved."""
        if self._row is not self._use.row:
            self._move()
        others = sum(self._takens) + sum(self._helds) * NANOSECOND
        full_at = max(self._bases) + others
        if full_at >= now:
            return full_at
        self._bases[self._use.index] = now - others
        return now


class SharedKeyLimits(KeyLimits):
    """Makes what keys are counted in, where several workers serve them."""

    log = Logger()

    def __init__(self, shared: SharedUses) -> None:
        self._shared = shared
        self._uses: dict[bytes, SharedKeyUse] = {}
        # For those that are gone: should one of them be counted in after all, it is in no way.
        self._nowhere = own_row(shared.workers)

    def uses(self, digests: Collection[bytes]) -> dict[bytes, KeyUse]:
        """What these keys hold in all workers; and rows for those that got none before."""
        shared, known = self._shared, self._uses
        lacking = [digest for digest, use in known.items() if use.alone]
        lacking += [digest for digest in digests if digest not in known]
        rows = shared.claim(lacking)
        for digest in lacking:
            use, row = known.get(digest), rows.get(digest)
            if use is None:
                place = own_row(shared.workers) if row is None else row
                known[digest] = SharedKeyUse(shared.index, place, alone=row is None)
            elif row is not None:
                use.move(row, alone=False)
        if len(rows) < len(lacking):
            self.log.warn(
                "{count} keys have no row among the counters that the workers share, which hold "
                "{most}; until the next change of the config, each worker gives them an equal part "
                "of their limits",
                count=len(lacking) - len(rows),
                most=shared.most_keys,
            )
        return {digest: known[digest] for digest in digests}

    def bucket(self, use: SharedKeyUse, rpm: int) -> TokenBucket:  # type: ignore[override]
        """A bucket that all workers take from."""
        return SharedBucket(rpm, use)

    def tokens(self, use: SharedKeyUse, tpm: int) -> AmountBucket:  # type: ignore[override]
        """What a key's tokens are counted in, in all workers."""
        return SharedAmountBucket(tpm, use)

    def keep(self, digests: Collection[bytes]) -> None:
        """Let go of all keys but these, as far as nothing of theirs is in flight here."""
        uses = self._uses
        gone = [digest for digest, use in uses.items() if use.idle and digest not in digests]
        let_go = self._shared.let_go(gone)
        for digest in gone:
            use = uses[digest]
            if use.alone or digest in let_go:
                # The row is for others now, whoever still has the use.
                use.move(self._nowhere, alone=True)
                del uses[digest]


class SharedClientFactory(ClientFactory):
    """Makes connections up to a cap over all workers."""

    def __init__(
        self,
        plane: Plane,
        max_connections: int,
        full_answer: Callable[[], bytes],
        shared: SharedUses,
    ) -> None:
        super().__init__(plane, max_connections, full_answer)
        self._max_of_all = max_connections
        self._counts = shared.plane.ints(CONNECTIONS)
        self._index = shared.index

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """As :meth:`ClientFactory.buildProtocol`."""
        self._leave_others_theirs()
        return super().buildProtocol(addr)

    def opened(self, connection: ClientConnection) -> None:
        """A connection is up."""
        self._leave_others_theirs()
        super().opened(connection)
        self._counts[self._index] = len(self.connections)

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        super().closed(connection)
        self._counts[self._index] = len(self.connections)

    def _leave_others_theirs(self) -> None:
        """Say how many this worker may have: what the others leave."""
        counts = self._counts
        self._max_connections = self._max_of_all - (sum(counts) - counts[self._index])

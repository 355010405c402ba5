"""Where each figure of a data plane stands.

Nothing here is on a request's path. Requests count in plain numbers
(:mod:`omnigate.gateway.tally`), and the rest are figures that the parts of the plane keep anyway.
They are read a few hundred at a time, so that a config of thousands of routes holds the reactor no
longer than a small one.
"""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs

import omnigate
import twisted
from omnigate.gateway import figures
from omnigate.gateway.count_reports import Figures
from omnigate.gateway.tally import Durations
from omnigate.metric_families import TOTAL, Family, Number, Part, Row, parts_of

if TYPE_CHECKING:
    from omnigate.gateway.service import DataParts
    from omnigate.gateway.spool import Spool
    from omnigate.gateway.worker_spools import LeftSpools
    from omnigate.protocols.client import ClientFactory

#: Direction and cache of each count of :attr:`omnigate.gateway.tally.Tally.tokens`.
_TOKEN_KINDS: Final = (
    ("input", "none"),
    ("input", "read"),
    ("input", "write"),
    ("output", "none"),
)


#: Targets that fail of which the control plane is told by name: 60 KB of the longest names.
MAX_RESTING_TOLD: Final = 100


@attrs.frozen
class Identity:
    """Which process of which data plane this is.

    :ivar address: where it listens, once it does.
    :ivar worker: which of several workers; -1 where there are none.
    """

    host: str
    address: Callable[[], str]
    worker: int


class PlaneFigures(Figures):
    """The figures of one data plane.

    :param clients: where its clients' connections are.
    :param identity: for the control plane; it is told of nothing but figures without.
    """

    def __init__(
        self, parts: DataParts, clients: ClientFactory, identity: Identity | None = None
    ) -> None:
        self._parts = parts
        self._identity = identity
        self._clients = clients
        # How many requests had ended when the control plane was told last.
        self._told = 0

    def parts(self) -> Iterator[Part]:
        """Read them, one part after the other.

        Figures are read when their part is; requests may go on between any two.
        """
        yield from self._requests()
        yield from self._state()
        yield from self._upstreams()
        yield from self._usage()
        yield from self._config()
        yield from self._certificate()

    # -- what the control plane is told

    def gauges(self) -> Mapping[str, float]:
        """Figures as they are now, by the names that they have on the wire."""
        spools, served = self._spools(), self._parts.certificate
        ends = {} if served is None else {"certificate_expiry_timestamp_seconds": served.expires_at}
        return {
            **self._parts.plane.figures(),
            **ends,
            "client_connections": len(self._clients.connections),
            "spool_events": sum(spool.count for spool in spools),
            "spool_bytes": sum(spool.bytes for spool in spools),
        }

    def upstreams(self) -> Mapping[str, int]:
        """The states of upstreams that are not healthy now."""
        plane = self._parts.plane
        return {} if plane.tables is None else plane.troubles.states(plane.tables)

    def about(self) -> Mapping[str, object]:
        """Who this is, its config, how long usage has waited, which targets fail.

        The members of :class:`omnigate.control.plane_states.About`.
        """
        identity = self._identity
        if identity is None:
            return {}
        plane, pull = self._parts.plane, self._parts.pull
        tables, now = plane.tables, plane.clock.seconds()
        polled = None if pull is None else pull.polled_at
        upstreams = {} if tables is None else tables.upstreams
        return {
            "host": identity.host,
            "address": identity.address(),
            "worker": identity.worker,
            "version": omnigate.__version__,
            "config": "" if tables is None else tables.version,
            "config_at": plane.installed_at or 0.0,
            "polled_ago": -1.0 if polled is None else round(now - polled, 3),
            "spool_since": self._parts.spool.oldest_ms / 1000,
            "missing": [name for name, found in upstreams.items() if found.missing is not None],
            "resting": [
                (upstream, model, round(rest.until - now, 3), round(now - rest.since, 3))
                for (upstream, model), rest in islice(
                    plane.troubles.rests.items(), MAX_RESTING_TOLD
                )
            ],
        }

    def counts(self) -> Iterator[Part]:
        """Counts since the start, under the names that they have here.

        Refusals and tokens are not among them: those are told by key, and these come with events.
        """
        tally = self._parts.plane.books.tally
        # To go through 15,000 rows takes 12 ms, to add them up a tenth of one.
        ended = sum(tally.requests.values())
        if ended != self._told:
            self._told = ended
            yield from self._ended()
        yield from self._attempts()
        yield from self._durations()
        yield self._lookups()
        yield from self._misfortunes()
        yield from self._certificate_failures()

    # -- where they stand

    def _spools(self) -> tuple[Spool | LeftSpools, ...]:
        """The spools; what a run with more workers left is delivered beside our own."""
        parts = self._parts
        return (parts.spool,) if parts.left is None else (parts.spool, parts.left)

    def _ended(self) -> Iterator[Part]:
        tally = self._parts.plane.books.tally
        yield from parts_of(
            figures.REQUESTS,
            (
                ((route, endpoint, f"{status_class}xx", outcome), count)
                for (route, endpoint, status_class, outcome), count in list(tally.requests.items())
            ),
        )

    def _attempts(self) -> Iterator[Part]:
        yield from parts_of(figures.ATTEMPTS, list(self._parts.plane.books.tally.attempts.items()))

    def _durations(self) -> Iterator[Part]:
        tally = self._parts.plane.books.tally
        yield from parts_of(figures.DURATIONS, _histogram(tally.durations))
        yield from parts_of(figures.FIRST_EVENTS, _histogram(tally.first_events))

    def _requests(self) -> Iterator[Part]:
        tally = self._parts.plane.books.tally
        yield from self._ended()
        yield from parts_of(
            figures.REFUSALS,
            (((reason,), count) for reason, count in list(tally.refusals.items())),
        )
        yield from self._attempts()
        yield from parts_of(
            figures.TOKENS,
            (
                ((route, *kind), count)
                for route, counts in list(tally.tokens.items())
                for kind, count in zip(_TOKEN_KINDS, counts, strict=True)
            ),
        )
        yield from self._durations()

    def _state(self) -> Iterator[Part]:
        plane = self._parts.plane
        for name, value in plane.figures().items():
            yield _one(figures.REPORTED[name], value)
        yield _one(figures.CLIENTS, len(self._clients.connections))
        yield _one(figures.DEADLINES, len(plane.watchdog))
        yield _one(figures.TIMERS, len(plane.clock.getDelayedCalls()))
        yield self._lookups()
        versions = (omnigate.__version__, platform.python_version(), twisted.__version__)
        yield from parts_of(figures.BUILD, ((versions, 1),))

    def _lookups(self) -> Part:
        cache = self._parts.plane.cache
        return Part(figures.CACHE_LOOKUPS, [(("hit",), cache.hits), (("miss",), cache.misses)])

    def _upstreams(self) -> Iterator[Part]:
        tables = self._parts.plane.tables
        pools = [] if tables is None else [(n, u.pool) for n, u in tables.upstreams.items()]
        yield from parts_of(
            figures.UPSTREAM_CONNECTIONS,
            (
                ((name, state), pool.idle if state == "idle" else pool.connections - pool.idle)
                for name, pool in pools
                for state in ("idle", "busy")
            ),
        )
        troubles, now = self._parts.plane.troubles, self._parts.plane.clock.seconds()
        yield from parts_of(
            figures.RESTING,
            ((key, int(rest.until > now)) for key, rest in list(troubles.rests.items())),
        )
        yield from parts_of(
            figures.CREDENTIAL_REFUSED,
            (
                ((name,), int(name in troubles.credentials and troubles.credentials[name].lasts))
                for name, _ in pools
            ),
        )
        yield from parts_of(
            figures.UPSTREAM_OPENED, (((name,), pool.opened) for name, pool in pools)
        )

    def _usage(self) -> Iterator[Part]:
        parts, spools = self._parts, self._spools()
        yield _one(figures.SPOOL_EVENTS, sum(spool.count for spool in spools))
        yield _one(figures.SPOOL_BYTES, sum(spool.bytes for spool in spools))
        delivered = parts.delivery.delivered + (0 if parts.left is None else parts.left.delivered)
        yield _one(figures.DELIVERED, delivered)
        yield from self._misfortunes()

    def _misfortunes(self) -> Iterator[Part]:
        """What should not happen."""
        parts = self._parts
        deliveries = (parts.delivery,) if parts.left is None else (parts.delivery, parts.left)
        assert parts.pull is not None
        yield _one(figures.SPOOL_DROPPED, parts.spool.dropped)
        yield _one(figures.DELIVERY_FAILURES, sum(one.failures for one in deliveries))
        yield _one(figures.PUT_ASIDE, sum(one.put_aside for one in deliveries))
        yield _one(figures.LOG_DROPPED, parts.access_log.dropped)
        yield _one(figures.RECEIPTS_DROPPED, parts.attesting.dropped)
        yield _one(figures.POLL_FAILURES, parts.pull.failures)

    def _config(self) -> Iterator[Part]:
        plane, pull = self._parts.plane, self._parts.pull
        assert pull is not None
        polled = pull.polled_at
        # The poll goes by the clock of what lasts, which may count from anywhere.
        ago = 0.0 if polled is None else plane.clock.seconds() - polled
        yield _one(figures.POLLED, 0.0 if polled is None else plane.wall() - ago)
        yield _one(figures.INSTALLED, plane.installed_at or 0.0)

    def _certificate(self) -> Iterator[Part]:
        served = self._parts.certificate
        expiry = [] if served is None else [((), served.expires_at)]
        yield from parts_of(figures.CERTIFICATE_EXPIRY, expiry)
        yield from self._certificate_failures()

    def _certificate_failures(self) -> Iterator[Part]:
        served = self._parts.certificate
        failures = [] if served is None else [((), served.failures)]
        yield from parts_of(figures.CERTIFICATE_FAILURES, failures)


def collector_parts() -> Iterator[Part]:
    """Read what Python's collector did in this process."""
    stats = list(enumerate(gc.get_stats()))
    for family, name in (
        (figures.COLLECTED, "collected"),
        (figures.UNCOLLECTABLE, "uncollectable"),
        (figures.COLLECTIONS, "collections"),
    ):
        yield Part(family, [((str(generation),), stat[name]) for generation, stat in stats])


def _one(family: Family, value: Number) -> Part:
    return Part(family, [((), value)])


def _histogram(durations: Mapping[str, Durations]) -> Iterator[Row]:
    for label, kept in durations.items():
        for bucket, count in enumerate(kept.counts):
            yield (label, str(bucket)), count
        yield (label, TOTAL), kept.total_seconds

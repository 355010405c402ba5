"""Plays golden cases through all that runs a job, but for sockets and the time of day.

The store and the outputs lie on a disk in memory; requests go through the true client over
connections in memory (:mod:`tests.outbound.network`), whose other end is this player: it reads each
request, holds it against the exchange that comes next, and answers with its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from omnigate.config.schema import Config, load_config
from omnigate.control.keys import KeyBook
from omnigate.control.media_jobs import MediaJobs
from omnigate.control.media_views import Surroundings
from omnigate.jobs.job import Job
from omnigate.jobs.new_job import KeyLimits, NewJob
from omnigate.jobs.store import JobStore
from omnigate.ledger.counters import IngestResult
from omnigate.ledger.ingest import Priced
from omnigate.outbound.client import Outbound
from omnigate.outbound.messages import Request
from omnigate.testing.writer import SynchronousWriter
from tests.jobs.cases import Case, Exchange
from tests.outbound.network import Network, Peer

FOLDER = "/state"
NOW_S = 1_796_000_000
PUBLIC = ("93.184.216.34",)

#: Turns of the reactor between two looks at what was asked.
TURNS = 40
#: Looks after which a case that does not end has failed: a timeout of 10 s takes 5 polls.
MAX_LOOKS = 60


class DeviationError(AssertionError):
    """Something was asked, or came of it, that the case does not say."""


class Names(Network):
    """A network in which every name has a public address, but those that a case tells of."""

    def __init__(self, clock: Clock, names: Mapping[str, Any]) -> None:
        super().__init__(names)
        self.clock = clock

    def resolve(self, name: str) -> Deferred[list[str]]:
        """Look a name up."""
        self.names.setdefault(name, PUBLIC)
        return super().resolve(name)


class PlainKey:
    """A key that has nothing of its own."""

    age_recipients: tuple[str, ...] = ()

    def webhook_secrets(self, now_ms: int) -> tuple[str, ...]:
        """None."""
        return ()


class PlainKeys:
    """A book of such keys."""

    def owner(self, sha256: str) -> PlainKey:
        """Know everybody."""
        return PlainKey()


@attrs.define
class Books:
    """A ledger in memory."""

    events: list[Priced] = attrs.field(factory=list)

    def record_priced(self, events: Any) -> Deferred[IngestResult]:
        """Record events."""
        self.events += events
        return succeed(IngestResult(len(events), 0, 0, 0))


def config_of(case: Case) -> Config:
    """Return the config that a case runs under, read as a file is."""
    media = {**case.media, "routes": [dict(case.route)]}
    return load_config(f"media = {_toml(media)}\n")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)} = {_toml(part)}" for name, part in value.items())
        return "{ " + ", ".join(members) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


class WholePlayer:
    """Plays one case.

    :ivar books: what the ledger was told.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.books = Books()
        self._config = config_of(case)
        self._clock = Clock()
        self._clock.advance(NOW_S)
        self._at = 0
        self._read: dict[Peer, int] = {}
        self._canceled = False
        self._repeated = False
        self._start()

    # -- a life -------------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin a life with what the disk has."""
        case, clock = self.case, self._clock
        self._network = Names(clock, dict(case.dns))
        self._store = JobStore(f"{FOLDER}/jobs.jsonl", SynchronousWriter(), self._now_ms)
        self._media = MediaJobs(
            self._store,
            Surroundings(
                config=lambda: self._config,
                credential=case.secrets.get,
                book=cast(KeyBook, PlainKeys()),
                books=self.books,
                state_folder=FOLDER,
                media_folder=f"{FOLDER}/media",
                writer=SynchronousWriter(),
                worker=SynchronousWriter(),
                reader=SynchronousWriter(),
                clock=clock,
                now_ms=self._now_ms,
                steady=clock.seconds,
                connect=lambda guard: Outbound(
                    clock, guard, resolve=self._network.resolve, connect=self._network.connect
                ),
                pause=lambda: succeed(None),
            ),
        )
        self._done(self._store.open())
        self._done(self._media.open())
        self._turn()

    def _stop(self) -> None:
        self._media.abandon()
        self._store.abandon()
        self._turn()

    def _done(self, work: Any) -> Any:
        found: list[Any] = []
        Deferred.fromCoroutine(work).addBoth(found.append)
        self._turn()
        if not found:
            raise DeviationError(f"{self.case.id}: {work} does not end")
        if hasattr(found[0], "raiseException"):
            found[0].raiseException()
        return found[0]

    def _now_ms(self) -> int:
        return int(self._clock.seconds() * 1000)

    def _turn(self) -> None:
        for _ in range(TURNS):
            self._clock.advance(0)

    # -- playing ------------------------------------------------------------------------------

    def play(self) -> Job:
        """Play it to its end, and return the job.

        :raises DeviationError: something else was asked than the case tells.
        """
        case = self.case
        new = NewJob(
            key_sha256="ab" * 32,
            model=case.model,
            input_json=json.dumps(case.input).encode(),
            request_sha256="00",
        )
        made, _ = self._done(self._store.create(new, KeyLimits(0, 0)))
        self._id = made.id
        self._media.runner.run(made)
        for _ in range(MAX_LOOKS):
            self._turn()
            if self._step():
                continue
            job = self._job()
            if job.is_final:
                break
            self._clock.advance(2)
        job = self._job()
        left = [one.kind for one in case.exchanges[self._at :] if not one.repeat]
        if not job.is_final or left:
            raise DeviationError(f"{case.id}: {job.status}, nobody asked for {left}")
        self._turn()
        job = self._job()
        self._stop()
        return job

    def _job(self) -> Job:
        job = self._store.get(self._id)
        assert job is not None
        return job

    def _step(self) -> bool:
        """Do the next thing that the case tells, if it is its time."""
        if self._at == self.case.cancel_after and not self._canceled and not self._asked():
            self._canceled = True
            Deferred.fromCoroutine(self._media.runner.cancel(self._id))
            return True
        exchange = self._next_exchange()
        if exchange is not None and exchange.kind == "restart":
            self._at += 1
            self._stop()
            self._start()
            return True
        found = self._asked()
        if found is None:
            return False
        peer, request = found
        self._answer(peer, request)
        return True

    def _next_exchange(self) -> Exchange | None:
        exchanges = self.case.exchanges
        return exchanges[self._at] if self._at < len(exchanges) else None

    def _asked(self) -> tuple[Peer, Request] | None:
        """Return a request that nobody has answered, if it is whole."""
        for peer in self._network.peers:
            sent = peer.heard[self._read.get(peer, 0) :]
            head, end, body = sent.partition(b"\r\n\r\n")
            if not end or not peer.open:
                continue
            line, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = line.split(" ")
            headers = tuple(_header(text) for text in lines)
            length = int(dict(headers).get("content-length", 0))
            if len(body) >= length:
                url = f"{peer.address.scheme}://{dict(headers)['host']}{target}"
                return peer, Request(method, url, headers, body[:length])
        return None

    def _answer(self, peer: Peer, request: Request) -> None:
        """Hold a request against the case, and say what stands there."""
        case, exchange = self.case, self._next_exchange()
        asked = f"{case.id}, exchange {self._at}: {request.method} {request.url}"
        if exchange is None:
            raise DeviationError(f"{asked} is not in the case")
        faults = exchange.faults(request, self._id, self._job().target)
        if faults and exchange.repeat and self._repeated:
            self._at, self._repeated = self._at + 1, False
            self._answer(peer, request)
            return
        if faults:
            raise DeviationError(f"{asked}: {'; '.join(faults)}")
        if exchange.repeat:
            self._repeated = True
        else:
            self._at += 1
        is_first = peer not in self._read
        self._read[peer] = len(peer.heard)
        if exchange.response.get("fault") == "connection_reset" and not is_first:
            # Of a connection that was idle it is not known whether anybody read the request.
            peer.says(b"HTTP/1.1 ")
        _say(peer, exchange, self._clock.advance)


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(": ")
    return name, value


def _say(peer: Peer, exchange: Exchange, advance: Callable[[float], None]) -> None:
    """Answer over a connection, or do what goes wrong with it."""
    fault = exchange.response.get("fault")
    if fault == "connection_reset":
        peer.closes(clean=False)
    elif fault == "read_timeout":
        advance(31)
    else:
        body, headers = exchange.body, dict(exchange.response.get("headers", {}))
        # What the case says of a length stands; a file without one ends with its connection.
        if exchange.kind != "download":
            headers.setdefault("content-length", str(len(body)))
        lines = [f"HTTP/1.1 {exchange.response['status']} x"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        peer.says("\r\n".join([*lines, "", ""]).encode())
        if headers.get("transfer-encoding") == "chunked":
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        for start in range(0, len(body), 65_536):
            if peer.open:
                peer.says(body[start : start + 65_536])
        if "content-length" not in headers and peer.open:
            peer.closes()

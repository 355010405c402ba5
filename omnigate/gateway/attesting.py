"""Receipts, from the side of the data plane: the upstream is asked for what it signed.

For each answer of an attested upstream the control plane is told of its hashes at once. Then the
signature is asked for, again and again for a minute, and the report of the node that signed, which
is kept for an hour; with them the control plane is told once more, and judges. All of it is in
memory and best effort: receipts are evidence, and no bill hangs on them.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

import attrs
import msgspec
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from omnigate.attested import (
    MAX_REPORT_BYTES,
    MAX_TOLD,
    Evidence,
    Exchanged,
    Signature,
    Told,
    ToldBatch,
)
from omnigate.gateway.control_client import ControlError
from omnigate.gateway.node_reports import NO_NODE, node_of
from omnigate.gateway.tables import Upstream
from omnigate.protocols.asked import Asked, StaleError
from omnigate.protocols.connector import UpstreamConnectError
from omnigate.protocols.hashing import Hashed, HashingConnection
from omnigate.protocols.upstream import ConnectionOwner

#: Seconds after which the signature is asked for again.
PAUSES: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

#: Of one request to the upstream.
ASK_SECONDS: Final = 30.0

MAX_SIGNATURE_BYTES: Final = 64 * 1024

#: Reports are kept for an hour, so many of them.
EVIDENCE_SECONDS: Final = 3600.0
MAX_REPORTS: Final = 256

#: Where none came, or none of the node that signed, it is asked for again after this.
NO_EVIDENCE_SECONDS: Final = 60.0

#: Answers whose signature is being asked for; beyond that one is told as one without.
MAX_ASKED: Final = 256

#: What waits for the control plane; beyond that the oldest is dropped and counted.
MAX_WAITING: Final = 2_000

#: Between two batches, and after a failure.
SEND_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0

#: Answers to a question for a signature after which another one may be answered better.
_LATER: Final = frozenset((202, 404, 408, 425, 429))

#: Of evidence in one batch, but for the first in it.
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_signature = msgspec.json.Decoder(Signature)


@attrs.frozen
class Subject:
    """What a receipt is about."""

    id: str
    key_sha256: str
    route_model: str
    upstream: Upstream
    target_model: str
    stream: bool


class Attesting:
    """Asks upstreams, and tells the control plane.

    :param post: sends JSON to a path of the control plane.
    :param clock: for pauses.
    :param now_ms: milliseconds since 1970.
    :param nonce: makes 64 hexadecimal digits that nobody can have known.
    :ivar dropped: what the control plane was not told, since it was too much or was refused.
    """

    log = Logger()

    def __init__(
        self,
        post: Callable[[str, bytes], Deferred[tuple[int, bytes]]],
        clock: IReactorTime,
        now_ms: Callable[[], int],
        nonce: Callable[[], str] = lambda: secrets.token_hex(32),
    ) -> None:
        self._post = post
        self._clock = clock
        self._now_ms = now_ms
        self._nonce = nonce
        self._waiting: deque[Told] = deque()
        self._asking: set[Deferred[None]] = set()
        self._evidence: dict[tuple[str, str], tuple[float, Evidence | None]] = {}
        self._fetching: dict[str, DeferredLock] = {}
        self._timer: IDelayedCall | None = None
        self._sending = False
        self._stopped = False
        self.dropped = 0

    def connection(self, owner: ConnectionOwner) -> HashingConnection:
        """Make a connection to an attested upstream."""
        return HashingConnection(owner, self.hashed)

    def hashed(self, hashed: Hashed) -> None:
        """Take up an answer that has ended."""
        subject: Subject = hashed.subject
        exchanged = Exchanged(
            id=subject.id,
            ts_ms=self._now_ms(),
            key_sha256=subject.key_sha256,
            route_model=subject.route_model,
            upstream=subject.upstream.config.name,
            target_model=subject.target_model,
            stream=subject.stream,
            completion_id=hashed.completion_id,
            request_sha256=hashed.request_sha256,
            response_sha256=hashed.response_sha256,
            compose_hashes=subject.upstream.config.compose_hashes,
        )
        askable = bool(hashed.completion_id and hashed.response_sha256)
        full = len(self._asking) >= MAX_ASKED
        self._tell(Told(exchanged=exchanged, settled=askable and full))
        if askable and not full:
            asking = Deferred.fromCoroutine(self._ask(exchanged, subject))
            self._asking.add(asking)
            asking.addErrback(self._broken, exchanged.id)
            asking.addBoth(lambda _: self._asking.discard(asking))

    def _broken(self, failure: Any, request_id: str) -> None:
        if not self._stopped:
            self.log.failure("no receipt for request {request_id}", failure, request_id=request_id)

    def stop(self) -> None:
        """Ask and tell nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for asking in list(self._asking):
            asking.cancel()

    # -- the upstream

    async def _ask(self, exchanged: Exchanged, subject: Subject) -> None:
        upstream = subject.upstream
        signature = await self._signature(exchanged, upstream)
        evidence = None
        if signature is not None:
            address = signature.signing_address.removeprefix("0x").lower()
            evidence = await self._report(upstream, subject.target_model, address)
        self._tell(Told(exchanged=exchanged, signature=signature, evidence=evidence, settled=True))

    async def _signature(self, exchanged: Exchanged, upstream: Upstream) -> Signature | None:
        query = {"model": exchanged.target_model, "signing_algo": upstream.config.signing_algo}
        path = f"/signature/{quote(exchanged.completion_id, safe='')}?{urlencode(query)}"
        for pause in PAUSES:
            if pause:
                await deferLater(self._clock, pause)
            status, body = await self._get(upstream, path, MAX_SIGNATURE_BYTES)
            if status == 200:
                try:
                    return _signature.decode(body)
                except (msgspec.MsgspecError, RecursionError, UnicodeError):
                    # An error that is told as a 200: there is none yet.
                    continue
            if status and status < 500 and status not in _LATER:
                return None
        return None

    async def _report(self, upstream: Upstream, model: str, address: str) -> Evidence | None:
        """Return the report of a node, a kept one where there is one.

        Of one upstream one is asked for at a time: it may be megabytes, and whoever else waits
        for it mostly wants the same.
        """
        name = upstream.config.name
        kept = self._kept(name, address)
        if kept:
            return kept[0]
        lock = self._fetching.setdefault(name, DeferredLock())
        await lock.acquire()
        try:
            kept = self._kept(name, address)
            if kept:
                return kept[0]
            evidence, seconds = await self._fetched(upstream, model, address)
            if len(self._evidence) >= MAX_REPORTS:
                del self._evidence[next(iter(self._evidence))]
            self._evidence[name, address] = self._clock.seconds() + seconds, evidence
            return evidence
        finally:
            lock.release()

    def _kept(self, name: str, address: str) -> tuple[Evidence | None] | None:
        """Return what is known of a node, which may be that there is no report."""
        until, evidence = self._evidence.get((name, address), (0.0, None))
        return (evidence,) if until > self._clock.seconds() else None

    async def _fetched(
        self, upstream: Upstream, model: str, address: str
    ) -> tuple[Evidence | None, float]:
        """Ask for a report, and tell for how many seconds the answer counts."""
        nonce = self._nonce()
        query = {
            "model": model,
            "nonce": nonce,
            "signing_algo": upstream.config.signing_algo,
            "signing_address": f"0x{address}" if len(address) == 40 else address,
        }
        path = f"/attestation/report?{urlencode(query)}"
        status, body = await self._get(upstream, path, MAX_REPORT_BYTES)
        node = node_of(body, address) if status == 200 else None
        if node is None:
            return None, NO_EVIDENCE_SECONDS
        evidence = Evidence(nonce=nonce, fetched_at_ms=self._now_ms(), report=msgspec.Raw(node))
        return evidence, NO_EVIDENCE_SECONDS if node == NO_NODE else EVIDENCE_SECONDS

    async def _get(self, upstream: Upstream, path: str, max_bytes: int) -> tuple[int, bytes]:
        """Ask the upstream once; status 0 where it does not answer."""
        lines = upstream.lines
        if upstream.config.attestation == "near":
            lines += b"x-no-aliasing: true\r\n"
        target = upstream.path + path.encode("ascii")
        request = b"GET %b HTTP/1.1\r\n%b\r\n" % (target, lines)
        asking = Deferred.fromCoroutine(self._once(upstream, request, max_bytes))
        asking.addTimeout(ASK_SECONDS, self._clock)
        try:
            return await asking
        except Exception as error:
            if self._stopped:
                raise
            if not isinstance(error, UpstreamConnectError):
                self.log.debug("{name} was asked in vain", name=upstream.config.name)
            return 0, b""

    async def _once(self, upstream: Upstream, request: bytes, max_bytes: int) -> tuple[int, bytes]:
        kept = upstream.pool.take()
        try:
            asked = Asked(kept or await upstream.pool.open(), request, max_bytes)
            head, body = await asked.done
        except StaleError:
            # The usual race with a server that closes idle connections; a fresh one is not idle.
            asked = Asked(await upstream.pool.open(), request, max_bytes)
            head, body = await asked.done
        return head.status, body

    # -- the control plane

    def _tell(self, told: Told) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(told)
        self._send_after(SEND_SECONDS)

    def _send_after(self, seconds: float) -> None:
        if self._timer is None and not self._sending and not self._stopped:
            self._timer = self._clock.callLater(seconds, self._send)

    def _send(self) -> None:
        self._timer = None
        self._sending = True
        batch = self._next_batch()
        posted = self._post("/internal/receipts", _encode(ToldBatch(receipts=batch)))
        posted.addBoth(self._sent, batch)
        posted.addErrback(lambda failure: self.log.failure("receipts cannot be sent", failure))

    def _next_batch(self) -> list[Told]:
        """Take from what waits as much as the control plane takes at once."""
        batch: list[Told] = []
        size = 0
        while self._waiting and len(batch) < MAX_TOLD:
            evidence = self._waiting[0].evidence
            size += 0 if evidence is None else len(evidence.report)
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _sent(self, result: Any, batch: list[Told]) -> None:
        self._sending = False
        if self._stopped:
            return
        if isinstance(result, tuple) and result[0] < 300:
            if self._waiting:
                self._send_after(SEND_SECONDS)
            return
        if isinstance(result, tuple) and result[0] < 500:
            # It will be refused again.
            self.dropped += len(batch)
            self.log.error("the control plane refused receipts: {status}", status=result[0])
        else:
            if not isinstance(result, tuple):
                result.trap(ControlError)
            self._waiting.extendleft(reversed(batch))
        if self._waiting:
            self._send_after(RETRY_SECONDS)

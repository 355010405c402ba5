"""The providers of a soak, one program for all upstreams: ``python -m bench.soak.provider``.

It answers what the notes ask for with the faults that its seed gives, writes down every attempt,
and closes the listener of one upstream now and then. It stays until SIGTERM.
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any, cast

from twisted.internet.interfaces import IListeningPort, IReactorTime

from bench.soak import faults, replies, scene
from bench.soak.books import Attempt, Book
from bench.soak.faults import Script
from bench.soak.note import Note, OddNoteError, read_note
from omnigate.testing.provider import FakeProvider
from omnigate.testing.provider_plan import Plan, error_plan
from omnigate.testing.provider_request import SeenRequest

#: How often the shy upstream stops listening, and for how long, in seconds.
SHY_EVERY_SECONDS = 9.0
SHY_SECONDS = 1.0


class Shop:
    """What the upstreams of a soak share: the seed, the serial numbers, the book."""

    def __init__(self, seed: str, book: Book, clock: IReactorTime) -> None:
        self.seed = seed
        self.book = book
        self.clock = clock
        self.serial = 0
        self.calm = False


class SoakProvider(FakeProvider):
    """One upstream; every request is an attempt in the book, once it has ended."""

    def __init__(self, shop: Shop, upstream: scene.Upstream) -> None:
        super().__init__(shop.clock)
        self._shop = shop
        self._upstream = upstream
        self._open: dict[int, tuple[Attempt, Script]] = {}

    def plan_for(self, request: SeenRequest) -> Plan:
        """Decide how a request is answered."""
        self._numbers += 1
        shop = self._shop
        shop.serial += 1
        kind = replies.KINDS.get(request.path, "")
        odd = self._oddity(request, kind)
        note = Note(0)
        try:
            note = read_note(request.body)
        except OddNoteError as error:
            odd = odd or str(error)
        rng = random.Random(f"{shop.seed}/{note.mark}/{self._upstream.name}/{shop.serial}")
        stream = request.stream and kind not in ("embeddings", "count_tokens")
        fault = faults.draw_fault(rng, kind, stream)
        if odd:
            plan = error_plan(request, 400, odd)
            played = Script("odd", plan.steps, (0,) * len(plan.steps), None, "no", 400)
        else:
            model = self._upstream.model
            played = faults.script(fault, rng, kind, stream, model, shop.serial, note)
        self._open[request.number] = self._attempt(played, kind, stream, note, odd), played
        return Plan(played.steps)

    def finished(self, request: SeenRequest, answer: Plan) -> None:
        """The play is over."""
        self._write(request, len(answer.steps), left=False)

    def client_left(self, request: SeenRequest, answer: Plan, played: int) -> None:
        """The gateway went away."""
        super().client_left(request, answer, played)
        self._write(request, played, left=True)

    def _oddity(self, request: SeenRequest, kind: str) -> str:
        """Say what is wrong with the request's head and its first members."""
        if not kind or request.method != "POST":
            return f"{request.method} {request.path} is no endpoint"
        if request.credential != scene.PROVIDER_KEY:
            return "the credential is not the upstream's"
        if request.model != self._upstream.model:
            return f"the model {request.model!r} is not the upstream's"
        if request.stream and kind in ("chat", "completions") and not request.include_usage:
            return "the stream's usage was not asked for"
        return ""

    def _attempt(self, played: Script, kind: str, stream: bool, note: Note, odd: str) -> Attempt:
        reply = played.reply
        hides = not note.asked
        return Attempt(
            serial=self._shop.serial,
            mark=note.mark,
            upstream=self._upstream.name,
            kind=kind,
            stream=stream,
            fault=played.fault,
            status=played.status,
            says="no",
            left=False,
            pieces=0,
            total=0 if reply is None else len(reply.pieces),
            sent_bytes=0,
            text_bytes=0,
            crc=0 if reply is None else reply.crc(hides),
            began_at=time.monotonic(),
            ended_at=0.0,
            odd=odd,
        )

    def _write(self, request: SeenRequest, steps: int, left: bool) -> None:
        attempt, played = self._open.pop(request.number)
        attempt.ended_at = time.monotonic()
        attempt.left = left
        reply = played.reply
        if reply is not None:
            pieces = attempt.pieces = played.handed[steps - 1] if steps else 0
            attempt.sent_bytes = sum(len(piece) for piece in reply.pieces[:pieces])
            attempt.text_bytes = pieces * reply.text_bytes
            if reply.usage_at < pieces:
                attempt.says = played.says
        self._shop.book.add(attempt)


def main(arguments: list[str] | None = None) -> None:
    """Listen on a port for each upstream, say so, and serve."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak.provider", description=__doc__)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--book", type=Path, required=True)
    parser.add_argument("--port", action="append", default=[], metavar="UPSTREAM:PORT")
    options = parser.parse_args(arguments)
    from twisted.internet import reactor

    the_reactor: Any = reactor
    shop = Shop(options.seed, Book(options.book), cast(IReactorTime, reactor))
    shy: tuple[SoakProvider, int, IListeningPort] | None = None
    for word in options.port:
        name, _, number = word.partition(":")
        provider = SoakProvider(shop, scene.BY_NAME[name])
        port = the_reactor.listenTCP(int(number), provider, 1024, "127.0.0.1")
        if name == scene.SHY:
            shy = provider, int(number), port

    def hide() -> None:
        assert shy is not None
        shy[2].stopListening()
        the_reactor.callLater(SHY_SECONDS, show)

    def show() -> None:
        nonlocal shy
        assert shy is not None
        shy = shy[0], shy[1], the_reactor.listenTCP(shy[1], shy[0], 1024, "127.0.0.1")
        the_reactor.callLater(SHY_EVERY_SECONDS, hide)

    if shy is not None:
        the_reactor.callLater(SHY_EVERY_SECONDS, hide)
    # After the connections are gone, whose attempts come into the book too.
    the_reactor.addSystemEventTrigger("after", "shutdown", shop.book.close)
    print("ready", flush=True)
    the_reactor.run()


if __name__ == "__main__":
    main()

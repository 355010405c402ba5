"""A fake provider for speed: every answer is prepared bytes, and every request is checked.

It is a program of its own (``python -m bench.provider``), prints its port, and stays until it is
ended. For behaviour, and for all the ways a provider fails, there is
:mod:`omnigate.testing.provider`; this one only ever does the right thing, as cheaply as it can.
"""

import argparse
import re
import time
from collections.abc import Iterable
from typing import Any

from twisted.internet.interfaces import (
    IProtocolNegotiationFactory,
    IReactorTime,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import PrivateCertificate
from zope.interface import implementer

from bench import messages, traffic
from bench.traffic import OddRequestError

# The largest request of the benchmark is 8 MiB; a head is under 2 KiB.
MAX_REQUEST_BYTES = 9 * 1024 * 1024
# Translated requests that were judged and found right: of each kind and size there is one.
_MAX_JUDGED = 16

_REQUEST_LINE = b"POST %b HTTP/1.1\r\n" % traffic.CHAT_PATH.encode("ascii")
_MESSAGES_LINE = b"POST %b HTTP/1.1\r\n" % messages.MESSAGES_PATH.encode("ascii")
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]{1,9})\r\n", re.IGNORECASE)


class Answers:
    """What is answered, and what must be asked.

    :param paced_events: words in a fast paced stream.
    :param key: the credential that a gateway must show.
    :param client_key: what must never come through a gateway.
    :param sizes: of the requests that clients send, in bytes.
    """

    def __init__(
        self, paced_events: int, key: str, client_key: str, sizes: Iterable[tuple[str, int]]
    ) -> None:
        self.paced_events = paced_events
        self._key = f"Bearer {key}".encode("ascii")
        self._other_key = f"x-api-key: {key}\r\n".encode("ascii")
        self._client_key = client_key.encode("ascii")
        self._burst = (traffic.burst_answer(False), traffic.burst_answer(True))
        self._complete = {kind: traffic.whole_answer(kind) for kind in traffic.ANSWER_BYTES}
        self._complete["xwhole"] = messages.whole_answer()
        self._complete["xburst"] = messages.stream_answer()
        self._tails: dict[tuple[str, int], bytes] = {}
        self._turns: dict[tuple[str, int], list[tuple[str, str]]] = {}
        self._judged: dict[bytes, str] = {}
        for kind, size in sizes:
            if kind in traffic.TRANSLATED:
                turns = messages.turns_of(kind, size)
                self._turns[kind, sum(len(text) for _, text in turns)] = turns
                continue
            body = traffic.request_body(kind, size)
            tail = body[traffic.read_model(body)[2] :]
            self._tails[kind, len(tail)] = tail

    def judge(self, head: bytes, body: bytes) -> str:
        """Return which answer is asked for.

        :raises OddRequestError: the request is not what a client of the benchmark wrote.
        """
        if head.startswith(_MESSAGES_LINE):
            return self._judge_translated(head, body)
        if not head.startswith(_REQUEST_LINE):
            raise OddRequestError("the path is another one than the client's")
        kind, through_gateway, end = traffic.read_model(body)
        tail = self._tails.get((kind, len(body) - end))
        if tail is None or not body.endswith(tail):
            raise OddRequestError("the body is not the client's")
        if through_gateway and (self._key not in head or self._client_key in head):
            raise OddRequestError("the credential is not the upstream's")
        return kind

    def _judge_translated(self, head: bytes, body: bytes) -> str:
        """The same of a request in the other protocol; one that came before is known again."""
        if self._other_key not in head or self._client_key in head:
            raise OddRequestError("the credential is not the upstream's")
        kind = self._judged.get(body)
        if kind is None:
            kind = messages.judge_request(body, self._turns)
            if len(self._judged) < _MAX_JUDGED:
                self._judged[body] = kind
        return kind

    def complete(self, kind: str, body: bytes) -> bytes:
        """Return a complete answer of a kind that needs no clock."""
        if kind == "burst":
            return self._burst[traffic.asks_for_usage(body)]
        return self._complete[kind]


class ProviderConnection(Protocol):
    """One connection: takes requests one after the other and answers each."""

    def __init__(self, answers: Answers, clock: IReactorTime) -> None:
        self._answers = answers
        self._clock = clock
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = 0
        self._streaming = False

    def connectionMade(self) -> None:
        """Send what is written at once."""
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)

    def connectionLost(self, reason: object = None) -> None:
        """Stop the stream, if one is under way."""
        self._streaming = False

    def dataReceived(self, data: bytes) -> None:
        """Collect a request; answer it when it is whole."""
        self._pieces.append(data)
        self._have += len(data)
        if self._have < self._need:
            return
        data = b"".join(self._pieces)
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            self._bound(self._have)
            return
        found = _LENGTH.search(data, 0, end)
        if found is None:
            self._refuse("the request has no length")
            return
        self._need = end + int(found[1])
        self._bound(self._need)
        if len(data) > self._need:
            self._refuse("a request came before the answer to the one before it")
        elif len(data) == self._need:
            self._pieces, self._have, self._need = [], 0, 0
            self._answer(data[:end], data[end:])

    def _bound(self, size: int) -> None:
        if size > MAX_REQUEST_BYTES:
            self._refuse("the request is larger than any of the benchmark")

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self.transport is not None
        try:
            kind = self._answers.judge(head, body)
        except OddRequestError as fault:
            self._refuse(str(fault))
            return
        if kind not in traffic.PACES:
            self.transport.write(self._answers.complete(kind, body))
            return
        self._streaming = True
        self.transport.write(traffic.stream_head())
        self._tick(kind, 0, self._clock.seconds(), traffic.asks_for_usage(body))

    def _tick(self, kind: str, index: int, began: float, with_usage: bool) -> None:
        """Send one event of a paced stream; none is sent late because the one before was."""
        if not self._streaming or self.transport is None:
            return
        events = traffic.events_of(kind, self._answers.paced_events)
        if index < events:
            event = traffic.paced_event(index, time.monotonic_ns())
            self.transport.write(traffic.chunk(event))
            due = began + (index + 1) * traffic.PACES[kind]
            pause = max(0.0, due - self._clock.seconds())
            self._clock.callLater(pause, self._tick, kind, index + 1, began, with_usage)
            return
        self._streaming = False
        ending = traffic.stream_end("paced", events, with_usage)
        self.transport.write(traffic.chunks_of(ending) + traffic.LAST_CHUNK)

    def _refuse(self, reason: str) -> None:
        assert self.transport is not None
        self.transport.write(traffic.refusal(reason))
        self.transport.loseConnection()


@implementer(IProtocolNegotiationFactory)
class ProviderFactory(Factory):
    """Makes a connection of each that comes."""

    noisy = False

    def __init__(self, answers: Answers, clock: IReactorTime) -> None:
        self._answers = answers
        self._clock = clock

    def buildProtocol(self, addr: object) -> Protocol:
        """Return one more connection."""
        return ProviderConnection(self._answers, self._clock)

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802
        """What the gateway asks for over TLS."""
        return [b"http/1.1"]


def main(arguments: list[str] | None = None) -> None:
    """Listen on a free port of loopback, print it, and serve."""
    parser = argparse.ArgumentParser(prog="python -m bench.provider", description=__doc__)
    parser.add_argument("--paced-events", type=int, default=100)
    parser.add_argument("--key", default="", help="the credential that a gateway must show")
    parser.add_argument("--client-key", default="-", help="what no gateway may let through")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="KIND:BYTES",
        help="a request that clients send; may be given several times",
    )
    parser.add_argument("--certificate", help="listen on a port with TLS, too; it is printed next")
    options = parser.parse_args(arguments)
    sizes = [(kind, int(size)) for kind, _, size in (word.partition(":") for word in options.size)]
    answers = Answers(options.paced_events, options.key, options.client_key, sizes)
    # The product's own reactor: what the provider saves, the load driver beside it can use.
    from omnigate.protocols.lean_reactor import install

    install()
    from twisted.internet import reactor

    the_reactor: Any = reactor
    factory = ProviderFactory(answers, the_reactor)
    port = the_reactor.listenTCP(0, factory, backlog=1024, interface="127.0.0.1")
    ports = [port.getHost().port]
    if options.certificate:
        with open(options.certificate, encoding="ascii") as file:
            identity = PrivateCertificate.loadPEM(file.read())
        secure = the_reactor.listenSSL(
            0, factory, identity.options(), backlog=1024, interface="127.0.0.1"
        )
        ports.append(secure.getHost().port)
    print(*ports, flush=True)
    the_reactor.run()


if __name__ == "__main__":
    main()

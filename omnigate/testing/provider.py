"""A provider that is none: OpenAI and Anthropic APIs on loopback, with faults to order.

``python -m omnigate.testing.provider --port 0`` prints the port it got and serves until it is
stopped. The request's model says how it is answered (``--list`` shows every phrase; see
:mod:`omnigate.testing.provider_scenario`); a test may hand in a script instead. ``GET /__stats``
tells what was asked of it and what it would bill, ``POST /__reset`` forgets that.

It speaks HTTP/1.1 with a Protocol of its own, since its purpose is to break the rules of one.
"""

import argparse
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import attrs
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IDelayedCall,
    IListeningPort,
    IPushProducer,
    IReactorTCP,
    IReactorTime,
    ITCPTransport,
)
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from omnigate.testing.provider_plan import (
    Close,
    Hang,
    Plan,
    Reset,
    Send,
    Step,
    Wait,
    error_plan,
    plan,
)
from omnigate.testing.provider_reply import to_json
from omnigate.testing.provider_request import BadRequestError, RequestReader, SeenRequest
from omnigate.testing.provider_scenario import (
    PLAIN,
    Scenario,
    UnknownScenarioError,
    scenario_of,
    scenario_table,
)

# A look back for tests; older requests are only counted.
MAX_SEEN = 1000
# A client may pipeline this much behind the request that is being answered.
MAX_PIPELINED_BYTES = 1024 * 1024
# Model names that are counted one by one; the rest go under this name together.
MAX_COUNTED_MODELS = 1000
OTHER_MODELS = "(others)"

# A script answers the requests it knows and leaves the others (None) to their model's scenario.
Script = Callable[[SeenRequest], Plan | Scenario | None]


@attrs.define
class Served:
    """What was asked of one model, and what a real provider would bill for it.

    Tokens count once an answer that reports them has been written to its end.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class FakeProvider(ServerFactory):
    """The provider: makes connections, counts, and keeps the newest requests.

    :ivar seen: the newest requests, oldest first
    :ivar requests: requests since the start or the last reset
    :ivar connections: connections since the start
    :ivar open_connections: connections open now
    :ivar left: answers during which the client went away
    :ivar served: what was served, by model name

    :param clock: for pauses and for ``created``
    :param key: the credential to demand, or None to take any
    :param script: asked before the model name is read
    """

    noisy = False

    def __init__(
        self, clock: IReactorTime, key: str | None = None, script: Script | None = None
    ) -> None:
        self.clock = clock
        self.script = script
        self.connections = 0
        self.open_connections = 0
        self._key = key
        self._numbers = 0
        self.reset()

    def reset(self) -> None:
        """Forget what was seen and counted; connections stay as they are."""
        self.seen: deque[SeenRequest] = deque(maxlen=MAX_SEEN)
        self.requests = 0
        self.left = 0
        self.served: dict[str, Served] = {}

    def listen(
        self, reactor: IReactorTCP, port: int = 0, interface: str = "127.0.0.1"
    ) -> IListeningPort:
        """Listen; the port says under ``getHost().port`` where."""
        return reactor.listenTCP(port, self, interface=interface)

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """Make one connection."""
        self.connections += 1
        self.open_connections += 1
        return ProviderConnection(self, self.connections)

    def next_number(self) -> int:
        """The number of the next request."""
        return self._numbers + 1

    def plan_for(self, request: SeenRequest) -> Plan:
        """Count a request and decide how it is answered."""
        if request.path == "/__stats":
            return self._report(request)
        if request.path == "/__reset":
            self.reset()
            return self._report(request)
        self._numbers += 1
        self.requests += 1
        self.seen.append(request)
        served = self.served_of(request.model)
        served.requests += 1
        if self._key is not None and request.credential != self._key:
            return error_plan(request, 401, "incorrect API key provided")
        answer = self.script(request) if self.script is not None else None
        if isinstance(answer, Plan):
            return answer
        try:
            scenario = scenario_of(request.model) if answer is None else answer
        except UnknownScenarioError as error:
            return error_plan(request, 404, f"the model {request.model!r} is unknown: {error}")
        if scenario.times and served.requests > scenario.times:
            scenario = PLAIN
        return plan(request, scenario, self.clock.seconds())

    def finished(self, request: SeenRequest, answer: Plan) -> None:
        """An answer was written to its end: it counts for the bill."""
        if answer.usage is None:
            return
        served = self.served_of(request.model)
        served.input_tokens += answer.usage.input
        served.cached_input_tokens += answer.usage.cached
        served.cache_write_input_tokens += answer.usage.cache_write
        served.output_tokens += answer.usage.output

    def client_left(self, request: SeenRequest, answer: Plan, played: int) -> None:
        """The client went away during an answer, of which so many steps were begun."""
        self.left += 1

    def served_of(self, model: str) -> Served:
        """The counts of one model name."""
        if model not in self.served and len(self.served) >= MAX_COUNTED_MODELS:
            model = OTHER_MODELS
        return self.served.setdefault(model, Served())

    def _report(self, request: SeenRequest) -> Plan:
        """The counters as JSON."""
        body = to_json(
            {
                "requests": self.requests,
                "connections": self.connections,
                "open_connections": self.open_connections,
                "left": self.left,
                "models": {name: attrs.asdict(row) for name, row in self.served.items()},
            }
        )
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        steps: tuple[Step, ...] = (Send(head % len(body) + body),)
        return Plan((*steps, Close()) if request.wants_close else steps)


@implementer(IPushProducer)
class ProviderConnection(Protocol):
    """One client's connection: reads a request, plays its plan, reads the next.

    It is a push producer towards its own transport, so that a client which does not read stops
    the play instead of filling this process.
    """

    def __init__(self, provider: FakeProvider, number: int) -> None:
        self._provider = provider
        self._reader = RequestReader(number)
        self._request: SeenRequest | None = None
        self._plan = Plan(())
        self._place = 0
        self._paused = False
        self._timer: IDelayedCall | None = None
        self._waiting_bytes = 0
        self._ended = False

    def connectionMade(self) -> None:
        """Ask the transport to say when it is full."""
        cast(IConsumer, self.transport).registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        """Read requests; what comes during an answer waits for its turn."""
        if self._ended:
            return
        self._reader.feed(data)
        if self._request is None:
            self._read_next()
            return
        self._waiting_bytes += len(data)
        if self._waiting_bytes > MAX_PIPELINED_BYTES:
            self._end(reset=True)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Stop the play; it counts as left when it was not over."""
        self._provider.open_connections -= 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._request is not None and not self._ended:
            self._provider.client_left(self._request, self._plan, self._place)
        self._ended = True

    def pauseProducing(self) -> None:
        """The transport is full: hold the play."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The transport has room again."""
        self._paused = False
        self._play()
        self._read_next()

    def stopProducing(self) -> None:
        """The transport is done with us."""
        self._paused = True

    def _read_next(self) -> None:
        """Begin on the next request, if it has come whole."""
        while self._request is None and not self._ended:
            try:
                request = self._reader.next_request(self._provider.next_number())
            except BadRequestError as error:
                self._refuse(error)
                return
            if request is None:
                if self._reader.wants_continue:
                    self._reader.wants_continue = False
                    self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            self._waiting_bytes = 0
            self._request = request
            self._plan = self._provider.plan_for(request)
            self._place = 0
            self._play()

    def _play(self) -> None:
        """Play steps until one waits, the transport is full, or the plan is over."""
        if self._request is None or self._timer is not None:
            return
        steps = self._plan.steps
        while self._place < len(steps) and not self._paused and not self._ended:
            step = steps[self._place]
            self._place += 1
            if isinstance(step, Send):
                self._write(step.data)
            elif isinstance(step, Wait):
                self._timer = self._provider.clock.callLater(step.seconds, self._go_on)
                return
            elif isinstance(step, Hang):
                self._place = len(steps)
                return
            else:
                self._finish_counting()
                self._end(reset=isinstance(step, Reset))
                return
        if self._place >= len(steps) and not self._ended and not self._hangs():
            self._finish_counting()
            self._request = None

    def _go_on(self) -> None:
        """A pause is over."""
        self._timer = None
        self._play()
        self._read_next()

    def _hangs(self) -> bool:
        """Whether the plan ends in silence."""
        return bool(self._plan.steps) and isinstance(self._plan.steps[-1], Hang)

    def _finish_counting(self) -> None:
        """The answer is written: let the provider count it."""
        if self._request is not None:
            self._provider.finished(self._request, self._plan)

    def _refuse(self, error: BadRequestError) -> None:
        """Answer what is no request, and close."""
        body = to_json({"error": {"message": str(error), "type": "invalid_request_error"}})
        head = b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        self._write(head % (error.status, len(body)) + b"connection: close\r\n\r\n" + body)
        self._end(reset=False)

    def _write(self, data: bytes) -> None:
        """Write to the client."""
        assert self.transport is not None
        if data:
            self.transport.write(data)

    def _end(self, *, reset: bool) -> None:
        """End the connection; a reset needs the socket's linger set to nothing."""
        self._ended = True
        cast(IConsumer, self.transport).unregisterProducer()
        transport = cast(ITCPTransport, self.transport)
        if not reset:
            transport.loseConnection()
            return
        handle = transport.getHandle() if hasattr(transport, "getHandle") else None
        if isinstance(handle, socket.socket):
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abortConnection()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a provider until it is stopped; prints its port in a line of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m omnigate.testing.provider",
        description="A fake provider of the OpenAI and Anthropic APIs; for tests and trials only.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--interface", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--key", help="the credential to demand; absent: any is taken")
    parser.add_argument("--list", action="store_true", help="print the scenarios and leave")
    options = parser.parse_args(arguments)
    if options.list:
        rows = [f"  fake-{phrase:24} {meaning}\n" for phrase, meaning in scenario_table()]
        sys.stdout.write("".join(rows))
        return
    from twisted.internet import reactor

    provider = FakeProvider(cast(IReactorTime, reactor), key=options.key)
    port = provider.listen(cast(IReactorTCP, reactor), options.port, options.interface)
    sys.stdout.write(f"{port.getHost().port}\n")  # type: ignore[attr-defined]
    sys.stdout.flush()
    reactor.run()


if __name__ == "__main__":
    main()

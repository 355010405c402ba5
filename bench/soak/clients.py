"""The clients of a soak, one program for all of them: ``python -m bench.soak.clients``.

Each client thinks, asks, reads, and behaves as its draw says, until the time is over; then it ends
what it is at. Written on asyncio and bare sockets: nothing of the product reads its answers here.
"""

import argparse
import asyncio
import contextlib
import random
import socket
import struct
import sys
import time
from collections import Counter
from pathlib import Path

import attrs

from bench.answers import WrongAnswerError
from bench.soak import mix
from bench.soak.books import Asked, Book
from bench.soak.mix import Request
from bench.soak.reader import Answer
from bench.soak.scene import CLIENT_TIMEOUT_SECONDS, STALL_SECONDS

#: The longest that any request may take; a client that waits longer has found a fault.
PATIENCE_SECONDS = 60.0
#: Between two requests of a client, on average.
THINK_SECONDS = 0.7
#: A kept connection is closed by the gateway after its client timeout.
MAX_THINK_SECONDS = 0.5 * CLIENT_TIMEOUT_SECONDS
_READ_BYTES = 256 * 1024
#: Of a client that reads slowly or not at all: small, so that the gateway notices.
_SMALL_BUFFER = 8192
_SLOW_READ = 16 * 1024
_SLOW_PAUSE = 0.01


class Addresses:
    """Addresses of loopback for the clients' ends, each given out once.

    :param first: where to begin; the second to fourth number of the address are counted.
    """

    def __init__(self, first: int) -> None:
        self._next = first

    def take(self) -> str:
        """Return the next one."""
        number = self._next
        self._next += 1
        # Neither .0 nor .255, which some systems keep for themselves.
        rest, last = divmod(number, 250)
        second, third = divmod(rest, 250)
        return f"127.{second + 1}.{third + 1}.{last + 1}"


@attrs.define
class Wire:
    """One connection of a client."""

    address: str
    socket: socket.socket

    async def send(self, data: bytes) -> None:
        """Write everything."""
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def receive(self, size: int = _READ_BYTES) -> bytes:
        """Read something; nothing at the end."""
        return await asyncio.get_running_loop().sock_recv(self.socket, size)

    def ended(self) -> bool:
        """Whether the other side has closed it meanwhile, or said what nobody asked for."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        """Close in order, or with a reset where something was left unread."""
        self.socket.close()

    def reset(self) -> None:
        """Close with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Crowd:
    """All clients: what they share, and what they have written down."""

    def __init__(self, port: int, seed: str, book: Book, first: int, until: float) -> None:
        self._port = port
        self._seed = seed
        self._book = book
        self._marks = first
        self._addresses = Addresses(first)
        self._until = until
        self.asked = 0
        self.faults: Counter[str] = Counter()

    async def run(self, clients: int) -> None:
        """Let so many clients live."""
        await asyncio.gather(*(self._live(number) for number in range(clients)))

    async def _live(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/{number}")
        wire: Wire | None = None
        await asyncio.sleep(rng.uniform(0, 2 * THINK_SECONDS))
        while time.monotonic() < self._until:
            self._marks += 1
            request = mix.draw(rng, self._marks)
            if wire is not None and (request.fresh or wire.ended()):
                wire.close()
                wire = None
            wire = await self._exchange(request, wire, rng)
            await asyncio.sleep(min(MAX_THINK_SECONDS, rng.expovariate(1 / THINK_SECONDS)))
        if wire is not None:
            wire.close()

    async def _exchange(
        self, request: Request, wire: Wire | None, rng: random.Random
    ) -> Wire | None:
        """Send one request, and write down what came of it; the connection if it can be kept."""
        asked = _asked(request)
        answer = Answer()
        keeps = False
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                wire = wire or await self._connect(request.manner)
                asked.address = wire.address
                keeps = await _behave(request, asked, answer, wire, rng)
        except TimeoutError:
            asked.fault = f"nothing came within {PATIENCE_SECONDS:g} s"
        except WrongAnswerError as error:
            asked.fault = str(error)
        except OSError as error:
            if not asked.left_at:
                asked.fault = f"the connection broke: {error}"
        self._write(asked, answer)
        if wire is None or keeps:
            return wire
        with contextlib.suppress(OSError):
            wire.close()
        return None

    def _write(self, asked: Asked, answer: Answer) -> None:
        asked.status = answer.status
        asked.whole = answer.whole
        asked.answer_bytes = answer.size
        asked.id = answer.headers.get("x-omnigate-request-id", "")
        asked.upstream = answer.headers.get("x-omnigate-upstream", "")
        asked.cached = answer.headers.get("x-omnigate-cache") == "hit"
        if answer.status >= 400:
            asked.code = answer.code()
        elif answer.status and answer.whole:
            asked.body_crc = answer.crc()
        asked.ended_at = time.monotonic()
        self.asked += 1
        if asked.fault:
            self.faults[asked.fault[:60]] += 1
        self._book.add(asked)

    async def _connect(self, manner: str) -> Wire:
        address = self._addresses.take()
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if manner in ("slow-reader", "stops-reading"):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
            opened.bind((address, 0))
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", self._port))
        except BaseException:
            opened.close()
            raise
        return Wire(address, opened)


def _asked(request: Request) -> Asked:
    return Asked(
        mark=request.mark,
        kind=request.kind,
        manner=request.manner,
        model=request.model,
        stream=request.stream,
        address="",
        key=request.key,
        lines=request.lines,
        expected=list(request.expected),
        body_bytes=len(request.body),
    )


async def _behave(
    request: Request, asked: Asked, answer: Answer, wire: Wire, rng: random.Random
) -> bool:
    """Send, read, or leave, as the manner is; whether the connection can be kept."""
    manner = request.manner
    if manner in ("half-head", "half-head-silent"):
        asked.lines = 0
        await wire.send(request.head[: len(request.head) // 2])
        return await _go_half_way(asked, answer, wire, manner)
    if manner in ("half-body", "half-body-silent"):
        await wire.send(request.head + request.body[: len(request.body) // 2])
        return await _go_half_way(asked, answer, wire, manner)
    if manner in ("leaves-waiting", "resets-waiting", "leaves-at-once"):
        await wire.send(request.head + request.body)
        asked.sent = True
        if manner != "leaves-at-once":
            await asyncio.sleep(rng.uniform(0, 0.3))
        asked.left_at = time.monotonic()
        # It may be gone before the gateway has looked at it.
        asked.lines = -1
        if manner == "resets-waiting":
            wire.reset()
        else:
            wire.close()
        return False
    try:
        if manner == "expects-continue":
            await wire.send(request.head)
            answer.feed(await wire.receive())
            if not answer.status:
                await wire.send(request.body)
        elif manner == "in-pieces":
            await wire.send(request.head)
            size = len(request.body) // 4 + 1
            for at in range(0, len(request.body), size):
                await asyncio.sleep(0.02)
                await wire.send(request.body[at : at + size])
        else:
            await wire.send(request.head + request.body)
        asked.sent = True
    except OSError:
        # Refused before all of it was sent: the answer is there to be read.
        if request.kind != "too-large":
            raise
    return await _read(request, asked, answer, wire, rng)


async def _go_half_way(asked: Asked, answer: Answer, wire: Wire, manner: str) -> bool:
    """Leave, or say no more until the gateway closes."""
    asked.left_at = time.monotonic()
    if manner.endswith("-silent"):
        async with asyncio.timeout(CLIENT_TIMEOUT_SECONDS + PATIENCE_SECONDS / 2):
            while data := await wire.receive():
                answer.feed(data)
    return False


async def _read(
    request: Request, asked: Asked, answer: Answer, wire: Wire, rng: random.Random
) -> bool:
    """Read the answer, as far and as fast as the manner is."""
    manner = request.manner
    if manner == "half-closes":
        asked.left_at = time.monotonic()
        wire.socket.shutdown(socket.SHUT_WR)
    elif manner == "stops-reading":
        answer.feed(await wire.receive(1024))
        asked.left_at = time.monotonic()
        await asyncio.sleep(2 * STALL_SECONDS + 1)
    leaves = manner in ("leaves-reading", "resets-reading")
    leaves_after = rng.randint(0, 4000)
    while not answer.whole:
        data = await wire.receive(_SLOW_READ if manner == "slow-reader" else _READ_BYTES)
        if not data:
            break
        answer.feed(data)
        if manner == "slow-reader":
            await asyncio.sleep(_SLOW_PAUSE)
        elif leaves and answer.size > leaves_after:
            asked.left_at = time.monotonic()
            if manner == "resets-reading":
                wire.reset()
            else:
                wire.close()
            return False
    if not answer.status and not asked.left_at:
        asked.fault = "the connection ended before the head of the answer"
    # How long a connection has been idle to the gateway is not known where it was read slowly.
    return answer.keeps and manner not in ("slow-reader", "stops-reading")


def main(arguments: list[str] | None = None) -> int:
    """Let the clients live for a time; a line every second tells how many requests there were."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak.clients", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--first", type=int, required=True, help="the first request's number")
    parser.add_argument("--book", type=Path, required=True)
    options = parser.parse_args(arguments)
    book = Book(options.book)
    until = time.monotonic() + options.seconds
    crowd = Crowd(options.port, options.seed, book, options.first, until)

    async def live() -> None:
        telling = asyncio.create_task(_tell(crowd))
        try:
            await crowd.run(options.clients)
        finally:
            telling.cancel()

    try:
        asyncio.run(live())
    finally:
        book.close()
    return 0


async def _tell(crowd: Crowd) -> None:
    while True:
        await asyncio.sleep(1)
        # In one write, which a pipe keeps together.
        sys.stdout.write(f"{crowd.asked} {sum(crowd.faults.values())}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

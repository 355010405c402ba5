"""The load driver: some connections in one thread, each with one request at a time.

Every load ends: at its time, at its count, or when too many answers were wrong.
"""

import select
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import attrs

from bench import certificate
from bench.answers import AnswerReader, Payload, WrongAnswerError

#: Requests of one load at the most: what a fast gateway does in ten times the usual time.
MAX_REQUESTS = 500_000

#: How long the last answers of a load may take, in seconds.
LAST_ANSWERS_SECONDS = 10.0

#: After so many wrong answers there is nothing left to measure.
MAX_BROKEN = 20

_CONNECT_SECONDS = 5.0
_READ_BYTES = 256 * 1024
_MAX_EVENTS = 256
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@attrs.frozen(kw_only=True)
class Load:
    """What to send, and how much of it.

    :ivar request: the bytes of one request.
    :ivar payload: makes what judges one answer.
    :ivar seconds: after which no request begins.
    :ivar each: requests of one connection at the most; ``None`` for as many as there is time for.
    :ivar stagger_seconds: over which the connections' first requests are spread.
    :ivar trusted: the certificate of a gateway behind TLS; ``None`` where there is none.
    """

    port: int
    connections: int
    request: bytes
    payload: Callable[[], Payload]
    seconds: float
    each: int | None = None
    stagger_seconds: float = 0.0
    trusted: Path | None = None


@attrs.define
class LoadResult:
    """What came of a load.

    :ivar answered: right answers.
    :ivar latencies_ns: from the first byte sent to the last byte of the answer, of each of them.
    :ivar broken: wrong answers, and those that did not come.
    :ivar reasons: what was wrong with the first few.
    :ivar seconds: from the first request to the last answer.
    """

    answered: int = 0
    latencies_ns: list[int] = attrs.Factory(list)
    broken: int = 0
    reasons: list[str] = attrs.Factory(list)
    seconds: float = 0.0

    def wrong(self, reason: str) -> None:
        """Count a wrong answer."""
        self.broken += 1
        if len(self.reasons) < 3:
            self.reasons.append(reason)


def run(load: Load) -> LoadResult:
    """Send a load and return what came of it."""
    with _Driver(load) as driver:
        return driver.run()


def connected(port: int, seconds: float, trusted: Path | None) -> socket.socket:
    """Return a connection to a port of loopback, with TLS where there is a certificate to trust.

    :raises OSError: there is none
    """
    opened = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if trusted is None:
        return opened
    context = ssl.create_default_context(cafile=str(trusted))
    try:
        return context.wrap_socket(opened, server_hostname=certificate.HOST)
    except OSError:
        opened.close()
        raise


class _Connection:
    """One connection, and the request under way on it."""

    def __init__(self, port: int, due_ns: int, trusted: Path | None) -> None:
        self.socket = connected(port, _CONNECT_SECONDS, trusted)
        self.socket.setblocking(False)
        self.due_ns = due_ns
        self.began_ns = 0
        self.unsent = memoryview(b"")
        self.watches_writing = False
        self.reader: AnswerReader | None = None
        self.asked = 0


class _Driver:
    """See :func:`run`."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._poll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        self._waiting: list[_Connection] = []  # for their first request, the next one last
        self._result = LoadResult()
        self._asked = 0
        self._under_way = 0
        self._stop_ns = 0

    def __enter__(self) -> "_Driver":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._poll.close()

    def run(self) -> LoadResult:
        """Send until the time is up, then wait for the last answers."""
        load, result = self._load, self._result
        spread = load.stagger_seconds * 1e9 / load.connections
        opened = [self._open(int(index * spread)) for index in range(load.connections)]
        began = time.monotonic_ns()
        for connection in opened:
            connection.due_ns += began
        self._waiting = opened[::-1]
        self._stop_ns = began + int(load.seconds * 1e9)
        give_up_ns = self._stop_ns + int(LAST_ANSWERS_SECONDS * 1e9)
        now = began
        while result.broken < MAX_BROKEN:
            while self._waiting and self._waiting[-1].due_ns <= now:
                self._begin(self._waiting.pop())
            if not self._waiting and not self._under_way:
                break
            if now > give_up_ns:
                break
            until = self._waiting[-1].due_ns if self._waiting else give_up_ns
            self._turn(max(0.0, (until - now) / 1e9) + 0.0005)
            now = time.monotonic_ns()
        result.seconds = (now - began) / 1e9
        if result.broken < MAX_BROKEN:
            for _ in range(self._under_way):
                result.wrong(f"no answer came within {LAST_ANSWERS_SECONDS:.0f} s after the load")
        return result

    def _turn(self, timeout: float) -> None:
        """Wait for what the sockets have to say, and act on it."""
        for fd, events in self._poll.poll(timeout, _MAX_EVENTS):
            connection = self._connections.get(fd)
            if connection is None:
                continue
            if events & select.EPOLLOUT and connection.unsent:
                self._send(connection)
            if events & ~select.EPOLLOUT:
                self._read(connection)

    def _open(self, due_ns: int) -> _Connection:
        connection = _Connection(self._load.port, due_ns, self._load.trusted)
        self._connections[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)
        return connection

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        connection.socket.close()

    def _begin(self, connection: _Connection) -> None:
        """Send the next request, if there is to be one."""
        each = self._load.each
        now = time.monotonic_ns()
        if now >= self._stop_ns or self._asked >= MAX_REQUESTS or connection.asked == each:
            connection.reader = None
            return
        self._asked += 1
        self._under_way += 1
        connection.asked += 1
        connection.began_ns = now
        connection.reader = AnswerReader(self._load.payload())
        connection.unsent = memoryview(self._load.request)
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        unsent = connection.unsent
        try:
            while unsent:
                unsent = unsent[connection.socket.send(unsent) :]
        except _NOT_NOW:
            pass
        except OSError:
            unsent = memoryview(b"")  # what was answered before the end, if anything, is read next
        connection.unsent = unsent
        if bool(unsent) != connection.watches_writing:
            connection.watches_writing = bool(unsent)
            wanted = select.EPOLLIN | (select.EPOLLOUT if unsent else 0)
            self._poll.modify(connection.socket, wanted)

    def _read(self, connection: _Connection) -> None:
        """Read once; with TLS, all that the socket has given up already."""
        self._read_once(connection)
        while (
            isinstance(connection.socket, ssl.SSLSocket)
            and connection.socket.fileno() in self._connections
            and connection.socket.pending()
        ):
            self._read_once(connection)

    def _read_once(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except _NOT_NOW:
            return
        except OSError:
            data = b""
        now = time.monotonic_ns()
        reader = connection.reader
        try:
            if reader is None:
                if data:
                    raise WrongAnswerError("bytes came that nobody had asked for")
                self._close(connection)
                return
            if not data:
                raise reader.lost()
            reader.feed(data, now)
        except WrongAnswerError as error:
            self._result.wrong(str(error))
            self._under_way -= reader is not None
            self._replace(connection)
            return
        if reader.ended:
            self._result.answered += 1
            self._under_way -= 1
            self._result.latencies_ns.append(now - connection.began_ns)
            if reader.keeps:
                self._begin(connection)
            else:
                self._replace(connection)

    def _replace(self, connection: _Connection) -> None:
        """Go on with a new connection in the place of one that cannot be used again."""
        self._close(connection)
        try:
            fresh = self._open(0)
        except OSError as error:
            self._result.wrong(f"no new connection could be opened: {error}")
            return
        fresh.asked = connection.asked
        self._begin(fresh)

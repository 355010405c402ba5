"""Data planes as the control plane sees them: connections that send batches, one at a time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence

import attrs

from bench.ledger.events import Crowd, batches

#: A batch may wait for a sick disk; longer than this it is lost.
ANSWER_SECONDS = 120.0

#: Connections that send at once, as several data planes do.
IN_FLIGHT = 4

#: How often a cheap path is asked meanwhile, in seconds.
PROBE_SECONDS = 0.005

#: Events that are made before they are sent: 40 MB of requests.
_PIECE_EVENTS = 50_000


class WrongAcknowledgementError(Exception):
    """A batch was not answered as it should have been; the text says how."""


@attrs.define
class Sent:
    """What came of a load.

    :ivar seconds: from the first send to the last answer.
    :ivar latencies: of each batch, in seconds.
    """

    seconds: float = 0.0
    recorded: int = 0
    duplicates: int = 0
    latencies: list[float] = attrs.Factory(list)


class Connection:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Send a request and read its answer: status, head and body.

        :raises OSError: the connection broke.
        """
        self._socket.sendall(request)
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head, data = data[:end].lower(), data[end + 4 :]
        status = int(head.split(b" ", 2)[1])
        size = 0
        for line in head.split(b"\r\n")[1:]:
            if line.startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        pieces = [data]
        got = len(data)
        while got < size:
            pieces.append(self._more())
            got += len(pieces[-1])
        data = b"".join(pieces)
        self._rest = data[size:]
        return status, head, data[:size]

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the control plane closed the connection")
        return data

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def send(port: int, requests: Sequence[bytes], in_flight: int = IN_FLIGHT) -> Sent:
    """Send batches over some connections at once, and wait for every answer.

    :raises WrongAcknowledgementError: one was not acknowledged.
    """
    waiting = deque(requests)
    sent = Sent()
    lock = threading.Lock()
    faults: list[str] = []

    def work() -> None:
        try:
            connection = Connection(port)
            while True:
                try:
                    request = waiting.popleft()
                except IndexError:
                    break
                began = time.perf_counter()
                status, _, body = connection.exchange(request)
                took = time.perf_counter() - began
                if status != 200:
                    raise WrongAcknowledgementError(f"a batch got {status}: {body[:300]!r}")
                answer = json.loads(body)
                with lock:
                    sent.latencies.append(took)
                    sent.recorded += answer["recorded"]
                    sent.duplicates += answer["duplicates"]
            connection.close()
        except (OSError, WrongAcknowledgementError) as error:
            faults.append(str(error))
            waiting.clear()

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent.seconds = time.perf_counter() - began
    if faults:
        raise WrongAcknowledgementError("; ".join(faults))
    return sent


def record(port: int, token: str, crowd: Crowd, first: int, count: int) -> None:
    """Record new events with ids from ``first`` on, in pieces that the benchmark can hold.

    :raises WrongAcknowledgementError: some of them were not.
    """
    for at in range(0, count, _PIECE_EVENTS):
        more = min(_PIECE_EVENTS, count - at)
        sent = send(port, batches(crowd, first + at, more, token))
        if sent.recorded != more:
            raise WrongAcknowledgementError(f"of {more} new events {sent.recorded} were recorded")


class Probe:
    """Asks a cheap path again and again, and notes how long each answer took."""

    def __init__(self, port: int) -> None:
        self.latencies: list[float] = []
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection = Connection(self._port)
        request = b"GET /healthz HTTP/1.1\r\nhost: control\r\n\r\n"
        while not self._stop.wait(PROBE_SECONDS):
            began = time.perf_counter()
            connection.exchange(request)
            self.latencies.append(time.perf_counter() - began)
        connection.close()

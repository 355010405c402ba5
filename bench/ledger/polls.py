"""What a poll of the config costs the control plane, with many keys that have budgets."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

from bench.ledger.events import Crowd
from bench.ledger.figures import Figure, median
from bench.ledger.plane import Plane
from bench.ledger.senders import Connection, record

#: What a poll may take when something changed, in milliseconds.
POLL_MS = 50.0

#: Polls that are measured of each kind.
POLLS = 20

#: What an answer leaves to do is done within this time.
_REST_SECONDS = 0.02


def polls(plane: Plane, crowd: Crowd) -> Iterator[Figure]:
    """Yield the processor time of polls, in which nothing changed, and in which something did."""
    part = "polls"
    connection = Connection(plane.port)
    tag = b""

    def exchange(status: int, path: str, condition: bytes = b"") -> tuple[bytes, bytes]:
        head = f"GET {path} HTTP/1.1\r\nhost: control\r\nx-omnigate-internal: {plane.token}\r\n"
        got, answer, body = connection.exchange(head.encode("ascii") + condition + b"\r\n")
        assert got == status, (got, answer)
        return answer, body

    def poll(status: int) -> int:
        nonlocal tag
        condition = b"if-none-match: %b\r\n" % tag if tag else b""
        answer, body = exchange(status, "/internal/config", condition)
        found = re.search(rb'etag: ("[^"]+")', answer)
        assert found is not None, answer
        tag = found[1]
        return len(body)

    def cost(ask: Callable[[], object], before: Callable[[int], None]) -> float:
        costs = []
        for number in range(POLLS):
            before(number)
            time.sleep(_REST_SECONDS)
            began = plane.cpu().total
            ask()
            time.sleep(_REST_SECONDS)
            costs.append((plane.cpu().total - began) * 1e3)
        return median(costs)

    def nothing(_: int) -> None:
        pass

    def recorded(number: int) -> None:
        record(plane.port, plane.token, crowd, 2_000_000_000 + number * 10, 10)

    def one_more_key(number: int) -> None:
        body = json.dumps({"name": f"more-{number}"}).encode("ascii")
        head = (
            "POST /admin/keys HTTP/1.1\r\nhost: control\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {plane.admin_token}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        status, _, answer = connection.exchange(head.encode("ascii") + body)
        assert status == 201, answer

    yield Figure(part, f"a config of {crowd.keys:,} keys", poll(200) / 1e6, "MB")
    yield Figure(part, "nothing changed", cost(lambda: poll(304), nothing), "ms")
    alive = cost(lambda: exchange(200, "/healthz"), nothing)
    yield Figure(part, "/healthz, for comparison", alive, "ms")
    yield Figure(part, "events were recorded", cost(lambda: poll(304), recorded), "ms", POLL_MS)
    yield Figure(part, "a key was made", cost(lambda: poll(200), one_more_key), "ms", POLL_MS)
    connection.close()

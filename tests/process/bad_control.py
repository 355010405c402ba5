"""A hostile peer on the control plane's address, beside a live data plane.

``python -m tests.process.bad_control --seed 1 --rounds 40`` stops the control plane and puts a
server in its place that answers polls and batches wrongly in all ways of the list, a right
acknowledgement now and then, so that the data plane's pause is short again. Held to: requests are
served with the config that is there; no event leaves the spool but by a right acknowledgement;
memory and files stay bounded; the pause is never over its bound; and when the control plane is
back, it gets all that it is owed.
"""

import argparse
import gzip
import http.client
import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from omnigate.gateway.delivery import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from tests.corpus import chunked_attacks
from tests.planes.scenes import END, chunk
from tests.process.bad_answers import CHUNKED, GZIP, HEAD, sized
from tests.process.daemons import (
    INTERNAL_TOKEN,
    SECONDS,
    Gateway,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)
from tests.process.playing import Player, Script

#: What a loaded machine may add to a pause.
LATE_SECONDS = 5.0
#: A snapshot may be as large as its bound while it is read, and is then let go.
MEMORY_BYTES = 64 * 1024 * 1024
#: Badly answered polls that are waited for in each round: they come every 50 ms.
POLLS = 6


def config(provider_port: int) -> str:
    """One key and a good provider."""
    return (
        key_table("app")
        + upstream_table("u1", "openai", provider_port)
        + route_table("small", ("u1", "fake-small"))
    )


def told(recorded: int, duplicates: int = 0, invalid: int = 0) -> bytes:
    """What a control plane says of a batch."""
    return json.dumps({"recorded": recorded, "duplicates": duplicates, "invalid": invalid}).encode()


def transport_crimes() -> dict[str, Script]:
    """Answers that are wrong whatever was asked."""
    size = b"content-length: 2\r\n"
    coded = b"transfer-encoding: chunked\r\n"
    html = b"<html>sign in</html>"
    wires: dict[str, Sequence[bytes | float]] = {
        "nothing": [],
        "garbage": [b"SSH-2.0-OpenSSH_9.9\r\n"],
        "half a head": [HEAD],
        "endless head": [HEAD, *[b"x: y\r\n" * 10_000] * 200],
        "endless line": [HEAD, *[b"x" * 65536] * 200],
        "interim heads": [b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000],
        "length and chunked": [HEAD + size + coded + b"\r\n" + chunk(b"{}") + END],
        "two lengths": [HEAD + size + b"content-length: 3\r\n\r\n{}}"],
        "half a body": [HEAD + b"content-length: 99\r\n\r\n{"],
        "no length": [HEAD + b"\r\n{}"],
        "HTML": [sized(html)],
        "HTML until the end": [HEAD + b"\r\n" + html],
        "redirect": [sized(b"", b"302 Found", b"location: http://127.0.0.1:1/\r\n")],
        "no content": [b"HTTP/1.1 204 None\r\n\r\n"],
        "unchanged": [b"HTTP/1.1 304 Not Modified\r\n\r\n"],
        "an empty object": [sized(b"{}")],
        "a list": [sized(b"[]")],
        "null": [sized(b"null")],
        "nothing whole": [sized(b"")],
        "deep": [sized(b"[" * 100_000)],
        "deep objects": [sized(b'{"a":' * 100_000)],
        "digits": [sized(b'{"version":' + b"9" * 60_000 + b"}")],
        "no UTF-8": [sized(b'{"version":"\xff\xfe"}')],
        "a bomb": [sized(gzip.compress(bytes(300_000_000)), fields=GZIP)],
        "brotli": [sized(b"{}", fields=b"content-encoding: br\r\n")],
        "huge": [HEAD + b"content-length: 1000000000\r\n\r\n", *[b" " * 65536] * 300],
        "huge in chunks": [CHUNKED, *[chunk(b" " * 65536)] * 3000],
        "drip": [piece for byte in sized(b"{}")[:40] for piece in (bytes([byte]), 0.02)],
        **{
            f"status {status}": [sized(b"{}", b"%d No" % status)]
            for status in (201, 400, 401, 403, 404, 405, 413, 422, 429, 500, 502, 503)
        },
        **{f"chunks: {name}": [CHUNKED + wire] for name, wire in chunked_attacks.BODIES.items()},
    }
    return {name: Script(pieces, "close") for name, pieces in wires.items()}


def config_crimes(snapshot: dict[str, Any]) -> dict[str, Script]:
    """Snapshots that are none; each claims to be new."""
    text = json.dumps({**snapshot, "version": "new"})
    changes: dict[str, dict[str, Any]] = {
        "no version": {"version": None},
        "a number for a version": {"version": 7},
        "no keys": {"keys": None},
        "keys of another kind": {"keys": {"a": 1}},
        "a key of another kind": {"keys": [7]},
        "a hash that is none": {"keys": [{**snapshot["keys"][0], "sha256": "zz"}]},
        "the same key twice": {"keys": snapshot["keys"] * 2},
        "a negative limit": {"keys": [{**snapshot["keys"][0], "rpm": -1}]},
        "an upstream twice": {"upstreams": snapshot["upstreams"] * 2},
        "an address that is none": {
            "upstreams": [{**snapshot["upstreams"][0], "base_url": "ftp://a b"}]
        },
        "no upstreams": {"upstreams": []},
        "a route twice": {"routes": snapshot["routes"] * 2},
        "a route without targets": {"routes": [{**snapshot["routes"][0], "targets": []}]},
    }
    bodies = {
        name: json.dumps({**snapshot, "version": "new", **change}).encode()
        for name, change in changes.items()
    }
    bodies["cut"] = text[:-20].encode()
    bodies["twice"] = (text + text).encode()
    bodies["not a number"] = text.replace("[", "[NaN,", 1).encode()
    return {f"config: {name}": Script([sized(body)]) for name, body in bodies.items()}


def acknowledgement_crimes() -> dict[str, Callable[[int], Script]]:
    """Answers to a batch of so many events that do not account for them."""
    return {
        "more than were sent": lambda count: Script([sized(told(count + 1))]),
        "fewer than were sent": lambda count: Script([sized(told(count - 1))]),
        "more and fewer": lambda count: Script([sized(told(count + 5, -5))]),
        "none": lambda count: Script([sized(told(0))]),
        "a huge number": lambda count: Script([sized(told(2**63))]),
        "words": lambda count: Script([sized(b'{"recorded":"%d"}' % count)]),
        "an old kind": lambda count: Script([sized(b'{"recorded":%d}' % count)]),
        "right, but cut": lambda count: Script([sized(told(count))[:-1]], "close"),
        "right, but until the end": lambda count: Script([HEAD + b"\r\n" + told(count)], "close"),
        "right, but an error": lambda count: Script([sized(told(count), b"500 Oops")]),
        "right, but reset": lambda count: Script([sized(told(count))[:-1]], "reset"),
    }


class ControlPlayer(Player):
    """Answers polls and batches as it is told.

    :ivar polled: polls that came.
    :ivar acknowledged: ids of events that were rightly acknowledged.
    :ivar times: when batches came.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.poll = Script([], "close")
        self.batch: Callable[[int], Script] | None = None
        self.polled = 0
        self.batches = 0
        self.acknowledged: list[str] = []
        self.times: list[float] = []
        self._turn = threading.Lock()

    def script_for(self, head: bytes, body: bytes, *, whole: bool) -> Script | None:
        """Choose by the path."""
        if not whole:
            return None
        with self._turn:
            if b" /internal/config " in head:
                self.polled += 1
                return self.poll
            if b" /internal/usage/batch " not in head:
                return Script([sized(b"{}")])
            self.times.append(time.monotonic())
            ids = [event["id"] for event in json.loads(body)["events"]]
            self.batches += 1
            if self.batch is not None:
                return self.batch(len(ids))
            self.acknowledged += ids
            return Script([sized(told(len(ids)))])


class Siege:
    """A data plane whose control plane has been replaced."""

    def __init__(self) -> None:
        self.gateway = Gateway(config)
        self.player: ControlPlayer | None = None
        self.ids: list[str] = []

    def start(self) -> "Siege":
        """Start all, and replace the control plane."""
        self.gateway.start()
        self._ask()
        self.gateway.event(self.ids[0])
        snapshot = self._snapshot()
        assert self.gateway.control is not None
        self.gateway.control.terminate()
        self.gateway.control.wait()
        self.player = ControlPlayer(self.gateway.control_port)
        crimes = transport_crimes()
        self.polls = {**crimes, **config_crimes(snapshot)}
        self.batches: dict[str, Callable[[int], Script]] = {
            name: (lambda count, script=script: script)  # type: ignore[misc]
            for name, script in crimes.items()
        }
        self.batches.update(acknowledgement_crimes())
        return self

    def stop(self) -> None:
        """Stop all."""
        if self.player is not None:
            self.player.close()
        self.gateway.stop()

    def _snapshot(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.control_port)
        connection.request(
            "GET", "/internal/config", headers={"x-omnigate-internal": INTERNAL_TOKEN}
        )
        snapshot: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return snapshot

    def _ask(self) -> None:
        answer = self.gateway.ask("small")
        assert answer.status == 200, (answer.status, answer.body)
        self.ids.append(answer.id)

    def polls_answered(self, rng: random.Random) -> None:
        """Answer some polls wrongly, each in its own way, and ask in between."""
        player = self.player
        assert player is not None
        for name in rng.sample(sorted(self.polls), POLLS):
            seen = player.polled
            player.poll = self.polls[name]
            wait_for(f"a poll, answered with {name}", lambda: player.polled > seen)  # noqa: B023
            self._ask()

    def batch_answered(self, name: str) -> None:
        """Answer a batch wrongly, and then rightly: what waits is still all there is."""
        player = self.player
        assert player is not None
        seen, owed = player.batches, len(player.acknowledged)
        player.batch = self.batches[name]
        self._ask()
        wait_for(f"a batch, answered with {name}", lambda: player.batches > seen)
        self._ask()
        if len(player.acknowledged) != owed:
            raise AssertionError(f"{name} was an acknowledgement")
        player.batch = None
        wait_for(f"the batch again, after {name}", lambda: self._settled(player))

    def _settled(self, player: ControlPlayer) -> bool:
        return set(self.ids[1:]) <= set(player.acknowledged)

    def measure(self) -> tuple[int, int]:
        """Open files and resident bytes of the data plane."""
        assert self.gateway.data is not None
        pid = self.gateway.data.pid
        with open(f"/proc/{pid}/statm") as stream:
            pages = int(stream.read().split()[1])
        return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE")

    def relieve(self) -> None:
        """The control plane comes back, and is told of what nobody acknowledged.

        :raises AssertionError: something was lost, or billed twice, or a pause was wrong.
        """
        player = self.player
        assert player is not None
        player.batch = self.batches["status 503"]
        for _ in range(5):
            self._ask()
        seen = player.batches
        wait_for("another batch", lambda: player.batches > seen)
        player.close()
        self.player = None
        self.gateway.start_control()
        left = set(self.ids) - set(player.acknowledged)

        def recorded() -> bool:
            return left <= {event["id"] for event in self.gateway.ledger()}

        wait_for("all events", recorded, SECONDS)
        events = [event["id"] for event in self.gateway.ledger()]
        if len(events) != len(set(events)) or set(events) & set(player.acknowledged):
            raise AssertionError("an event was delivered again after it was acknowledged")
        wait_for("the spool to be empty", lambda: self.gateway.waiting() == 0)
        gaps = [b - a for a, b in zip(player.times, player.times[1:], strict=False)]
        if max(gaps) > LONGEST_PAUSE_SECONDS + LATE_SECONDS:
            raise AssertionError(f"a pause of {max(gaps):.1f} s")
        assert self.gateway.traces() == [], self.gateway.traces()


def besiege(
    siege: Siege, seed: int, names: Sequence[str], told_of: Callable[[str], object]
) -> None:
    """One round for each way to answer a batch, and then the relief."""
    before = siege.measure()
    begun = time.monotonic()
    for name in names:
        rng = random.Random(f"{seed}/{name}")
        siege.polls_answered(rng)
        siege.batch_answered(name)
        files, memory = siege.measure()
        told_of(f"{name}: {len(siege.ids)} requests, {files} files, {memory >> 20} MiB")
        if memory - before[1] > MEMORY_BYTES:
            raise AssertionError(f"{name}: grown by {(memory - before[1]) >> 20} MiB")
    player = siege.player
    assert player is not None
    # Wrong answers are not met by hammering: at most a few batches to halve one that is refused.
    if player.batches > 12 * (len(names) + (time.monotonic() - begun) / FIRST_PAUSE_SECONDS):
        raise AssertionError(f"{player.batches} batches in {time.monotonic() - begun:.0f} s")
    siege.relieve()
    wait_for("open files to be back", lambda: siege.measure()[0] <= before[0] + 8)


def some_names(siege: Siege, seed: int, count: int) -> list[str]:
    """Ways to answer a batch, each once before any comes again."""
    rng = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        names += rng.sample(sorted(siege.batches), len(siege.batches))
    return names[:count]


def main() -> None:
    """Besiege as long as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=80)
    options = parser.parse_args()
    siege = Siege().start()
    try:
        besiege(siege, options.seed, some_names(siege, options.seed, options.rounds), print)
    finally:
        siege.stop()


if __name__ == "__main__":
    main()

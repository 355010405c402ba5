"""A hostile upstream against a live data plane, for as many rounds as one likes.

``python -m tests.process.bad_upstreams --seed 1 --rounds 20`` plays every crime of the list and
20 rounds of 200 random mutations of good answers. What is held to after each answer stands at
:class:`Judge`; what is held to after each round at :meth:`Court.look_around`.
"""

import argparse
import contextlib
import json
import os
import random
import socket
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from omnigate.text import REDACTED
from tests.planes.reading import Answer, read_answers
from tests.planes.scenes import ANSWER, END, STREAM_HEAD, chunk
from tests.process.bad_answers import (
    CHUNKED,
    EVENTS,
    SECRET,
    Case,
    crime,
    echoes,
    framing_crimes,
    good_answers,
    lying_usage,
    mutation,
    odd_json,
    sized,
    stream_crimes,
    streamed,
)
from tests.process.daemons import (
    SECONDS,
    Gateway,
    free_ports,
    key_of,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)
from tests.process.playing import Player, Script
from tests.process.truth import Truth, data_of_events, read_truth

#: Requests under way at once, and no more are let in: a place that is lost is missed at once.
WORKERS = 16

#: The data plane's patience here. Long enough for a loaded machine's good answers.
IDLE_SECONDS = 1.5
HEAD_SECONDS = 3.0
SETTINGS = {
    "STREAM_IDLE_TIMEOUT_MS": str(int(IDLE_SECONDS * 1000)),
    "HEARTBEAT_MS": "0",
    "MAX_CONCURRENT_PER_KEY": str(WORKERS),
}

#: What is 0 while nothing is under way.
HELD = (
    "omnigate_data_requests_in_flight",
    "omnigate_data_request_memory_bytes",
    "omnigate_data_parse_memory_bytes",
    "omnigate_data_held_answer_bytes",
    "omnigate_data_abandoned_answers",
)

MUTATIONS_A_ROUND = 200
#: More than the interpreter's own heap moves between two looks, and less than any of the answers
#: that are too large to be held.
MEMORY_BYTES = 48 * 1024 * 1024

STRUCK = REDACTED.encode()


#: What an eager player says before it is asked.
EAGER = crime("eager", "", sized(ANSWER), end="keep", model="eager")


class EagerPlayer(Player):
    """Answers before it is asked."""

    greeting = EAGER.script.wire

    def script_for(self, head: bytes, body: bytes, *, whole: bool) -> Script | None:
        """Everything has been said."""
        return Script([], "close")


def config(player_port: int, eager_port: int, spare_port: int) -> str:
    """Routes to the player alone, and to the player with a good provider behind it."""
    upstreams = upstream_table("u1", "openai", player_port)
    upstreams += upstream_table("c1", "anthropic", player_port)
    upstreams = upstreams.replace("cooldown", f"head_timeout_ms = {HEAD_SECONDS:.0f}000\ncooldown")
    return (
        key_table("app")
        + upstreams
        + upstream_table("u2", "openai", spare_port)
        + route_table("alone", ("u1", "played"))
        + route_table("pair", ("u1", "played"), ("u2", "fake-small"))
        + route_table("claude", ("c1", "played"))
        + upstream_table("e1", "openai", eager_port)
        + route_table("eager", ("e1", "played"))
    )


@attrs.define
class Played:
    """A case and what its client got."""

    case: Case
    number: int
    data: bytes
    in_order: bool


class Judge:
    """What every client must find, whatever its upstream did.

    A named error, or an answer that is visibly cut, or the right answer: one that claims to be
    whole is, in every byte or every event, what the upstream's well-framed answer said; one that is
    cut is a beginning of that. The upstream's credential is in none.
    """

    def __init__(self, played: Played) -> None:
        self.played = played
        script = played.case.script
        self.truth = read_truth(script.wire, script.end == "close")

    def judge(self) -> tuple[Answer, list[str]]:
        """The answer, and what is wrong with it."""
        data = self.played.data
        faults = []
        if SECRET in data:
            faults.append("the credential is in it")
        try:
            [answer] = read_answers(data, not self.played.in_order)
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"{self.played.case.name}: no answer: {error!r}") from None
        if SECRET in answer.body:
            faults.append("the credential is in its body")
        by = answer.headers.get(b"x-omnigate-upstream")
        if answer.status >= 400:
            faults += self._error(answer)
        elif by == b"u2":
            if not answer.whole or b'"choices"' not in answer.body:
                faults.append("the good provider's answer is not whole")
        else:
            faults += self._success(answer)
        return answer, faults

    def _error(self, answer: Answer) -> list[str]:
        if not answer.whole:
            return ["an error is cut"]
        try:
            error = json.loads(answer.body)["error"]
            named = isinstance(error["message"], str)
        except (ValueError, TypeError, KeyError):
            named = False
        return [] if named else [f"an error without a name: {answer.body[:200]!r}"]

    def _success(self, answer: Answer) -> list[str]:
        truth = self.truth
        if truth is None:
            return [f"an answer out of nothing: {answer.status} {answer.body[:200]!r}"]
        faults = []
        if answer.status != truth.status:
            faults.append(f"status {answer.status}, not {truth.status}")
        if answer.whole and not truth.whole:
            faults.append("whole, although the upstream's was not")
        faults += self._body(answer, truth)
        return faults

    def _body(self, answer: Answer, truth: Truth) -> list[str]:
        payload = truth.payload.replace(SECRET, STRUCK)
        if truth.headers.get(b"content-type", b"")[:17].lower() == b"text/event-stream":
            got, sent = data_of_events(answer.body), data_of_events(payload)
            if got != sent if answer.whole else got != sent[: len(got)]:
                return [f"other events: {got[-2:]} where {sent[-2:]} were sent"]
        elif answer.body != payload if answer.whole else not payload.startswith(answer.body):
            return [f"another body: {answer.body[:300]!r} where {payload[:300]!r} was sent"]
        return []


class Court:
    """A gateway, a player behind it, and the judging."""

    def __init__(self) -> None:
        played, eager, self._metrics_port = free_ports(3)
        self.player = Player(played)
        self.eager = EagerPlayer(eager)
        listen = f"tcp:{self._metrics_port}:interface=127.0.0.1"
        settings = {**SETTINGS, "DATA_METRICS_LISTEN": listen}
        self.gateway = Gateway(lambda port: config(played, eager, port), settings)
        self._number = 0
        self.exchanges = 0
        self._counted = 0

    def start(self) -> "Court":
        """Start all."""
        self.gateway.start()
        return self

    def stop(self) -> None:
        """Stop all."""
        self.gateway.stop()
        self.player.close()
        self.eager.close()

    def try_all(self, cases: Sequence[Case]) -> None:
        """Play cases, several at once, and judge each and what is left behind by all.

        :raises AssertionError: with everything that was wrong.
        """
        faults: list[str] = []
        with ThreadPoolExecutor(WORKERS) as pool:
            results = list(pool.map(self._try, self._numbered(cases)))
        ids: dict[str, tuple[Played, Answer]] = {}
        for played in results:
            answer, found = Judge(played).judge()
            faults += [f"{played.case.name}: {fault}" for fault in found]
            ids[answer.headers[b"x-omnigate-request-id"].decode()] = (played, answer)
            self.player.scripts.pop(played.number)
        self.exchanges += len(results)
        if len(ids) != len(results):
            faults.append("two exchanges have one id")
        faults += self._look_at_events(ids)
        if faults:
            raise AssertionError("\n".join(faults[:20]) + f"\n({len(faults)} faults)")

    def _numbered(self, cases: Sequence[Case]) -> list[tuple[int, Case]]:
        numbered = []
        for case in cases:
            self._number += 1
            self.player.scripts[self._number] = case.script
            numbered.append((self._number, case))
        return numbered

    def _try(self, numbered: tuple[int, Case]) -> Played:
        number, case = numbered
        asked: dict[str, Any] = {
            "model": case.model,
            "messages": [{"role": "user", "content": f"<{number}>"}],
            "max_tokens": 99,
        }
        if case.stream:
            asked["stream"] = True
            if case.model != "claude":
                asked["stream_options"] = {"include_usage": True}
        path = "/v1/messages" if case.model == "claude" else "/v1/chat/completions"
        body = json.dumps(asked).encode()
        request = (
            f"POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key_of('app')}\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        data, in_order = exchange(self.gateway.data_port, request + body)
        return Played(case, number, data, in_order)

    def _look_at_events(self, ids: dict[str, tuple[Played, Answer]]) -> list[str]:
        """Exactly one usage event for each exchange, and figures that can be."""

        def recorded() -> list[dict[str, Any]] | None:
            events = self.gateway.ledger()
            return events if len(events) >= self._counted + len(ids) else None

        events = wait_for("the usage events", recorded)[self._counted :]
        self._counted += len(events)
        faults = []
        if sorted(event["id"] for event in events) != sorted(ids):
            faults.append(f"{len(events)} events of {len(ids)} exchanges, or of others")
        for event in events:
            if event["id"] in ids:
                played, answer = ids[event["id"]]
                faults += [f"{played.case.name}: {f}" for f in event_faults(event, played, answer)]
        return faults

    def look_around(self) -> None:
        """It still serves as many at once as one key may have: no place is lost; no traceback."""
        half = len(sized(ANSWER)) - 9
        whole = sized(ANSWER)
        case = crime("still serving", "ok", whole[:half], 0.3, whole[half:], end="keep")
        self.try_all([attrs.evolve(case, usage=(9, 3))] * WORKERS)
        assert self.gateway.traces() == [], self.gateway.traces()
        for name in HELD:
            if (held := self.figure(name)) != 0:
                raise AssertionError(f"{name} is {held:g}")

    def figure(self, name: str) -> float:
        """A figure of the data plane, asked for now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as answer:
            text = answer.read().decode()
        [found] = [line for line in text.splitlines() if line.startswith(name + " ")]
        return float(found.split()[1])

    def measure(self) -> tuple[int, int]:
        """Open files and resident bytes of the data plane."""
        assert self.gateway.data is not None
        pid = self.gateway.data.pid
        with open(f"/proc/{pid}/statm") as stream:
            pages = int(stream.read().split()[1])
        return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE")


def exchange(port: int, request: bytes) -> tuple[bytes, bool]:
    """Send a request on a connection of its own.

    :returns: all that came, and whether the connection then ended in order.
    """
    pieces = []
    with socket.create_connection(("127.0.0.1", port), SECONDS) as opened:
        opened.sendall(request)
        with contextlib.suppress(ConnectionResetError):
            while piece := opened.recv(65536):
                pieces.append(piece)
            return b"".join(pieces), True
    return b"".join(pieces), False


def event_faults(event: dict[str, Any], played: Played, answer: Answer) -> list[str]:
    """What is wrong with a usage event, seen beside the answer."""
    faults = []
    case = played.case
    if event["status"] != (answer.status if answer.whole else 499):
        faults.append(f"status {event['status']} of {answer.status}, whole: {answer.whole}")
    outcomes = [attempt["outcome"] for attempt in event["attempts"]]
    if case.allowed and outcomes[0] not in case.allowed:
        faults.append(f"outcome {outcomes[0]}, not {' or '.join(sorted(case.allowed))}")
    figures = [event[name] for name in event if name.endswith("_tokens")]
    if len(figures) != 4 or not all(0 <= figure < 1 << 40 for figure in figures):
        faults.append(f"figures {figures}")
    if event["status"] < 400 and outcomes[-1] != "ok":
        faults.append(f"success after {outcomes}")
    if case.usage is not None and (event["input_tokens"], event["output_tokens"]) != case.usage:
        faults.append(f"{event['input_tokens']} and {event['output_tokens']} tokens billed")
    if 777777 in figures:
        faults.append("a decoy is billed")
    return faults


def smuggling(court: Court) -> None:
    """What stands behind an answer is nobody's answer, however long its connection was kept."""
    extra = sized(ANSWER.replace(b"Hello", b"smuggled"))
    short, stream = sized(ANSWER), streamed(*EVENTS)
    for pieces in (
        (short + extra,),
        (short, 0.05, extra),
        (stream + extra,),
        (stream, 0.05, extra),
        (CHUNKED + chunk(ANSWER) + END + b"\r\n", 0.05, extra),
        (b"HTTP/1.1 204 None\r\ncontent-length: 9\r\n\r\n", extra),
        (b"HTTP/1.1 304 Not\r\ntransfer-encoding: chunked\r\n\r\n", extra),
    ):
        streams = pieces[0] != short and pieces[0].startswith(STREAM_HEAD)
        court.try_all([crime("smuggler", "", *pieces, end="keep", stream=streams)])
        time.sleep(0.1)
        after = [crime("behind a smuggler", "ok", short, end="keep", usage=(9, 3))] * 2
        court.try_all(after)


def play_list(court: Court) -> None:
    """Every crime of the list, as often as it has a kind of route."""
    early = [
        crime("early", "ok bad_framing", sized(ANSWER), early=True),
        crime("early and closed", "ok truncated connection_lost", sized(ANSWER), early=True),
    ]
    lists = (framing_crimes, stream_crimes, odd_json, lying_usage, echoes)
    court.try_all([case for made in lists for case in made()] + early)
    court.try_all([EAGER] * 8)
    smuggling(court)
    court.look_around()


def play_rounds(court: Court, seed: int, rounds: int, told: Callable[[str], object]) -> None:
    """Rounds of mutations, each from a seed of its own; the first warms up what is measured."""
    good = good_answers()
    before = court.measure()
    for number in range(rounds):
        rng = random.Random(f"{seed}/{number}")
        court.try_all(
            [mutation(rng, good, f"{seed}/{number}/{n}") for n in range(MUTATIONS_A_ROUND)]
        )
        court.look_around()
        files, memory = court.measure()
        told(f"round {number}: {court.exchanges} exchanges, {files} files, {memory >> 20} MiB")
        if number == 0:
            before = (files, memory)
    wait_for("open files to be back", lambda: court.measure()[0] <= before[0] + 2 * WORKERS)
    grown = court.measure()[1] - before[1]
    if grown > MEMORY_BYTES:
        raise AssertionError(f"the data plane has grown by {grown >> 20} MiB")


def main() -> None:
    """Play as much as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    court = Court().start()
    try:
        play_list(court)
        play_rounds(court, options.seed, options.rounds, print)
    finally:
        court.stop()


if __name__ == "__main__":
    main()

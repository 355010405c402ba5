"""A hostile client against a live gateway: seeded attacks, many at once, and books that balance.

``python -m tests.process.hostile_client --seconds 600 --seed 7`` starts a gateway with a fake
provider and attacks it in rounds. After each round sound requests must be answered right. At the
end every place and every byte of memory must have been given back, and the ledger must hold what
the provider served. An attack that was answered wrongly is printed with the arguments that play it
again, alone.
"""

import argparse
import http.client
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from omnigate.errors import ERRORS
from tests.gateway.scraping import Samples, samples_of, total
from tests.process.daemons import (
    PROVIDER_KEY,
    SECONDS,
    Answer,
    Gateway,
    events_of,
    free_ports,
    key_of,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)
from tests.process.hostile_manners import Played, manner, play
from tests.process.hostile_requests import ANY, SILENCE, attack
from tests.process.raw import BadAnswerError, RawAnswer, answers_in

#: Of the data plane here: what a client may take for a request, and how long it may take nothing.
CLIENT_TIMEOUT_MS = 1000
SETTINGS = {
    "CLIENT_TIMEOUT_MS": str(CLIENT_TIMEOUT_MS),
    "CLIENT_STALL_TIMEOUT_MS": "1000",
}

#: Attacks in a round, and of them at once.
ATTACKS = 400
AT_ONCE = 48

#: By how much the data plane may have grown since its first round, in bytes.
#: Seven MiB were seen after ten thousand attacks; a leak of one request's body would be more.
RSS_ALLOWANCE = 24 * 1024 * 1024
#: Open files that may come and go beside connections: the control plane's, a scrape's.
FILES_ALLOWANCE = 4

#: Faults told of one round; the rest are mostly the same.
_FAULTS_TOLD = 10
#: Statuses that are not those of their code's row, because HTTP itself demands them.
_BY_HTTP = {
    (414, "invalid_path"),
    (426, "endpoint_not_supported"),
    (501, "method_not_allowed"),
    (505, "invalid_request"),
}
#: Statuses of heads that are refused before there is an id.
_WITHOUT_ID = (400, 411, 414, 417, 505)
#: What must be 0 in the end.
_GAUGES = (
    "omnigate_data_requests_in_flight",
    "omnigate_data_request_memory_bytes",
    "omnigate_data_parse_memory_bytes",
    "omnigate_data_abandoned_answers",
    "omnigate_data_client_connections",
)
#: What no answer may hold.
_SECRETS = (PROVIDER_KEY.encode(), key_of("app").encode())
#: What a well-behaved client asks after each round: the model, and whether for a stream.
_SOUND = (("small", False), ("small", True), ("large", False), ("claude", False), ("claude", True))


def config(provider_port: int) -> str:
    """One key, both protocols, a cache, and streams that are long in time or in bytes."""
    cached = route_table("cached", ("openai", "fake-small"))
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + upstream_table("anthropic", "anthropic", provider_port)
        + route_table("small", ("openai", "fake-small"))
        + route_table("paced", ("openai", "fake-words-40-paced-20"))
        + route_table("large", ("openai", "fake-words-4000"))
        + route_table("claude", ("anthropic", "fake-small"))
        + cached.replace('"cached"', '"cached"\ncache_ttl_s = 1', 1)
    )


class HostileError(AssertionError):
    """The gateway did something that it must not."""


@attrs.define
class Run:
    """Rounds of attacks on one gateway.

    :ivar metrics_port: where the data plane tells its figures.
    :ivar statuses: of the first answers so far, 0 where there was none.
    :ivar grown: by how many bytes the data plane was larger at the end than after its first round.
    """

    gateway: Gateway
    metrics_port: int
    seed: int
    attacks: int = ATTACKS
    at_once: int = AT_ONCE
    statuses: Counter[int] = attrs.field(factory=Counter)
    grown: int = 0
    _refused: Counter[str] = attrs.field(factory=Counter)
    _ids: set[str] = attrs.field(factory=set)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _right: list[str] = attrs.field(factory=list)
    _files: int = 0
    _resident: int = 0

    # -- one attack

    def single(self, number: int, index: int) -> str:
        """Play one attack; what was wrong with its answers, or nothing."""
        rng = random.Random(f"{self.seed}:{number}:{index}")
        what, how = attack(rng), manner(rng)
        try:
            fault = self._judge(play(rng, how, self.gateway.data_port, what))
        except (BadAnswerError, OSError, ValueError) as error:
            fault = f"{type(error).__name__}: {error}"
        if not fault:
            return ""
        sent = what.sent
        if len(sent) > 1000:
            sent = sent[:700] + b" ... " + sent[-200:]
        again = f"--seed {self.seed} --only {number}:{index}"
        return f"{what.name}, {how.__name__}: {fault}\n  again with: {again}\n  sent {sent!r}"

    def _judge(self, played: Played) -> str:
        if any(word in played.data for word in _SECRETS):
            return "a secret stands in the answer"
        answers = answers_in(played.data, played.methods)
        for answer in answers:
            fault = self._judge_answer(answer)
            if fault:
                return fault
        if not played.to_the_end:
            return ""
        first = answers[played.before].status if len(answers) > played.before else SILENCE
        with self._lock:
            self.statuses[first] += 1
        allowed = played.statuses
        if played.seconds > CLIENT_TIMEOUT_MS / 2000:
            # It took long enough to be cut off in the middle.
            allowed |= {SILENCE}
        sound = all(answer.status == 200 for answer in answers[: played.before])
        if not sound or first not in allowed:
            statuses = [answer.status for answer in answers]
            return f"answered {statuses}, {played.before} before, allowed {sorted(allowed)}"
        return _judge_end(answers, played)

    def _judge_answer(self, answer: RawAnswer) -> str:
        """One answer for itself."""
        if answer.status not in ANY:
            return f"answered {answer.status}: {answer.body[:300]!r}"
        request_id = answer.headers.get("x-omnigate-request-id")
        if request_id is None:
            if answer.status not in _WITHOUT_ID or not answer.closes:
                return f"{answer.status} without an id"
        else:
            with self._lock:
                if request_id in self._ids:
                    return f"the id {request_id} is there twice"
                self._ids.add(request_id)
        own = answer.status >= 400 and "x-omnigate-upstream" not in answer.headers
        if own and answer.whole and answer.body:
            kind = ERRORS.get(answer.code)
            as_told = kind is not None and kind.status == answer.status
            if not as_told and (answer.status, answer.code) not in _BY_HTTP:
                return f"{answer.status} has the code {answer.code!r}"
            with self._lock:
                self._refused[answer.code] += 1
        return ""

    # -- rounds

    def begin(self) -> None:
        """Learn what is right, and warm up."""
        self._right = [self._sound(model, stream) for model, stream in _SOUND]
        self.round(0)
        self._wait_idle()
        self._files, self._resident = self._held()

    def round(self, number: int) -> None:
        """Play a round of attacks, and see that the gateway serves as before.

        :raises HostileError: it does not, or an attack was answered wrongly.
        """
        with ThreadPoolExecutor(self.at_once) as pool:
            told = pool.map(lambda index: self.single(number, index), range(self.attacks))
        faults = [fault for fault in told if fault]
        for (model, stream), right in zip(_SOUND, self._right, strict=True):
            got = self._sound(model, stream)
            if got != right:
                faults.append(f"after round {number} {model} was answered {got}, not {right}")
        faults += self.gateway.traces()
        if faults:
            raise HostileError("\n".join(faults[:_FAULTS_TOLD]))

    def _sound(self, model: str, stream: bool) -> str:
        """What a well-behaved client is told."""
        if model == "claude":
            turns = [{"role": "user", "content": "Hello"}]
            asked = {"model": model, "max_tokens": 50, "stream": stream, "messages": turns}
            answer = self.gateway.post("/v1/messages", asked, key_of("app"))
        else:
            answer = self.gateway.ask(model, stream)
        if answer.status != 200 or not answer.whole:
            return f"{answer.status} {answer.body[:300]!r}"
        return _text(answer, stream)

    # -- the end

    def settle(self) -> None:
        """See that everything was given back, and that the books balance.

        :raises AssertionError: they do not.
        """
        self._wait_idle()
        files, resident = self._held()
        if files > self._files + FILES_ALLOWANCE:
            raise HostileError(f"{files} files are open that are no connections, not {self._files}")
        self.grown = resident - self._resident
        if self.grown > RSS_ALLOWANCE:
            raise HostileError(f"resident memory grew from {self._resident} to {resident} bytes")
        self._balance()

    def _wait_idle(self) -> None:
        """Wait until nobody is served any more, not even those who left."""
        wait_for("gauges at zero", self._at_zero)
        wait_for("an empty spool", lambda: self.gateway.waiting() == 0)

    def _at_zero(self) -> bool:
        samples = self.samples()
        return all(samples[gauge, frozenset()] == 0 for gauge in _GAUGES)

    def samples(self) -> Samples:
        """What the data plane tells of itself now."""
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=SECONDS)
        try:
            connection.request("GET", "/metrics")
            return samples_of(connection.getresponse().read())
        finally:
            connection.close()

    def _held(self) -> tuple[int, int]:
        """Files that are open beside connections to the provider, and resident bytes."""
        assert self.gateway.data is not None
        process = Path("/proc") / str(self.gateway.data.pid)
        pages = int((process / "statm").read_text().split()[1])
        upstream = int(total(self.samples(), "omnigate_data_upstream_connections"))
        return len(os.listdir(process / "fd")) - upstream, pages * os.sysconf("SC_PAGESIZE")

    def _balance(self) -> None:
        """Hold the ledger against what the provider served."""
        served = self.gateway.served()
        ledger = [event for event in self.gateway.ledger() if not event["cached"]]
        if len({event["id"] for event in ledger}) != len(ledger):
            raise HostileError("an event is recorded twice")
        # Of one who leaves while a connection is being opened the provider has not heard.
        canceled = [event for event in ledger if event["attempts"][-1]["outcome"] == "canceled"]
        if not len(ledger) - len(canceled) <= served["requests"] <= len(ledger):
            raise HostileError(f"{served['requests']} requests served, {len(ledger)} recorded")
        for field in ("input_tokens", "output_tokens"):
            billed = sum(row[field] for row in served["models"].values())
            recorded = sum(event[field] for event in ledger)
            if recorded != billed and not canceled:
                raise HostileError(f"{billed} {field} served, {recorded} recorded")
        samples = self.samples()
        for code, seen in self._refused.items():
            counted = total(samples, "omnigate_data_refusals_total", reason=code)
            if counted < seen:
                raise HostileError(f"{seen} answers had the code {code}, {counted} are counted")


def started(seed: int, attacks: int = ATTACKS, at_once: int = AT_ONCE) -> Run:
    """Attacks on a gateway that is started for them; the caller stops it."""
    [port] = free_ports(1)
    listen = f"tcp:{port}:interface=127.0.0.1"
    gateway = Gateway(config, {**SETTINGS, "DATA_METRICS_LISTEN": listen}).start()
    return Run(gateway, port, seed, attacks, at_once)


def _text(answer: Answer, stream: bool) -> str:
    """The words of an answer in either protocol."""
    if stream:
        text = ""
        for event in events_of(answer.body):
            delta = (event.get("choices") or [event])[0].get("delta", {})
            text += delta.get("content") or delta.get("text") or ""
        return text
    value = answer.json
    if "content" in value:
        return str(value["content"][0]["text"])
    return str(value["choices"][0]["message"]["content"])


def _judge_end(answers: Sequence[RawAnswer], played: Played) -> str:
    """How the connection ended."""
    if not answers or played.left:
        return ""
    if any(answer.closes for answer in answers[:-1]):
        return "an answer follows the last one"
    if not all(answer.whole for answer in answers):
        return "an answer is not whole"
    if not answers[-1].closes and played.seconds < 0.9 * CLIENT_TIMEOUT_MS / 1000:
        return "the connection was closed and the last answer did not say so"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Run the program; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="hostile_client")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=60, help="begin no round after these")
    parser.add_argument("--rounds", type=int, default=10**9, help="rounds after the first one")
    parser.add_argument("--attacks", type=int, default=ATTACKS, help="attacks in a round")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--only", metavar="ROUND:INDEX", help="play this attack alone")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    run = started(options.seed, options.attacks, options.at_once)
    number = 0
    try:
        if options.only:
            fault = run.single(*map(int, options.only.split(":")))
            print(fault or "answered as it must be")
            return int(bool(fault))
        end = time.monotonic() + options.seconds
        run.begin()
        while number < options.rounds and time.monotonic() < end:
            number += 1
            run.round(number)
        run.settle()
    except AssertionError as error:
        print(error)
        return 1
    finally:
        run.gateway.stop(orderly=False)
    print(f"{(number + 1) * options.attacks} attacks; statuses {dict(run.statuses)}")
    print(f"resident memory grew by {run.grown / 1024**2:.1f} MiB after the first round")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

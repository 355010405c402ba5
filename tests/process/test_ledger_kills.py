"""``kill -9`` of either plane at moments nobody chose, many times, and then the sums.

``make kills`` kills 200 times, ``make kills ARGS=1000`` as often as that, which takes one or two
seconds each; the ordinary run kills for about half a minute.
"""

import itertools
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    Answer,
    Daemon,
    Gateway,
    cost_of,
    events_of,
    key_of,
    key_table,
    route_table,
    upstream_table,
    verify_ledger,
    wait_for,
)
from tests.process.hasty import PROGRAM

#: How often a plane is killed; each takes a second, since whatever is killed starts again.
KILLS = int(os.environ.get("OMNIGATE_TEST_KILLS") or 20)
CLIENTS = 4

MODELS = {"small": "fake-small", "words": "fake-words-40", "paced": "fake-words-10-paced-5"}
KEYS = ("one", "two", "three")

#: At what moment the next kill comes, and how often each is taken.
MOMENTS = {"any": 7, "snapshot": 5, "sealing": 4, "start": 4, "data": 3, "both": 2}

#: Events that are sent again after a kill, and skipped: those of a batch that was not acknowledged,
#: and after one of the data plane what its spool still holds of delivered ones, which is 1 MiB.
RESENT_BY_CONTROL = 500
RESENT_BY_DATA = 3_000

#: A moment that does not come is not waited for longer than this.
MOMENT_SECONDS = 2.0


class HastyGateway(Gateway):
    """A gateway whose ledger seals and snapshots all the time, on a slow disk."""

    def command(self, plane: str) -> Sequence[str]:
        """The command of a plane."""
        command = list(super().command(plane))
        if plane == "control":
            command[2] = PROGRAM
        return command


def config(provider_port: int) -> str:
    """Some keys, one provider, several models."""
    keys = [key_table(name) for name in KEYS]
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return "".join([*keys, upstream_table("openai", "openai", provider_port), *routes])


@attrs.frozen
class Whole:
    """An answer that came whole: its request's id, and what the provider said that it used."""

    id: str
    key: str
    tokens: tuple[int, int]


class Clients:
    """Clients that ask without a pause, each request with a prompt of its own length."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(CLIENTS)
        ]
        self.whole: list[Whole] = []
        #: Requests whose answer broke off, or of which nothing is known.
        self.cut = 0
        self.faults: list[str] = []

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait(self, seconds: float) -> None:
        """Let them ask for a while."""
        self._stopping.wait(seconds)

    def _run(self, number: int) -> None:
        turn = number
        # The pause leaves the daemons some of the machine.
        while not self._stopping.wait(0.02):
            turn += CLIENTS
            key = KEYS[turn % len(KEYS)]
            model, stream = list(MODELS)[turn % len(MODELS)], turn % 2 == 1
            asked: dict[str, Any] = {
                "model": model,
                "messages": [{"role": "user", "content": "word " * (1 + turn % 97)}],
            }
            if stream:
                asked |= {"stream": True, "stream_options": {"include_usage": True}}
            try:
                answer = self._gateway.post("/v1/chat/completions", asked, key_of(key))
            except ConnectionRefusedError:
                self._stopping.wait(0.02)
                continue
            except OSError:
                with self._lock:
                    self.cut += 1
                continue
            self._note(answer, key, stream)

    def _note(self, answer: Answer, key: str, stream: bool) -> None:
        with self._lock:
            if answer.status != 200:
                self.faults.append(f"{answer.status}: {answer.body[:200]!r}")
            elif not answer.whole:
                self.cut += 1
            else:
                usage = (events_of(answer.body)[-1] if stream else answer.json)["usage"]
                tokens = (usage["prompt_tokens"], usage["completion_tokens"])
                self.whole.append(Whole(answer.id, key, tokens))


class LedgerKillTests(SynchronousTestCase):
    """The sums after many kills of real processes."""

    def setUp(self) -> None:
        self.seed = int(os.environ.get("OMNIGATE_TEST_SEED") or random.randrange(1 << 32))
        self.random = random.Random(self.seed)
        self.gateway = HastyGateway(config)
        self.addCleanup(self.gateway.stop)
        self.gateway.start()
        self.state = self.gateway.folder / "control"
        #: What each kill found.
        self.found: Counter[str] = Counter()
        #: Duplicates that the control planes skipped, as far as they lived to tell.
        self.duplicates = 0

    @property
    def control(self) -> Daemon:
        assert self.gateway.control is not None
        return self.gateway.control

    @property
    def data(self) -> Daemon:
        assert self.gateway.data is not None
        return self.gateway.data

    def test_sums(self) -> None:
        """Nothing that was answered is missing, nothing counts twice, and the files are in order.

        The seed is in every failure; ``OMNIGATE_TEST_SEED`` takes it again, though not the
        machine's own moments.
        """
        with Clients(self.gateway) as clients:
            for moment in self.moments():
                clients.wait(self.random.random() * 0.4)
                self.kill(moment)
            clients.wait(0.3)
        told = f"seed {self.seed}; {dict(self.found)}"
        self.assertEqual(clients.faults, [], told)
        self.settle(clients, told)
        self.judge_duplicates(told)
        before = self.totals()
        verify_ledger(self.state / "ledger.jsonl")
        # All of it again out of the files alone.
        self.control.kill()
        self.gateway.start_control()
        self.assertEqual(self.totals(), before, told)
        if "OMNIGATE_TEST_KILLS" in os.environ:
            sent = f"{len(clients.whole)} answers whole, {clients.cut} cut"
            print(f"\n{KILLS} kills, {sent}; {told}; duplicates {self.duplicates}")

    # -- killing

    def moments(self) -> list[str]:
        """At which moments to kill, in an order that nobody chose."""
        each = [moment for moment, often in MOMENTS.items() for _ in range(often)]
        rounds = [self.random.sample(each, len(each)) for _ in range(KILLS // len(each) + 1)]
        return list(itertools.chain(*rounds))[:KILLS]

    def kill(self, moment: str) -> None:
        """Kill at a moment of this kind, and start again what was killed."""
        if moment != "data":
            self.duplicates += self.metric("duplicate_events")
        if moment == "data":
            self.data.kill()
            self.gateway.start_data()
        elif moment == "both":
            self.control.kill()
            self.look()
            self.data.kill()
            self.gateway.start_data()
            self.gateway.start_control()
        else:
            if moment == "snapshot":
                self.wait_moment(lambda: (self.state / "ledger.snapshot.tmp").exists())
            elif moment == "sealing":
                sealed = self.sealed()
                self.wait_moment(lambda: self.sealed() != sealed)
            self.control.kill()
            self.look()
            if moment == "start":
                started = self.gateway.spawn("control")
                time.sleep(self.random.random())
                started.kill()
                self.look()
            self.gateway.start_control()
        self.found[f"at {moment}"] += 1

    def wait_moment(self, here: Callable[[], bool]) -> None:
        """Wait for a moment, and a little longer."""
        end = time.monotonic() + MOMENT_SECONDS
        while not here() and time.monotonic() < end:
            time.sleep(0.0002)
        time.sleep(self.random.random() * 0.008)

    def sealed(self) -> list[str]:
        return sorted(path.name for path in self.state.glob("ledger.0*.jsonl"))

    def look(self) -> None:
        """Count what a kill has left."""
        active = self.state / "ledger.jsonl"
        if (self.state / "ledger.snapshot.tmp").exists():
            self.found["a snapshot half written"] += 1
        if (self.state / "ledger.snapshot.prev").exists() and not (
            self.state / "ledger.snapshot"
        ).exists():
            self.found["between the renames of a snapshot"] += 1
        if not active.exists():
            self.found["between the halves of sealing"] += 1
        elif not active.read_bytes().endswith(b"\n") and active.stat().st_size:
            self.found["a torn line"] += 1

    # -- judging

    def settle(self, clients: Clients, told: str) -> None:
        """Wait until nothing waits any more, and hold the ledger to what was answered."""
        wait_for("the spool to be empty", lambda: self.gateway.waiting() == 0)
        events = self.gateway.ledger()
        by_id = {event["id"]: event for event in events}
        self.assertEqual(len(by_id), len(events), told)
        answered: Counter[str] = Counter()
        for whole in clients.whole:
            event = by_id.pop(whole.id, None)
            assert event is not None, f"{whole.id} is not recorded; {told}"
            tokens = (event["input_tokens"], event["output_tokens"])
            self.assertEqual((event["status"], event["estimated"]), (200, False), told)
            self.assertEqual(tokens, whole.tokens, told)
            answered["input_tokens"] += tokens[0]
            answered["output_tokens"] += tokens[1]
        # What else is recorded are requests that the client saw broken off.
        self.assertLessEqual(len(by_id), clients.cut, told)
        self.assertGreater(len(clients.whole), KILLS, told)
        self.judge_sums(events, list(by_id.values()), answered, told)

    def judge_sums(
        self,
        events: list[dict[str, Any]],
        cut: list[dict[str, Any]],
        answered: Counter[str],
        told: str,
    ) -> None:
        """Hold the sums of provider, answers, ledger and control plane to each other."""
        served = self.gateway.served()["models"].values()
        cost = sum((event["cost_usd"] for event in events), Decimal(0))
        self.assertEqual(cost, sum((cost_of(event) for event in events), Decimal(0)), told)
        rows = self.totals()
        for name in ("input_tokens", "output_tokens"):
            recorded = sum(event[name] for event in events)
            self.assertEqual(recorded, answered[name] + sum(event[name] for event in cut), told)
            self.assertEqual(recorded, sum(row[name] for row in rows), told)
            # A provider bills what it has written to the end, of which a killed plane knows less.
            exact = sum(event[name] for event in events if not event["estimated"])
            self.assertLessEqual(exact, sum(row[name] for row in served), told)
        self.assertEqual(len(events), sum(row["requests"] for row in rows), told)
        self.assertEqual(cost, sum((Decimal(row["cost_usd"]) for row in rows), Decimal(0)), told)

    def judge_duplicates(self, told: str) -> None:
        """No more was skipped than can have been sent twice, and no line is there twice."""
        self.duplicates += self.metric("duplicate_events")
        data = sum(self.found[f"at {moment}"] for moment in ("data", "both"))
        control = sum(self.found.values())
        most = control * RESENT_BY_CONTROL + data * RESENT_BY_DATA
        self.assertLessEqual(self.duplicates, most, told)

    def metric(self, name: str) -> int:
        """A counter of the control plane's ledger."""
        text = self.gateway.admin().text("GET", "/metrics", accept="text/plain")
        found = re.search(rf"^omnigate_ledger_{name}_total (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return int(float(found[1]))

    def totals(self) -> list[dict[str, Any]]:
        """What the control plane adds up, by key."""
        rows: list[dict[str, Any]] = self.gateway.admin().call("GET", "/admin/usage?by=key")["rows"]
        return rows

"""``kill -9`` between any two steps: nothing acknowledged is lost, and nothing is billed twice."""

import contextlib
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    Answer,
    Daemon,
    Gateway,
    cost_of,
    free_ports,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)
from tests.process.wire import Forward, Wire

#: Model names, and what the provider does at them.
MODELS = {
    "small": "fake-small",
    "words": "fake-words-40-input-25-one-write",
    "paced": "fake-words-30-paced-20",
    "endless": "fake-words-2000-paced-20",
}
#: What an answer of a model costs in tokens: input and output.
TOKENS = {"small": (3, 12), "words": (25, 40), "paced": (3, 30)}

#: How often a daemon is killed under load, and how many clients make that load.
KILLS = 5
CLIENTS = 4


def config(provider_port: int) -> str:
    """One key, one provider, several models."""
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


class CrashCase(SynchronousTestCase):
    """With a gateway whose wire between the planes is in the hand of the test."""

    def setUp(self) -> None:
        (port,) = free_ports(1)
        data = {"CONTROL_URL": f"http://127.0.0.1:{port}"}
        self.gateway = Gateway(config, data)
        self.addCleanup(self.gateway.stop)
        self.wire = Wire(port, self.gateway.control_port)
        self.addCleanup(self.wire.close)
        self.gateway.start()
        #: Answers that came whole, with the model that was asked.
        self.whole: list[tuple[str, Answer]] = []
        #: Requests whose answer did not, or of which it is not known.
        self.cut = 0

    @property
    def control(self) -> Daemon:
        """The control plane that runs, or ran last."""
        assert self.gateway.control is not None
        return self.gateway.control

    @property
    def data(self) -> Daemon:
        """The same of the data plane."""
        assert self.gateway.data is not None
        return self.gateway.data

    def ask(self, model: str = "small", stream: bool = False) -> Answer:
        """Ask, and note that the answer came whole."""
        answer = self.gateway.ask(model, stream)
        self.assertEqual((answer.status, answer.whole), (200, True))
        self.whole.append((model, answer))
        return answer

    def settle(self) -> list[dict[str, Any]]:
        """Wait until nothing waits any more, and hold the ledger to what was answered."""
        ids = {answer.id for _, answer in self.whole}
        wait_for("every whole answer to be recorded", lambda: ids <= set(self.recorded()))
        wait_for("the spool to be empty", lambda: self.gateway.waiting() == 0)
        events = self.gateway.ledger()
        self.assertEqual([], [i for i, n in Counter(e["id"] for e in events).items() if n > 1])
        by_id = {event["id"]: event for event in events}
        for model, answer in self.whole:
            event = by_id.pop(answer.id)
            tokens = (event["input_tokens"], event["output_tokens"])
            self.assertEqual((event["status"], event["estimated"]), (200, False))
            self.assertEqual(tokens, TOKENS[model])
        # What else is recorded are requests that the client saw broken off.
        self.assertLessEqual(len(by_id), self.cut)
        for event in events:
            self.assertEqual(event["cost_usd"], cost_of(event))
        self.assert_totals(events)
        return events

    def recorded(self) -> list[str]:
        """The ids in the ledger."""
        return [event["id"] for event in self.gateway.ledger()]

    def assert_totals(self, events: list[dict[str, Any]]) -> None:
        """What the control plane adds up is what stands in its ledger."""
        usage = self.gateway.admin().call("GET", "/admin/usage?by=key")
        rows = usage["rows"]
        self.assertEqual(sum(row["requests"] for row in rows), len(events))
        total = sum((Decimal(row["cost_usd"]) for row in rows), Decimal(0))
        self.assertEqual(total, sum((event["cost_usd"] for event in events), Decimal(0)))


class StepTests(CrashCase):
    """A kill at one step of an event's way."""

    def test_before_it_is_delivered(self) -> None:
        """The control plane is down, the data plane is killed: the spool has the events."""
        self.ask()
        self.settle()
        self.control.kill()
        for _ in range(3):
            self.ask()
        self.data.kill()
        self.assertGreaterEqual(self.gateway.waiting(), 3)
        # Without a control plane it starts from the copy of its config, and text goes on.
        self.gateway.start_data()
        self.ask("words", stream=True)
        self.data.kill()
        self.gateway.start_data()
        self.gateway.start_control()
        self.ask()
        self.settle()

    def test_on_its_way(self) -> None:
        """The control plane is killed when a batch has been sent and not yet taken."""

        def kill(forward: Forward) -> None:
            self.control.kill()

        self.wire.take_next(kill)
        self.ask()
        self.wire.wait_taken()
        self.ask()
        self.assertEqual(self.recorded(), [])
        self.gateway.start_control()
        self.settle()

    def test_between_write_and_acknowledgement(self) -> None:
        """The control plane is killed when the batch is in its file, whatever it has said."""

        def kill(forward: Forward) -> None:
            sender = threading.Thread(target=forward)
            sender.start()
            wait_for("the ledger to be written", self.recorded)
            self.control.kill()
            sender.join()

        self.wire.take_next(kill)
        self.ask()
        self.wire.wait_taken()
        self.ask()
        self.gateway.start_control()
        self.settle()

    def test_acknowledgement_is_lost(self) -> None:
        """The batch is written and acknowledged, and only the data plane does not know."""

        def lose(forward: Forward) -> None:
            self.assertTrue(forward())

        self.wire.take_next(lose)
        self.ask()
        self.wire.wait_taken()
        self.assertEqual(len(self.recorded()), 1)
        self.ask()
        self.settle()

    def test_data_plane_dies_before_the_acknowledgement(self) -> None:
        """The data plane is killed when its batch is written: the next one sends it again."""

        def kill(forward: Forward) -> None:
            self.assertTrue(forward())
            self.data.kill()

        self.wire.take_next(kill)
        # The batch is under way once the event is in the spool, which is before the last byte.
        with contextlib.suppress(OSError):
            self.whole.append(("small", self.gateway.ask("small")))
        self.wire.wait_taken()
        self.assertEqual(len(self.recorded()), 1)
        self.gateway.start_data()
        self.ask()
        self.cut += 1
        self.settle()

    def test_both_die(self) -> None:
        """Both are killed at the same step, and the control plane's last line is torn."""

        def kill(forward: Forward) -> None:
            forward()
            self.control.kill()
            self.data.kill()

        self.wire.take_next(kill)
        with contextlib.suppress(OSError):
            self.whole.append(("small", self.gateway.ask("small")))
        self.wire.wait_taken()
        with (self.gateway.folder / "control" / "ledger.jsonl").open("ab") as ledger:
            ledger.write(b'{"id":"0123","key_sha')
        self.gateway.start_data()
        self.ask()
        self.gateway.start_control()
        self.ask()
        self.cut += 1
        self.settle()

    def test_control_plane_hangs(self) -> None:
        """A control plane that is there and says nothing holds up nobody but the events."""
        self.control.send(signal.SIGSTOP)
        try:
            for turn in range(10):
                self.ask("words", stream=bool(turn % 2))
            self.assertEqual(self.recorded(), [])
        finally:
            self.control.send(signal.SIGCONT)
        self.settle()

    def test_managed_keys(self) -> None:
        """A key whose making or deletion was answered outlives a kill at that moment."""
        made = self.gateway.admin().call("POST", "/admin/keys", {"name": "kept"})
        self.control.kill()
        self.gateway.start_control()
        secret = made["secret"]
        wait_for("the key to be known", lambda: self.reads_models(secret))
        self.gateway.admin().call("DELETE", "/admin/keys/kept")
        self.control.kill()
        self.gateway.start_control()
        wait_for("the key to be gone", lambda: not self.reads_models(secret))

    def reads_models(self, secret: str) -> bool:
        """Whether the data plane knows a key."""
        return self.gateway.get("/v1/models", secret).status == 200

    def test_nothing_is_counted_twice_after_all(self) -> None:
        """Totals are the same after one more start, which reads them out of the file."""
        for model in ("small", "words"):
            self.ask(model)
        before = self.settle()
        self.control.kill()
        self.gateway.start_control()
        self.assertEqual(self.settle(), before)


class LoadTests(CrashCase):
    """Kills at any moment, under load."""

    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(20261129)
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.faults: list[str] = []

    def load(self, kills: Callable[[], None], models: list[str]) -> None:
        """Ask without a pause while ``kills`` is at work."""
        threads = [
            threading.Thread(target=self.client, args=(models,), daemon=True)
            for _ in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        try:
            kills()
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.faults, [])

    def client(self, models: list[str]) -> None:
        """One client; what is cut off is counted, and asked no more."""
        turn = 0
        # The pause leaves the daemons some of the machine.
        while not self.stopping.wait(0.005):
            turn += 1
            model = models[turn % len(models)]
            try:
                answer = self.gateway.ask(model, stream=turn % 2 == 1)
            except ConnectionRefusedError:
                self.stopping.wait(0.02)
                continue
            except OSError:
                with self.lock:
                    self.cut += 1
                continue
            with self.lock:
                if answer.status != 200:
                    self.faults.append(f"{answer.status}: {answer.body[:200]!r}")
                elif answer.whole:
                    self.whole.append((model, answer))
                else:
                    self.cut += 1

    def answered(self, more: int) -> None:
        """Wait for so many more answers, then for a moment that nobody chose."""
        target = len(self.whole) + more
        wait_for("answers under load", lambda: len(self.whole) >= target)
        self.stopping.wait(self.random.random() * 0.05)

    def test_control_plane(self) -> None:
        """The control plane is killed again and again; no client notices anything."""

        def kills() -> None:
            for _ in range(KILLS):
                self.answered(30)
                self.control.kill()
                self.answered(10)
                self.gateway.start_control()
            self.answered(30)

        self.load(kills, ["small", "words"])
        self.assertEqual(self.cut, 0)
        events = self.settle()
        self.assertEqual(len(events), len(self.whole))

    def test_data_plane(self) -> None:
        """The data plane is killed again and again while streams run."""

        def kills() -> None:
            for _ in range(KILLS):
                self.answered(20)
                self.data.kill()
                self.gateway.start_data()
            self.answered(20)

        self.load(kills, ["small", "words", "paced"])
        self.assertGreater(self.cut, 0)
        self.settle()

"""A control plane with a full disk acknowledges nothing, loses nothing, and heals by itself."""

import contextlib
import http.client
import json
import resource
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.process.daemons import (
    SECONDS,
    Daemon,
    Gateway,
    cost_of,
    key_table,
    route_table,
    upstream_table,
    verify_ledger,
    wait_for,
)
from tests.process.small_disk import SmallDisk

#: The size of the small disk. The ledger of these tests is a few hundred kilobytes.
DISK_BYTES = 8 * 1024 * 1024

FULL = "the ledger's disk is full"


def config(provider_port: int) -> str:
    """One key, one provider, one model."""
    upstream = upstream_table("openai", "openai", provider_port)
    return key_table("app") + upstream + route_table("small", ("openai", "fake-small"))


class SmallDiskGateway(Gateway):
    """A gateway whose control plane keeps its state on a small disk."""

    def __init__(self) -> None:
        super().__init__(config)
        state = self.folder / "control"
        state.mkdir()
        try:
            self.disk = SmallDisk(state, DISK_BYTES)
        except SkipTest:
            self.stop()
            raise

    @property
    def control_state(self) -> Path:
        """Seen from outside."""
        return self.disk.path

    def command(self, plane: str) -> Sequence[str]:
        """The control plane is started where the disk is."""
        command = super().command(plane)
        return self.disk.inside(command) if plane == "control" else command

    def stop(self, orderly: bool = True) -> None:
        """The disk goes last."""
        try:
            super().stop(orderly)
        finally:
            if hasattr(self, "disk"):
                self.disk.close()


class FullDiskCase(SynchronousTestCase):
    """What is asked of a gateway whose control plane cannot write."""

    gateway: Gateway

    def begin(self, gateway: Gateway) -> None:
        """Start a gateway; it is stopped with the test."""
        self.gateway = gateway
        self.addCleanup(gateway.stop)
        gateway.start()
        self.ids: list[str] = []

    def ask(self, count: int) -> None:
        """Ask so often; every answer comes, whatever the ledger does."""
        for _ in range(count):
            answer = self.gateway.ask("small")
            self.assertEqual((answer.status, answer.whole), (200, True))
            self.ids.append(answer.id)

    def readiness(self) -> tuple[int, str]:
        """What ``/readyz`` of the control plane says: status and message."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.gateway.control_port, timeout=SECONDS
        )
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            return answer.status, body.get("detail", "")
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def recorded(self) -> list[str]:
        """The ids in the ledger, in order."""
        return [event["id"] for event in self.gateway.ledger()]

    def all_recorded(self) -> None:
        """Wait until everything answered is in the ledger once and nothing waits; check sums."""
        wait_for("the spool to be empty", lambda: self.gateway.waiting() == 0)
        events = self.gateway.ledger()
        self.assertEqual(Counter(event["id"] for event in events), Counter(self.ids))
        cost = sum((cost_of(event) for event in events), Decimal(0))
        rows: list[dict[str, Any]] = self.gateway.admin().call("GET", "/admin/usage?by=key")["rows"]
        self.assertEqual(sum(row["requests"] for row in rows), len(events))
        self.assertEqual(sum((Decimal(row["cost_usd"]) for row in rows), Decimal(0)), cost)

    def is_full(self) -> bool:
        """Whether the plane says that its disk is full."""
        status, message = self.readiness()
        return status == 503 and FULL in message

    def is_ready(self) -> bool:
        """Whether the plane says that all is well."""
        return self.readiness()[0] == 200

    @property
    def control(self) -> Daemon:
        """The control plane that runs."""
        assert self.gateway.control is not None
        return self.gateway.control


class FullDiskTests(FullDiskCase):
    """A disk that is really full."""

    def setUp(self) -> None:
        gateway = SmallDiskGateway()
        self.disk = gateway.disk
        self.begin(gateway)

    def test_full_for_a_while(self) -> None:
        """Answers go on, events wait, ``/readyz`` says why; with space back, it heals itself."""
        self.ask(5)
        self.all_recorded()
        self.disk.fill()
        self.ask(10)
        wait_for("the plane to say that its disk is full", self.is_full)
        # The rest of the ledger's last page takes a few events yet, but not as many as these.
        recorded = self.recorded()
        self.assertEqual(recorded, self.ids[: len(recorded)])
        self.assertIn(len(recorded), range(5, 5 + 10))
        self.assertGreaterEqual(self.gateway.waiting(), 15 - len(recorded))
        self.disk.clear()
        # Nobody asks for anything meanwhile.
        wait_for("the plane to be ready again", self.is_ready)
        self.all_recorded()
        self.ask(5)
        self.all_recorded()
        self.verify()
        self.control.kill()
        self.gateway.start_control()
        self.all_recorded()

    def test_killed_while_full(self) -> None:
        """A control plane that starts on a full disk records what waits once there is space."""
        self.ask(5)
        self.all_recorded()
        self.disk.fill()
        self.ask(5)
        wait_for("the plane to say that its disk is full", self.is_full)
        self.control.kill()
        self.gateway.control = self.gateway.spawn("control")
        self.ask(5)
        wait_for("the new plane to say so, too", self.is_full)
        self.disk.clear()
        wait_for("the plane to be ready again", self.is_ready)
        self.all_recorded()
        self.verify()

    def test_full_again_and_again(self) -> None:
        """However often it fills up while events come, each is recorded once."""
        for turn in range(4):
            self.ask(20)
            self.disk.fill()
            self.ask(20)
            wait_for("the plane to say that its disk is full", self.is_full)
            if turn % 2:
                assert self.gateway.data is not None
                self.gateway.data.kill()
                self.gateway.start_data()
            self.disk.clear()
        wait_for("the plane to be ready again", self.is_ready)
        self.all_recorded()
        self.verify()

    def verify(self) -> None:
        """The files are what they should be, as the command line judges them."""
        verify_ledger(self.gateway.folder / "control" / "ledger.jsonl", self.disk.inside)


class LargestFileTests(FullDiskCase):
    """A process that may write no file beyond a size, which fails a write in its middle."""

    def test_limit(self) -> None:
        """Nothing of the batch that did not fit stays; with the limit gone, all is recorded."""
        if not hasattr(resource, "prlimit"):
            raise SkipTest("the limits of another process are set on Linux only")
        self.begin(Gateway(config))
        # The ledger has to be longer than the log, which is under the limit, too.
        self.ask(60)
        self.all_recorded()
        ledger = self.gateway.folder / "control" / "ledger.jsonl"
        size = ledger.stat().st_size
        _, hard = resource.prlimit(self.control.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.control.pid, resource.RLIMIT_FSIZE, (size + 1_000, hard))
        self.ask(10)
        wait_for("the plane to say that its disk is full", self.is_full)
        kept = len(self.recorded())
        self.assertIn(kept, (60, 61))
        with contextlib.suppress(FileNotFoundError):
            self.assertTrue(ledger.read_bytes().endswith(b"\n"))
        resource.prlimit(self.control.pid, resource.RLIMIT_FSIZE, (hard, hard))
        wait_for("the plane to be ready again", self.is_ready)
        self.all_recorded()
        verify_ledger(ledger)

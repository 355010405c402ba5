"""One run: what clients want, what goes wrong when, and what must hold in the end."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.error import ConnectionDone, ConnectionLost

from tests.planes.memory import FakeClient, request
from tests.simulation import config
from tests.simulation.bill import Bill, WrongBillError
from tests.simulation.control_side import ControlSide
from tests.simulation.data_side import DataSide
from tests.simulation.judge import is_whole, judge
from tests.simulation.link import Link, Weather
from tests.simulation.provider import Provider
from tests.simulation.world import CONTROL_FOLDER, DATA_FOLDER, World

if TYPE_CHECKING:
    from omnigate.settings import DataSettings

#: Moments that calendars stumble over, in UTC: a plain day, and the last seconds before a day, a
#: month, a year and a leap day end, and before clocks in Europe and America are set.
MOMENTS = (
    "2026-11-29T20:00:00",
    "2026-11-30T23:59:40",
    "2026-12-31T23:59:50",
    "2027-02-28T23:59:30",
    "2028-02-28T23:59:50",
    "2027-03-28T00:59:45",
    "2026-10-25T00:59:45",
    "2026-10-24T21:59:45",
    "2027-11-07T05:59:45",
)

SPOOL = f"{DATA_FOLDER}/omnigate-usage.spool"

#: Months that may pass in a run: ids are known again for longer.
MAX_MONTHS = 3

#: How long a run waits for everything to come to rest, in seconds of its own.
REST_SECONDS = 400


@attrs.define(eq=False)
class Asked:
    """One request of a client.

    :ivar life: the process of the data plane that got it.
    :ivar request_id: what the gateway calls it; empty where it never became an exchange.
    """

    client: FakeClient
    life: int
    key: str
    request_id: str
    position: int

    def answer(self) -> bytes:
        """What the client got for it."""
        return self.client.received()[self.position :]


class Story:
    """See the module's docstring.

    :ivar faults: what went wrong, by name, in order.
    """

    def __init__(
        self, seed: int, config_path: str, settings: DataSettings, keeps_trace: bool = False
    ) -> None:
        rng_seed = seed
        self.world = World(rng_seed, 0.0, keeps_trace)
        rng = self.rng = self.world.rng
        moment = datetime.datetime.fromisoformat(rng.choice(MOMENTS) + "+00:00")
        self.world.set_wall(moment.timestamp() + rng.choice((0.0, rng.uniform(-3600, 3600))))
        self.bill = Bill(self.world)
        self.provider = Provider(self.world)
        self.control = ControlSide(self.world, config_path)
        self.link = Link(
            self.world,
            self.control,
            lambda: (
                self.data.life if self.data.alive else 0,
                self.control.life if self.control.alive else 0,
            ),
            self.bill.handed,
            self.bill.answered,
        )
        self.data = DataSide(self.world, self.link, self.provider, self.bill, settings)
        # Few, so that some of them spend what they may.
        self.keys = rng.sample(config.NAMES, rng.choice((2, 3, 4)))
        self.asked: list[Asked] = []
        self.faults: list[str] = []
        self.power_lost = self.disk_filled = False
        self._months = 0
        self._until: list[tuple[float, Callable[[], None]]] = []

    # -- playing

    def play(self) -> None:
        """Play the run to its end, and ask all questions."""
        with self.world.disk.standing_in():
            self._play()
            self._rest()
            judge(self)

    def _play(self) -> None:
        rng = self.rng
        self.control.start()
        self.data.start()
        self.step(0.0)
        wanted = rng.randrange(10, 41)
        trouble = rng.choice((0.0, 0.02, 0.05, 0.1))
        pace = rng.choice((0.05, 0.2, 0.5))
        self.link.weather = Weather(*(rng.choice((0.0, 0.0, 0.02, 0.1)) for _ in range(4)))
        while len(self.asked) < wanted:
            luck = rng.random()
            if luck < trouble:
                self._something_fails()
            elif luck < 0.3:
                self._somebody_asks()
            elif luck < 0.75:
                self.provider.act()
            elif luck < 0.79:
                self._somebody_leaves()
            elif luck < 0.82:
                self._somebody_dawdles()
            else:
                self.step(rng.choice((pace, pace, 1.0, 2.5)))
            self._look()
            if self.world.now > 3000:
                break

    def step(self, seconds: float) -> None:
        """Let time pass everywhere."""
        self.world.now += seconds
        for due, call in list(self._until):
            if due <= self.world.now:
                self._until.remove((due, call))
                call()
        self.data.step(seconds)
        self._look()
        self.control.step(seconds)
        self._look()
        self.data.step(0.0)
        self._look()

    def _look(self) -> None:
        """See to what has happened meanwhile."""
        self.provider.look()
        self.link.pump()
        self.provider.look()
        self.data.see_stopped()
        self.control.see_stopped()
        self._see_ends()

    def _see_ends(self) -> None:
        ended = self.world.disk.ended
        for folder in list(ended):
            power = self.rng.random() < 0.5
            if folder == DATA_FOLDER:
                self._data_dies(power)
            else:
                self.control_dies(power)
            ended.remove(folder)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._until.append((self.world.now + seconds, call))

    # -- clients

    def _somebody_asks(self) -> None:
        rng, data = self.rng, self.data
        if not data.ready:
            self.step(1.0)
            return
        key = rng.choice(self.keys)
        client = self._idle_client(key) if rng.random() < 0.5 else None
        if client is None:
            client = data.client()
        position = len(client.received())
        body, path = self._request()
        before = data.last_id
        client.send(request(body, path, secret=config.SECRETS[key]))
        request_id = data.last_id if data.last_id != before else ""
        self.world.note(f"{key} asks {path.decode()} as {request_id}: {body.decode()}")
        self.asked.append(Asked(client, data.life, key, request_id, position))

    def _idle_client(self, key: str) -> FakeClient | None:
        """A client of this key whose connection is kept, and whose last answer is whole."""
        busy = []
        for asked in reversed(self.asked[-8:]):
            client = asked.client
            if asked.life != self.data.life or client in busy:
                continue
            busy.append(client)
            if asked.key == key and client.open and is_whole(asked.answer()):
                return client
        return None

    def _request(self) -> tuple[bytes, bytes]:
        rng = self.rng
        model = rng.choice(("fast", "fast", "fast", "kept", "claude", "claude", "crossed"))
        messages = model == "claude" or (model == "crossed" and rng.random() < 0.5)
        said = f"say {rng.randrange(3)}" if model == "kept" else f"question {len(self.asked)}"
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": said}],
        }
        if messages:
            body["max_tokens"] = 100
        if rng.random() < (0.2 if model == "kept" else 0.5):
            body["stream"] = True
        path = b"/v1/messages" if messages else b"/v1/chat/completions"
        return json.dumps(body).encode(), path

    def _somebody_leaves(self) -> None:
        there = [a for a in self.asked if a.life == self.data.life and a.client.open]
        if there and self.data.alive:
            asked = self.rng.choice(there)
            self.world.note(f"the client of {asked.request_id} leaves")
            asked.client.leave(self.rng.choice((ConnectionDone, ConnectionLost)))

    def _somebody_dawdles(self) -> None:
        side = self.rng.choice((self.data, self.control))
        side.prompt = not side.prompt

    # -- faults

    def _something_fails(self) -> None:
        rng = self.rng
        name, call = rng.choice(
            (
                ("the data plane is killed", lambda: self._data_dies(False)),
                ("the data plane's power fails", lambda: self._data_dies(True)),
                ("the data plane is stopped", self.data.stop),
                ("the data plane's end comes in the middle of things", self._data_fuse),
                ("the control plane is killed", lambda: self.control_dies(False)),
                ("the control plane's power fails", lambda: self.control_dies(True)),
                ("the control plane is stopped", self.control.stop),
                ("the control plane's end comes in the middle of things", self._control_fuse),
                ("the control plane's end comes in the middle of things", self._control_fuse),
                ("the link is cut", self.link.cut),
                ("the planes are parted", self._part),
                ("a storm", self._storm),
                ("the day ends", self._day_ends),
                ("the month ends", self._month_ends),
                ("a quarter ends", self._quarter_ends),
                ("five minutes pass", lambda: self.step(301.0)),
                ("the data plane's disk is full", lambda: self._fill(DATA_FOLDER)),
                ("the control plane's disk is full", lambda: self._fill(CONTROL_FOLDER)),
                ("syncs fail", self._syncs_fail),
                ("a provider is away", self._provider_away),
            )
        )
        self.world.note(name)
        self.faults.append(name)
        call()

    def _data_dies(self, power: bool) -> None:
        data, disk = self.data, self.world.disk
        disk.calls_left.pop(DATA_FOLDER, None)
        if data.runs:
            self.world.note(f"the data plane dies{' with its power' if power else ''}")
            data.killed()
            self.bill.data_ended(data)
            written, durable = _ids(disk.shown(SPOOL)), _ids(disk.durable(SPOOL))
        elif not power:
            return
        else:
            written, durable = _ids(disk.shown(SPOOL)), _ids(disk.durable(SPOOL))
        if power:
            self.power_lost = True
            disk.crash(DATA_FOLDER, self.rng)
        else:
            disk.kill(DATA_FOLDER)
        self.bill.machine_lost(power, written, durable, _ids(disk.shown(SPOOL)))
        self._later(self.rng.choice((0.0, 1.0, 8.0)), self._start_data)

    def _data_fuse(self) -> None:
        self.world.disk.calls_left[DATA_FOLDER] = self.rng.randrange(6)

    def control_dies(self, power: bool) -> None:
        """End the control plane where it stands; a new one starts soon."""
        control, disk = self.control, self.world.disk
        disk.calls_left.pop(CONTROL_FOLDER, None)
        if control.runs:
            self.world.note(f"the control plane dies{' with its power' if power else ''}")
            control.killed()
        elif not power:
            return
        if power:
            disk.crash(CONTROL_FOLDER, self.rng)
        else:
            disk.kill(CONTROL_FOLDER)
        self._later(self.rng.choice((0.0, 1.0, 8.0, 40.0)), self.start_control)

    def _control_fuse(self) -> None:
        self.world.disk.calls_left[CONTROL_FOLDER] = self.rng.randrange(12)

    def _start_data(self) -> None:
        if not self.data.alive and not self.data.start():
            self.world.disk.kill(DATA_FOLDER)
            self._later(5.0, self._start_data)

    def start_control(self) -> None:
        """Start a control plane, if there is none."""
        if not self.control.alive:
            self.world.disk.kill(CONTROL_FOLDER)
            self.control.start()

    def _part(self) -> None:
        self.link.parted = True
        self._later(self.rng.choice((1.0, 15.0, 60.0)), self._meet)

    def _meet(self) -> None:
        self.link.parted = False

    def _storm(self) -> None:
        calm = self.link.weather
        self.link.weather = Weather(0.2, 0.1, 0.2, 0.3)
        self._later(self.rng.choice((5.0, 30.0)), lambda: self._calm(calm))

    def _calm(self, weather: Weather) -> None:
        self.link.weather = weather

    def _day_ends(self) -> None:
        now = self._date()
        midnight = datetime.datetime.combine(now.date(), datetime.time(), datetime.UTC)
        self.world.set_wall((midnight + datetime.timedelta(days=1)).timestamp() - 1.0)

    def _month_ends(self) -> None:
        if self._months >= MAX_MONTHS:
            return
        self._months += 1
        first = self._date().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = (first + datetime.timedelta(days=32)).replace(day=1)
        self.world.set_wall(after.timestamp() - 1.0)

    def _quarter_ends(self) -> None:
        """So long that ids are forgotten; only where nothing waits that they are needed for."""
        if (
            self.data.drained
            and self.control.ready
            and self.link.idle
            and self._months < MAX_MONTHS
        ):
            self._months = MAX_MONTHS
            self.world.set_wall(self.world.wall() + (config.IDS_DAYS + 1) * 86_400)

    def _date(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.world.wall(), datetime.UTC)

    def _fill(self, folder: str) -> None:
        disk = self.world.disk
        disk.free_bytes[folder] = self.rng.choice((0, 100, 3000))
        if folder == DATA_FOLDER:
            self.disk_filled = self.bill.refused_writes = True
        self._later(self.rng.choice((2.0, 10.0, 60.0)), lambda: self._make_room(folder))

    def _make_room(self, folder: str) -> None:
        self.world.disk.free_bytes.pop(folder, None)

    def _syncs_fail(self) -> None:
        self.world.disk.fail("fdatasync", self.rng.choice((1, 2)), folder=CONTROL_FOLDER)

    def _provider_away(self) -> None:
        name = self.rng.choice(tuple(config.PRICES))
        self.provider.refusing.add(name)
        self._later(self.rng.choice((2.0, 20.0)), lambda: self.provider.refusing.discard(name))

    # -- the end

    def _rest(self) -> None:
        """Heal everything, and let time pass until nothing is left to be done."""
        self.world.note("everything is healed")
        self._until.clear()
        self.link.weather = Weather()
        self.link.parted = False
        self.world.disk.heal()
        self.provider.refusing.clear()
        self.data.prompt = self.control.prompt = True
        until = self.world.now + REST_SECONDS
        while self.world.now < until:
            for side, start in ((self.data, self._start_data), (self.control, self.start_control)):
                if not side.alive:
                    start()
            self.provider.finish()
            self.step(1.0)
            if (
                self.control.ready
                and self.data.drained
                and not self.provider.busy
                and self.link.idle
            ):
                break
        else:
            raise WrongBillError("the planes do not come to rest")
        self.step(301.0)
        for _ in range(3):
            self.step(1.0)
        self.data.stop()
        for _ in range(8):
            self.step(1.0)
        if self.data.alive:
            raise WrongBillError("the data plane does not stop")
        self.link.pump()


def _ids(content: bytes) -> set[str]:
    """The ids of the whole lines of a spool."""
    ids = set()
    for line in content.split(b"\n")[:-1]:
        try:
            ids.add(json.loads(line)["id"])
        except (ValueError, KeyError, TypeError):
            continue
    return ids

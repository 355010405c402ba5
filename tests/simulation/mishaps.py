"""What goes wrong in a run, and how it is mended."""

from __future__ import annotations

import datetime
import json
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation import config
from tests.simulation.link import Link, Weather
from tests.simulation.world import CONTROL_FOLDER, DATA_FOLDER

if TYPE_CHECKING:
    from tests.simulation.bill import Bill
    from tests.simulation.control_side import ControlSide
    from tests.simulation.data_side import DataSide
    from tests.simulation.provider import Provider
    from tests.simulation.world import World

SPOOL = f"{DATA_FOLDER}/omnigate-usage.spool"

_IDS = re.compile(r".*/ledger\.ids\.[0-9-]{10}")

#: Days that an event may wait for, which are fewer than ids are known for.
MAX_DAYS = config.IDS_DAYS - 5

#: Days that may pass in a run; sums by day are kept for 400.
MAX_JUMPED_DAYS = 390


class Mishaps:
    """Kills, power losses, full disks, bad networks, and calendars.

    :param step: lets time pass.
    :param ages: segments of the ledger are deleted in their time, so time passes more often.
    :ivar names: of all that happened, in order.
    :ivar spoiled: files that may stay damaged, since they are only written anew in their time.
    :ivar power_lost: the data plane's power has failed.
    :ivar disk_filled: its disk has been full.
    """

    def __init__(
        self,
        world: World,
        data: DataSide,
        control: ControlSide,
        link: Link,
        provider: Provider,
        bill: Bill,
        step: Callable[[float], None],
        ages: bool,
    ) -> None:
        self._world = world
        self._data = data
        self._control = control
        self._link = link
        self._provider = provider
        self._bill = bill
        self._step = step
        self._ages = ages
        self._waited_days = self._jumped_days = 0.0
        self._over = False
        self._until: list[tuple[float, Callable[[], None]]] = []
        self.names: list[str] = []
        self.spoiled: set[str] = set()
        self.power_lost = self.disk_filled = False

    # -- time

    def come_due(self) -> None:
        """Do what was put off until now."""
        for due, call in list(self._until):
            if due <= self._world.now:
                self._until.remove((due, call))
                call()
        if self._bill.refused_writes and DATA_FOLDER not in self._world.disk.free_bytes:
            self._bill.see_written(_ids(self._world.disk.shown(SPOOL)))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if not self._over:
            self._until.append((self._world.now + seconds, call))

    def heal(self) -> None:
        """Mend everything, and let nothing more go wrong."""
        self._over = True
        self._until.clear()
        self._link.weather = Weather()
        self._link.parted = False
        self._world.disk.heal()
        self._provider.refusing.clear()

    def start_both(self) -> None:
        """Start the planes that are not there."""
        self._start_data()
        self.start_control()

    def see_ends(self) -> None:
        """See to processes that have stopped, could not start, or ended in the middle of things."""
        if self._data.see_stopped():
            ids = _ids(self._world.disk.shown(SPOOL))
            self._bill.machine_lost(False, ids, ids, ids)
            self._later(self._world.rng.choice((0.0, 2.0, 20.0)), self._start_data)
        if self._control.see_stopped():
            self._later(self._world.rng.choice((0.0, 2.0, 20.0)), self.start_control)
        for folder in list(self._world.disk.ended):
            power = self._world.rng.random() < 0.5
            if folder == DATA_FOLDER:
                self.data_dies(power)
            else:
                self.control_dies(power)
            self._world.disk.ended.remove(folder)

    # -- what may happen

    def something_fails(self) -> None:
        """Let one thing happen."""
        rng = self._world.rng
        happening = self._happenings()
        if self._ages and rng.random() < 0.4:
            happening = happening[-4:]
        name, call = rng.choice(happening)
        self._world.note(name)
        self.names.append(name)
        call()

    def _happenings(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        """All that may happen; last what lets segments go, and what is missed then."""
        return (
            ("the data plane is killed", lambda: self.data_dies(False)),
            ("the data plane's power fails", lambda: self.data_dies(True)),
            ("the data plane is stopped", self._data.stop),
            ("the data plane's end comes in the middle of things", self._data_fuse),
            ("the control plane is killed", lambda: self.control_dies(False)),
            ("the control plane's power fails", lambda: self.control_dies(True)),
            ("the control plane is stopped", self._control.stop),
            ("the control plane's end comes in the middle of things", self._control_fuse),
            ("the control plane's end comes in the middle of things", self._control_fuse),
            ("the link is cut", self._link.cut),
            ("the planes are parted", self._part),
            ("a storm", self._storm),
            ("the day ends", self._day_ends),
            ("the month ends", self._month_ends),
            ("a quarter ends", self._quarter_ends),
            ("the clocks are set back", self._set_back),
            ("the data plane's disk is full", lambda: self._fill(DATA_FOLDER)),
            ("the control plane's disk is full", lambda: self._fill(CONTROL_FOLDER)),
            ("syncs fail", self._syncs_fail),
            ("a table of ids is damaged", lambda: self._damage(".table")),
            ("ids are lost", self._lose_ids),
            ("a provider is away", self._provider_away),
            ("some days pass", self._days_pass),
            ("some days pass", self._days_pass),
            ("five minutes pass", lambda: self._step(301.0)),
            ("the newest snapshot is damaged", lambda: self._damage(".snapshot")),
        )

    def data_dies(self, power: bool) -> None:
        """End the data plane where it stands; a new one starts soon."""
        data, disk = self._data, self._world.disk
        disk.calls_left.pop(DATA_FOLDER, None)
        if data.runs:
            self._world.note(f"the data plane dies{' with its power' if power else ''}")
            data.killed()
            self._bill.data_ended(data)
        elif not power:
            return
        written, durable = _ids(disk.shown(SPOOL)), _ids(disk.durable(SPOOL))
        if power:
            self.power_lost = True
            disk.crash(DATA_FOLDER, self._world.rng)
        else:
            disk.kill(DATA_FOLDER)
        self._bill.machine_lost(power, written, durable, _ids(disk.shown(SPOOL)))
        self._later(self._world.rng.choice((0.0, 1.0, 8.0)), self._start_data)

    def _data_fuse(self) -> None:
        self._world.disk.calls_left[DATA_FOLDER] = self._world.rng.randrange(6)

    def control_dies(self, power: bool) -> None:
        """End the control plane where it stands; a new one starts soon."""
        control, disk = self._control, self._world.disk
        disk.calls_left.pop(CONTROL_FOLDER, None)
        if control.runs:
            self._world.note(f"the control plane dies{' with its power' if power else ''}")
            control.killed()
        elif not power:
            return
        if power:
            disk.crash(CONTROL_FOLDER, self._world.rng)
        else:
            disk.kill(CONTROL_FOLDER)
        self._later(self._world.rng.choice((0.0, 1.0, 8.0, 40.0)), self.start_control)

    def _control_fuse(self) -> None:
        self._world.disk.calls_left[CONTROL_FOLDER] = self._world.rng.randrange(12)

    def _start_data(self) -> None:
        if not self._data.alive and not self._data.start():
            self._world.disk.kill(DATA_FOLDER)
            self._later(5.0, self._start_data)

    def start_control(self) -> None:
        """Start a control plane, if there is none."""
        if not self._control.alive:
            self._world.disk.kill(CONTROL_FOLDER)
            self._control.start()

    def _part(self) -> None:
        self._link.parted = True
        self._later(self._world.rng.choice((1.0, 15.0, 60.0)), self._meet)

    def _meet(self) -> None:
        self._link.parted = False

    def _storm(self) -> None:
        calm = self._link.weather
        self._link.weather = Weather(0.2, 0.1, 0.2, 0.3)
        self._later(self._world.rng.choice((5.0, 30.0)), lambda: self._calm(calm))

    def _calm(self, weather: Weather) -> None:
        self._link.weather = weather

    def _day_ends(self) -> None:
        now = self._date()
        midnight = datetime.datetime.combine(now.date(), datetime.time(), datetime.UTC)
        self._world.set_wall((midnight + datetime.timedelta(days=1)).timestamp() - 1.0)

    def _month_ends(self) -> None:
        first = self._date().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = (first + datetime.timedelta(days=32)).replace(day=1)
        self._jump(after.timestamp() - 1.0)

    def _days_pass(self) -> None:
        """Three days, and five minutes twice: enough for old segments to go."""
        if self._jump(self._world.wall() + 3 * 86_400):
            self._step(301.0)
            self._step(301.0)

    def _quarter_ends(self) -> None:
        """So long that ids are forgotten."""
        self._jump(self._world.wall() + (config.IDS_DAYS + 1) * 86_400)

    def _jump(self, wall: float) -> bool:
        """Set the clocks forward by days, if nothing waits that ids are needed for too long."""
        days = (wall - self._world.wall()) / 86_400
        if self._at_rest():
            self._waited_days = 0.0
        elif self._waited_days + days > MAX_DAYS:
            return False
        if self._jumped_days + days > MAX_JUMPED_DAYS:
            return False
        self._waited_days += days
        self._jumped_days += days
        self._world.set_wall(wall)
        return True

    def _at_rest(self) -> bool:
        """Whether nothing waits and nothing is under way; the disks have had their time then."""
        if self._data.drained and self._control.ready and self._link.idle:
            self._world.disk.write_back()
            return True
        return False

    def _set_back(self) -> None:
        self._world.set_wall(self._world.wall() - self._world.rng.choice((0.5, 20.0, 4000.0)))

    def _date(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._world.wall(), datetime.UTC)

    def _fill(self, folder: str) -> None:
        disk = self._world.disk
        disk.free_bytes[folder] = self._world.rng.choice((0, 100, 3000))
        if folder == DATA_FOLDER:
            self.disk_filled = self._bill.refused_writes = True
        self._later(self._world.rng.choice((2.0, 10.0, 60.0)), lambda: self._make_room(folder))

    def _make_room(self, folder: str) -> None:
        self._world.disk.free_bytes.pop(folder, None)

    def _syncs_fail(self) -> None:
        self._world.disk.fail("fdatasync", self._world.rng.choice((1, 2)), folder=CONTROL_FOLDER)

    def _damage(self, ending: str) -> None:
        """Spoil or remove a file of the control plane that another one can stand in for."""
        rng, disk = self._world.rng, self._world.disk
        self.control_dies(False)
        paths = [path for path in disk.paths(CONTROL_FOLDER) if path.endswith(ending)]
        if paths:
            path = rng.choice(paths)
            if ending == ".table":
                self.spoiled.add(path)
            content = bytearray(disk.shown(path))
            at = rng.randrange(len(content) + 1)
            kind = rng.choice(("a bit", "the rest", "all"))
            self._world.note(f"{path} loses {kind} at {at} of {len(content)}")
            if kind == "all":
                disk.unlink(path)
            elif kind == "the rest" or at == len(content):
                disk.put(path, bytes(content[:at]))
            else:
                content[at] ^= 1 << rng.randrange(8)
                disk.put(path, bytes(content))

    def _lose_ids(self) -> None:
        """Remove or shorten an id file, where none of its ids is ever going to come again."""
        rng, disk = self._world.rng, self._world.disk
        paths = [path for path in disk.paths(CONTROL_FOLDER) if _IDS.fullmatch(path)]
        if not paths or not self._at_rest():
            return
        self.control_dies(False)
        path = rng.choice(paths)
        content = disk.shown(path)
        kept = rng.choice((0, 16, 16 * rng.randrange(len(content) // 16 + 1)))
        self._world.note(f"{path} loses all but {kept} of {len(content)} bytes")
        disk.put(path, content[:kept])
        self.spoiled.add(path)

    def _provider_away(self) -> None:
        name = self._world.rng.choice(tuple(config.PRICES))
        self._provider.refusing.add(name)
        self._later(
            self._world.rng.choice((2.0, 20.0)), lambda: self._provider.refusing.discard(name)
        )


def _ids(content: bytes) -> set[str]:
    """The ids of the whole lines of a spool."""
    ids = set()
    for line in content.split(b"\n")[:-1]:
        checked, _, check = line.rpartition(b',"crc32":"')
        if check == b'%08x"}' % zlib.crc32(checked):
            ids.add(json.loads(line)["id"])
    return ids

"""One run: what clients want, what goes wrong when, and what must hold in the end."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.error import ConnectionDone, ConnectionLost

from tests.planes.memory import FakeClient, request
from tests.simulation import config
from tests.simulation.bill import Bill, WrongBillError
from tests.simulation.control_side import ControlSide
from tests.simulation.data_side import DataSide
from tests.simulation.judge import is_whole, judge
from tests.simulation.limits import small_limits
from tests.simulation.link import Link, Weather
from tests.simulation.mishaps import Mishaps
from tests.simulation.provider import Provider
from tests.simulation.world import World

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

    :ivar mishaps: what went wrong.
    """

    def __init__(
        self, seed: int, config_paths: list[str], settings: DataSettings, keeps_trace: bool = False
    ) -> None:
        self.world = World(seed, 0.0, keeps_trace)
        rng = self.rng = self.world.rng
        moment = datetime.datetime.fromisoformat(rng.choice(MOMENTS) + "+00:00")
        self.world.set_wall(moment.timestamp() + rng.choice((0.0, rng.uniform(-3600, 3600))))
        self.bill = Bill(self.world)
        self.provider = Provider(self.world)
        ages = rng.random() < 0.4
        self.control = ControlSide(self.world, config_paths[ages])
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
        self.mishaps = Mishaps(
            self.world,
            self.data,
            self.control,
            self.link,
            self.provider,
            self.bill,
            self.step,
            ages,
        )

    # -- playing

    def play(self) -> None:
        """Play the run to its end, and ask all questions."""
        self.world.disk.stand_in()
        with small_limits(self.rng):
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
                self.mishaps.something_fails()
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
        self.mishaps.come_due()
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
        self.mishaps.see_ends()

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

    # -- the end

    def _rest(self) -> None:
        """Heal everything, and let time pass until nothing is left to be done."""
        self.world.note("everything is healed")
        self.mishaps.heal()
        self.data.prompt = self.control.prompt = True
        until = self.world.now + REST_SECONDS
        while self.world.now < until:
            self.mishaps.start_both()
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

"""Stories of budgets in a whole control plane, held against a sum over a list of amounts.

What the plane says of a key, in the snapshot for data planes and as a warning, is what a naive sum
over every event says: after batches, changes of keys, restarts with and without a snapshot, and
whatever the clock does, around the oddest midnights there are.
"""

from __future__ import annotations

import datetime
import glob
import json
import os
import random
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import decode_snapshot
from omnigate.control.config_file import SIGNAL, Cause
from omnigate.periods import DAILY, MONTHLY, PERIODS, TOTAL, UTC, WEEKLY
from tests.control.plane import CONFIG, START, Plane, event

QUARTER_MS = 900_000
HOUR_MS = 3_600_000

#: A day on which something odd happens in each of these zones, or near which it does.
ODD_DAYS = {
    "UTC": "2026-11-30",
    "Europe/Stockholm": "2026-10-25",
    "America/St_Johns": "2026-11-01",
    "Asia/Kathmandu": "2026-11-30",
    "Pacific/Chatham": "2026-09-27",
    "Pacific/Apia": "2011-12-30",
    "Africa/Casablanca": "2026-02-15",
    "Antarctica/Troll": "2026-03-29",
    "America/Havana": "2026-11-01",
    "Asia/Beirut": "2026-03-29",
    "Pacific/Kiritimati": "2026-12-31",
}

#: What a token costs in nano-dollars: a million are 0.60 US dollars.
NANO_A_TOKEN = 600


@lru_cache(maxsize=10_000)
def beginning(zone: str, day: datetime.date) -> int:
    """The first quarter of an hour in which the clocks show a date or a later one; by looking."""
    noon = datetime.datetime(day.year, day.month, day.day, 12, tzinfo=datetime.UTC)
    found = int(noon.timestamp() * 1000) - 40 * HOUR_MS
    while datetime.datetime.fromtimestamp(found / 1000, ZoneInfo(zone)).date() < day:
        found += QUARTER_MS
    return found


def following(period: str, day: datetime.date) -> datetime.date:
    """The first day of the next period."""
    if period == MONTHLY:
        return (day + datetime.timedelta(32)).replace(day=1)
    return day + datetime.timedelta(7 if period == WEEKLY else 1)


def span(period: str, now_ms: int, zone: str) -> tuple[int, int]:
    """When a period begins and ends."""
    if period == TOTAL:
        return 0, 10**15
    day = datetime.datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone)).date()
    if period == WEEKLY:
        day -= datetime.timedelta(day.weekday())
    elif period == MONTHLY:
        day = day.replace(day=1)
    # Clocks that are put back over midnight show a date once more.
    while beginning(zone, following(period, day)) <= now_ms:
        day = following(period, day)
    return beginning(zone, day), beginning(zone, following(period, day))


class Story:
    """One plane with its keys, and all that was ever spent."""

    def __init__(self, folder: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.zone = self.random.choice(list(ODD_DAYS))
        day = datetime.datetime.fromisoformat(f"{ODD_DAYS[self.zone]}T00:00:00+00:00")
        self.events = 0
        self.spent: list[tuple[str, int, int]] = []
        self.files = {name: (f"{place:064x}", self.budgets()) for place, name in enumerate("abc")}
        self.managed: dict[str, tuple[str, dict[str, Any]]] = {}
        self.rotated: set[str] = set()
        self.plane = Plane(folder, self.config(), open_ledger=False)
        self.plane.clock.rightNow += day.timestamp() - START
        self.plane.clock.rightNow += self.random.randrange(-3 * 86_400, 86_400)
        self.latest = 0.0
        self.plane.open_ledger()
        self.poll()

    def config(self) -> str:
        """The config with the file keys of now."""
        tables = ""
        for name, (sha256, budgets) in self.files.items():
            members = {"name": name, "key_sha256": sha256, **budgets}
            tables += "[[keys]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in members.items())
        return tables + CONFIG[CONFIG.index("[[upstreams]]") :]

    def budgets(self) -> dict[str, Any]:
        """Budgets of a key, or none."""
        choice = self.random.choice
        found: dict[str, Any] = {}
        if choice([True, True, False]):
            found["budget_usd"] = choice([0.02, 0.05, 0.1])
        if choice([True, False]):
            found["soft_budget_usd"] = choice([0.005, 0.01, 0.02])
        if found:
            found["budget_period"] = choice(PERIODS)
            if found["budget_period"] != TOTAL:
                found["budget_timezone"] = choice([self.zone, self.zone, choice(list(ODD_DAYS))])
        return found

    def step(self) -> None:
        """Something happens, and perhaps a data plane polls."""
        happening = (self.batch, self.batch, self.change, self.reload, self.turn, self.turn)
        self.random.choice([*happening, self.restart, self.set_back])()
        if self.random.random() < 0.7:
            self.poll()

    def batch(self) -> None:
        """Events of now, of about a turn, and late ones."""
        now_ms, events = self.plane.now_ms(), []
        keys = [*self.files.values(), *self.managed.values()]
        for _ in range(self.random.choice([1, 2, 20])):
            begun, end = span(self.random.choice([DAILY, WEEKLY, MONTHLY]), now_ms, self.zone)
            late = now_ms - self.random.randrange(40 * 24 * HOUR_MS)
            ts_ms = self.random.choice(
                [now_ms, now_ms, begun - 1, begun, min(end - 1, now_ms), late]
            )
            sha256, tokens = self.random.choice(keys)[0], self.random.choice([0, 5_000, 16_666])
            self.events += 1
            counts = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": tokens}
            events.append(event(id=f"{self.events}", key_sha256=sha256, ts_ms=ts_ms, **counts))
            self.spent.append((sha256, ts_ms, tokens * NANO_A_TOKEN))
        body = json.dumps({"events": events}).encode()
        answer = self.plane.internal("POST", "/internal/usage/batch", body).json()
        assert answer["recorded"] == len(events), answer
        assert answer["config_version"] in ("", self.poll()), answer

    def change(self) -> None:
        """A managed key is made, changed, rotated or deleted; one name may be many, in turn."""
        name, budgets = self.random.choice(["x", "y"]), self.budgets()
        if name not in self.managed:
            body = json.dumps({"name": name, **budgets}).encode()
            made = self.plane.admin("POST", "/admin/keys", body).json()
            self.managed[name] = made["key_sha256"], budgets
        elif self.random.random() < 0.3:
            assert self.plane.admin("DELETE", f"/admin/keys/{name}").status == 200
            del self.managed[name]
            self.rotated.discard(name)
        elif self.random.random() < 0.3:
            body = json.dumps({"grace_s": self.random.choice([0, 3_600])}).encode()
            answer = self.plane.admin("POST", f"/admin/keys/{name}/rotate", body)
            # Nine secrets of a key cannot work at once.
            assert answer.status == 200 or answer.json()["code"] == "conflict", answer
            if answer.status == 200:
                assert answer.json()["key_sha256"] == self.managed[name][0]
                self.rotated.add(name)
        else:
            members = ("budget_usd", "soft_budget_usd", "budget_period", "budget_timezone")
            body = json.dumps({member: budgets.get(member) for member in members}).encode()
            assert self.plane.admin("PATCH", f"/admin/keys/{name}", body).status == 200
            self.managed[name] = self.managed[name][0], budgets

    def reload(self) -> None:
        """A file key gets other budgets; one may be the secret of a managed key."""
        name = self.random.choice("abc")
        self.files[name] = self.files[name][0], self.budgets()
        self.files.pop("same", None)
        if self.managed and self.random.random() < 0.5:
            self.files["same"] = self.random.choice(list(self.managed.values()))[0], self.budgets()
        self.plane.write_config(self.config())
        self.plane.config_file.reload(Cause(SIGNAL))
        assert not self.plane.config_file.faults

    def restart(self) -> None:
        """From its snapshot, or from a replay; nothing is told again."""
        seconds = self.plane.clock.seconds()
        self.plane.close()
        if self.random.random() < 0.5:
            for path in glob.glob(os.path.join(self.folder, "ledger.snapshot*")):
                os.unlink(path)
        self.plane = Plane(self.folder, self.config(), open_ledger=False)
        self.plane.clock.rightNow = seconds
        self.plane.open_ledger()
        with capturedLogs() as logged:
            self.poll()
        assert not [line for line in logged if "soft budget" in str(line.get("log_format"))]

    def turn(self) -> None:
        """On to a turn, a moment before it or behind it, or just on."""
        now_ms = self.plane.now_ms()
        period, zone = (
            self.random.choice([DAILY, WEEKLY, MONTHLY]),
            self.random.choice([UTC, self.zone]),
        )
        to_ms = span(period, now_ms, zone)[1] + self.random.choice([-1, 0, 1])
        if self.random.random() < 0.5:
            to_ms = now_ms + self.random.choice([100, QUARTER_MS, HOUR_MS, 5 * HOUR_MS])
        self.plane.clock.advance(max(0.0, (to_ms + 0.5) / 1000 - self.plane.clock.seconds()))

    def set_back(self) -> None:
        """The clock is set back, as far as the ledger still has the days of every zone.

        That is to where it is the day before the latest that UTC had, twelve hours behind UTC.
        """
        now = self.plane.clock.seconds()
        self.latest = max(self.latest, now)
        back = self.random.choice([1, 3_600, 86_400])
        kept = self.latest // 86_400 * 86_400 - 12 * 3_600
        self.plane.clock.rightNow = max(now - back, kept)

    def poll(self) -> str:
        """Hold what a data plane gets against the sums; the version of it."""
        reply = self.plane.internal("GET", "/internal/config")
        snapshot = decode_snapshot(reply.body)
        # Of a file key and a managed key with one secret the file key counts, unless the managed
        # key was rotated and has others.
        keys = dict(self.managed.values()) | dict(self.files.values())
        keys |= dict(self.managed[name] for name in self.rotated)
        found = {key.sha256: key.blocked for key in snapshot.keys}
        assert found == {key: self.is_over(key, keys[key], "budget_usd") for key in keys}, found
        soft = {key for key in keys if self.is_over(key, keys[key], "soft_budget_usd")}
        assert self.plane.watch.over_soft == soft, soft
        return snapshot.version

    def is_over(self, sha256: str, budgets: dict[str, Any], member: str) -> bool:
        """Whether a key has spent an amount in its period, by the list."""
        if member not in budgets:
            return False
        zone = budgets.get("budget_timezone", UTC)
        begun, end = span(budgets["budget_period"], self.plane.now_ms(), zone)
        spent = sum(nano for key, at, nano in self.spent if key == sha256 and begun <= at < end)
        amount = Decimal(str(budgets[member]))
        return spent >= amount.scaleb(9)


class StoryTests(SynchronousTestCase):
    """Whatever happens, blocked is who has spent the budget, at every poll."""

    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 2**32))
    def test_stories(self, seed: int) -> None:
        """Forty steps each."""
        story = Story(self.mktemp(), seed)
        try:
            for _ in range(40):
                story.step()
        finally:
            story.plane.close()

"""Plays runs by their seeds: for the test, and for ``make soak``."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from tests.simulation import config
from tests.simulation.control_side import ReadOnce
from tests.simulation.data_side import settings
from tests.simulation.machine import real_disk
from tests.simulation.story import Story

if TYPE_CHECKING:
    from omnigate.settings import DataSettings


#: Objects between two collections of young ones: a run leaves planes that were killed in the midst
#: of everything, and to look through them every 700 objects takes a tenth of the time.
YOUNG_OBJECTS = 20_000


class FailedRunError(AssertionError):
    """A run did not end as it must; the text says which, why, and how to see it again."""


@attrs.define
class Tally:
    """What the runs so far came to.

    :ivar powerless: those in which the data plane's power failed.
    :ivar filled: those in which its disk was full.
    """

    runs: int = 0
    requests: int = 0
    events: int = 0
    faults: int = 0
    polls: int = 0
    blocked_polls: int = 0
    under_way: int = 0
    unsynced: int = 0
    unwritten: int = 0
    powerless: int = 0
    filled: int = 0

    def count(self, story: Story) -> None:
        """Count one run in."""
        excused = story.bill.excused
        self.runs += 1
        self.requests += len(story.asked)
        self.events += len(story.bill.events)
        self.faults += len(story.mishaps.names)
        self.polls += story.bill.polls
        self.blocked_polls += story.bill.blocked_polls
        self.under_way += excused.under_way
        self.unsynced += excused.unsynced
        self.unwritten += excused.unwritten
        self.powerless += story.mishaps.power_lost
        self.filled += story.mishaps.disk_filled


class Stage:
    """What all runs share and none changes: the config files, and the settings.

    From the first run on the program's disk is a simulated one, until :meth:`close`.

    :param folder: an existing folder for the config files, which are the only real ones.
    """

    def __init__(self, folder: str) -> None:
        self.config_paths: list[str] = []
        for days in config.LEDGER_DAYS:
            self.config_paths.append(os.path.join(folder, f"omnigate-{days}.toml"))
            with open(self.config_paths[-1], "w", encoding="utf-8") as file:
                file.write(config.text(days))
            ReadOnce.read_now(self.config_paths[-1], Clock())
        self.settings: DataSettings = settings()
        self._collected_after = gc.get_threshold()
        gc.set_threshold(YOUNG_OBJECTS, *self._collected_after[1:])

    def close(self) -> None:
        """Give the real disk back to the program."""
        real_disk()
        gc.set_threshold(*self._collected_after)

    def story(self, seed: int, keeps_trace: bool = False) -> Story:
        """The run of a seed, before it is played."""
        return Story(seed, self.config_paths, self.settings, keeps_trace)

    def play(self, seed: int, keeps_trace: bool = False) -> Story:
        """Play the run of a seed.

        :raises FailedRunError: something did not hold, or the program broke on the way.
        """
        story = self.story(seed, keeps_trace)
        broken: list[str] = []

        @implementer(ILogObserver)
        def look(event: Any) -> None:
            if event["log_level"] is LogLevel.critical:
                broken.append(formatEvent(event))

        globalLogPublisher.addObserver(look)
        try:
            story.play()
        except Exception as error:
            raise FailedRunError(_told(story, f"{type(error).__name__}: {error}")) from error
        finally:
            globalLogPublisher.removeObserver(look)
        if broken:
            raise FailedRunError(_told(story, f"the program broke: {broken[0]}"))
        return story


def _told(story: Story, what: str) -> str:
    seed = story.world.seed
    return (
        f"run {seed}: {what}\n  after: {'; '.join(story.mishaps.names) or 'no fault'}\n"
        f'  see it again: make soak ARGS="--seed {seed}"'
    )

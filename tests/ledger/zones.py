"""Time zones that the tests ask: all that there are, and those that do something unlike others."""

import struct
from typing import Final
from zoneinfo import available_timezones

from omnigate.periods import UnknownZoneError, time_zone

#: Zones with a summer time, an offset or a midnight unlike the others'.
ODD_ZONES = (
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Stockholm",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Etc/GMT+12",
)


_HEAD: Final = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
_CLOCKS: Final = struct.pack(">lbb", 3600, 0, 0) + b"XYZ\0"
FOOTER: Final = b"\nXYZ-1\n"

#: A zone file: an hour ahead of UTC for ever.
ZONE_FILE: Final = 2 * (_HEAD + _CLOCKS) + FOOTER


def write_zone(path: str, data: bytes = ZONE_FILE) -> None:
    """Write a zone file."""
    with open(path, "wb") as file:
        file.write(data)


def _is_place(name: str) -> bool:
    try:
        time_zone(name)
    except UnknownZoneError:
        return False
    return True


#: Every zone that a budget may name.
PLACES = sorted(filter(_is_place, available_timezones()))

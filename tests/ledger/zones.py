"""Time zones that the tests ask: all that there are, and those that do something unlike others."""

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


def _is_place(name: str) -> bool:
    try:
        time_zone(name)
    except UnknownZoneError:
        return False
    return True


#: Every zone that a budget may name.
PLACES = sorted(filter(_is_place, available_timezones()))

"""How many files the data plane's processes may have open, which connections are too."""

from __future__ import annotations

from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

#: Files beside connections: logs, spool, the reactor's own, and some to spare.
OTHER_FILES = 256


def needed_files(connections: int) -> int:
    """Return how many files so many clients may need: most have an upstream beside them."""
    return 2 * connections + OTHER_FILES


def allow_open_files(needed: int) -> str | None:
    """Raise the soft limit on open files as far as the hard one lets.

    Processes that are started later have the same limit.

    :returns: where that is not enough, words that say so and what to do.
    """
    soft, hard = getrlimit(RLIMIT_NOFILE)
    reached = needed if hard == RLIM_INFINITY else min(needed, hard)
    if soft != RLIM_INFINITY and soft < reached:
        setrlimit(RLIMIT_NOFILE, (reached, hard))
    if reached == needed:
        return None
    return (
        f"only {reached} files may be open, and OMNIGATE_MAX_CONNECTIONS may need {needed}; raise "
        "the hard limit (LimitNOFILE= of the unit, ulimit -Hn in a shell) or lower the setting"
    )

"""What the page of refusals shows, made of the counts that data planes reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import attrs

from omnigate.control.admin_key import ADDRESS, DISABLED, EXPIRED
from omnigate.control.auth import ADMIN, INTERNAL
from omnigate.control.dashboard.paths import key_path
from omnigate.control.dashboard.refusal_words import RefusalWords, words_of
from omnigate.control.reports import OTHER_KEY, RefusalRow

PATH: Final = "/refusals"

#: How requests are called that had no key that is known.
NO_KEY: Final = "(no known key)"


@attrs.define
class Reason:
    """All refusals for one reason.

    :ivar path: the page of these alone.
    :ivar count: how many.
    :ivar last_ms: when the last one was reported, in milliseconds since 1970.
    """

    code: str
    words: RefusalWords
    path: str
    count: int = 0
    last_ms: int = 0


@attrs.frozen
class Refused:
    """The refusals of one key for one reason.

    :ivar key: as it is shown.
    :ivar key_path: the key's page; empty where there is no such key any more.
    """

    key: str
    key_path: str
    code: str
    count: int
    last_ms: int


@attrs.frozen
class Misfit:
    """Wrong credentials at the control plane itself."""

    who: str
    why: str
    count: int


def chosen(rows: Iterable[RefusalRow], key: str, code: str) -> list[RefusalRow]:
    """Return the rows of a key and for a code; the empty string stands for all.

    :param key: a part of the key's name, in any case; :data:`NO_KEY` is a name, too.
    """
    wanted = key.casefold()
    return [
        row
        for row in rows
        if (not code or row.code == code) and wanted in (row.key or NO_KEY).casefold()
    ]


def reasons_of(rows: Iterable[RefusalRow], key: str) -> list[Reason]:
    """Return the reasons of these rows, the most frequent one first.

    :param key: what the keys were chosen by, for the links.
    """
    found: dict[str, Reason] = {}
    for row in rows:
        reason = found.get(row.code)
        if reason is None:
            wanted = {"key": key, "code": row.code} if key else {"code": row.code}
            path = f"{PATH}?{urlencode(wanted)}"
            reason = found[row.code] = Reason(row.code, words_of(row.code), path)
        reason.count += row.count
        reason.last_ms = max(reason.last_ms, row.last_ms)
    return sorted(found.values(), key=lambda reason: (-reason.count, reason.code))


def refused_keys(rows: Sequence[RefusalRow], known: Collection[str]) -> list[Refused]:
    """Return rows as they are shown.

    :param known: the names of the keys that there are.
    """
    return [
        Refused(
            row.key or NO_KEY,
            key_path(row.key) if row.key in known and row.key != OTHER_KEY else "",
            row.code,
            row.count,
            row.last_ms,
        )
        for row in rows
    ]


_WHO: Final = {ADMIN: "Operators", INTERNAL: "Data planes"}
_WHY: Final = {
    "missing": "no credential came with the request",
    "wrong": "the credential was wrong",
    "locked": "the address was locked out after too many wrong ones",
    DISABLED: "the admin key is disabled",
    EXPIRED: "the admin key has expired",
    ADDRESS: "the admin key may not be used from there",
}


def misfits_of(failures: Mapping[tuple[str, str], int]) -> list[Misfit]:
    """Return what there was of wrong credentials, the most frequent first.

    :param failures: counts by audience and reason.
    """
    found = [
        Misfit(_WHO.get(audience, audience), _WHY.get(reason, reason), count)
        for (audience, reason), count in failures.items()
        if count
    ]
    return sorted(found, key=lambda misfit: -misfit.count)

"""One gateway key as a page shows it: how it stands, what it used, who refused it and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
from markupsafe import Markup

from omnigate.config.schema import Config
from omnigate.control.dashboard.failed_requests import FailedRequest, failed_requests
from omnigate.control.dashboard.key_list import Judged, KeyList
from omnigate.control.dashboard.plots import Series, stacked
from omnigate.control.dashboard.refusal_words import RefusalWords, words_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.gateway_key import FILE, GatewayKey
from omnigate.control.last_uses import LastUse
from omnigate.control.reports import RefusalRow
from omnigate.errors import ERRORS
from omnigate.ledger.key_history import KeyHistory
from omnigate.periods import TOTAL

#: A period as one says it.
PERIOD_WORDS: Final[Mapping[str, str]] = {
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    TOTAL: "in all",
}

#: What to send to try a key, by the kind of endpoint: a path, and a body but for the model.
_TRIES: Final[Mapping[str, tuple[str, str]]] = {
    "chat": ("/chat/completions", '"messages": [{"role": "user", "content": "Say hello"}]'),
    "responses": ("/responses", '"input": "Say hello"'),
    "messages": (
        "/messages",
        '"max_tokens": 64, "messages": [{"role": "user", "content": "Say hello"}]',
    ),
    "completions": ("/completions", '"prompt": "Say hello"'),
    "embeddings": ("/embeddings", '"input": "Say hello"'),
}


#: Stands in a line to try where a key may use no model that there is.
NO_MODEL: Final = "MODEL"


@attrs.frozen
class RefusalLine:
    """Refusals of the key for one reason, in words."""

    row: RefusalRow
    words: RefusalWords
    status: int | None


@attrs.frozen
class KeyView:
    """All that a page says of one key.

    :ivar history: ``None`` until the ledger is loaded.
    :ivar plot: what it spent by day; empty where it never spent anything.
    :ivar failed: its newest failed requests among the newest of all.
    :ivar twin: whether the config file has another key of this name.
    :ivar grace_until_ms: until when an older secret works; ``None`` if none does.
    :ivar signs_until_ms: the same of an older webhook secret.
    """

    judged: Judged
    history: KeyHistory | None
    plot: Markup
    last_use: LastUse | None
    last_day: str | None
    refusals: tuple[RefusalLine, ...]
    refusals_since_ms: int
    failed: Sequence[FailedRequest]
    twin: bool
    grace_until_ms: int | None
    signs_until_ms: int | None

    @property
    def key(self) -> GatewayKey:
        """The key."""
        return self.judged.key

    @property
    def is_of_file(self) -> bool:
        """Whether it is changed in the config file."""
        return self.key.source == FILE


def find_key(sources: Sources, name: str) -> GatewayKey | None:
    """Return the key of a name; of two, the managed one, which can be changed here."""
    return sources.book.managed.get(name) or sources.book.get(name)


def view_key(sources: Sources, keys: KeyList, key: GatewayKey) -> KeyView:
    """Look at all there is of a key; takes some 6 ms, most of it for the newest requests."""
    ledger, reports, now_ms = sources.ledger, sources.reports, sources.now_ms()
    history, use, day = None, None, None
    failed: list[FailedRequest] = []
    if ledger.ready:
        history = ledger.key_history(key.hashes, now_ms)
        use = sources.last_uses.of(key.sha256)
        day = ledger.last_days(key.hashes, now_ms).get(key.sha256)
        own = (event for event in ledger.recent() if event.get("key_sha256") in key.hashes)
        failed = failed_requests(own, dict.fromkeys(key.hashes, key.name))
    return KeyView(
        keys.judge(key, {}),
        history,
        plot_days(history),
        use,
        day,
        refusal_lines(reports.of_key(key.name)),
        reports.since_ms,
        failed,
        key.source != FILE and sources.book.is_file_key(key.name),
        key.old_secrets_until_ms(now_ms),
        key.old_webhook_secrets_until_ms(now_ms),
    )


def refusal_lines(rows: Iterable[RefusalRow]) -> tuple[RefusalLine, ...]:
    """Put refusals into words."""
    return tuple(RefusalLine(row, words_of(row.code), _status(row.code)) for row in rows)


def _status(code: str) -> int | None:
    kind = ERRORS.get(code)
    return None if kind is None else kind.status


def plot_days(history: KeyHistory | None) -> Markup:
    """Plot what a key spent on each day; nothing where it spent nothing."""
    if history is None or not any(day.sums and day.sums.cost_nano for day in history.days):
        return Markup("")
    costs = [None if day.sums is None else day.sums.cost_nano for day in history.days]
    labels = [day.name for day in history.days]
    return stacked("Spend by day (UTC), the last 30 days", labels, [Series("spend", costs)], "usd")


def first_model(config: Config, key: GatewayKey) -> str:
    """Return a model that a key may use; a word to be replaced where there is none."""
    for model in config.routes_by_model:
        if key.may_use(model):
            return model
    return NO_MODEL


def curl_line(key: GatewayKey, secret: str, model: str, base_url: str) -> str:
    """Return a command that tries a key, of an endpoint that it may use."""
    bearer = f"-H 'authorization: Bearer {secret}'"
    for kind, (path, body) in _TRIES.items():
        if key.endpoints is None or kind in key.endpoints:
            return (
                f"curl {base_url}{path} {bearer} -H 'content-type: application/json' "
                f'-d \'{{"model": "{model}", {body}}}\''
            )
    return f"curl {base_url}/models {bearer}"


def sdk_lines(secret: str, base_url: str) -> str:
    """Return how a client of OpenAI's package is made with a key."""
    return f'from openai import OpenAI\nclient = OpenAI(base_url="{base_url}", api_key="{secret}")'

"""A month of a company that does not exist: what its teams asked, of whom, and how it went.

All of it is drawn of one seed, so two runs differ by the time of day alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import attrs

from omnigate.events import AttemptRecord, UsageEvent
from tests.browser import media

HOUR_MS: Final = 3600 * 1000
MINUTE_MS: Final = 60 * 1000

#: How long before now the month begins, and how many requests it has.
DAYS: Final = 30
REQUESTS: Final = 9_000
#: Requests of the last hour, which are those that pages show one by one.
LAST_HOUR: Final = 300

#: When in the last hour ``openai`` was in trouble, in minutes before now.
TROUBLE: Final = (38.0, 21.0)


@attrs.frozen
class Team:
    """One application, and how much of everything is its doing.

    :ivar models: what it asks for, with weights.
    :ivar limits: members of its key as the admin API has them.
    :ivar spent: which share of its budget is spent; ``None`` where it has none.
    """

    name: str
    weight: float
    models: Mapping[str, float]
    limits: Mapping[str, Any] = attrs.Factory(dict)
    spent: float | None = None
    soft: bool = False


TEAMS: Final = (
    Team(
        "checkout-assistant",
        30,
        {"fast": 6, "smart": 1},
        {"rpm": 600, "budget_period": "monthly"},
        spent=0.62,
    ),
    Team(
        "support-bot",
        24,
        {"smart": 3, "fast": 2},
        {"max_concurrent": 20, "budget_period": "monthly", "budget_timezone": "Europe/Berlin"},
        spent=0.91,
        soft=True,
    ),
    Team("search-ranking", 18, {"embeddings": 5, "fast": 1}, {"tpm": 400_000}),
    Team(
        "nightly-summaries",
        10,
        {"cheap": 4, "smart": 1},
        {"budget_period": "monthly", "models": ["cheap", "smart"]},
        spent=1.04,
    ),
    Team("data-science", 9, {"smart": 2, "reasoning": 0.6, "cheap": 1}),
    Team(
        "mobile-app",
        7,
        {"fast": 1},
        {"rpm": 120, "budget_period": "total", "endpoints": ["chat"]},
        spent=0.18,
    ),
    Team("intern-playground", 2, {"cheap": 1}, {"budget_period": "weekly"}, spent=0.35),
)
#: A key that asks for nothing any more, and one that never has.
RETIRED: Final = "legacy-crm"
NEW: Final = "contract-review"


@attrs.frozen
class Model:
    """What a model name leads to.

    :ivar targets: pairs of upstream and model, the first one first.
    :ivar tokens: typical counts of input and output.
    :ivar ms: what an answer typically takes.
    """

    targets: tuple[tuple[str, str], ...]
    tokens: tuple[int, int]
    ms: int
    endpoint: str = "chat"
    cache_ttl_s: int = 0


MODELS: Final = {
    "fast": Model(
        (("openai", "gpt-5.4-mini"), ("mistral", "mistral-small-latest")), (5_400, 700), 1_900
    ),
    "smart": Model(
        (("anthropic", "claude-sonnet-5-5"), ("openai", "gpt-6.2-sol")),
        (14_000, 900),
        5_200,
        "messages",
    ),
    "cheap": Model((("mistral", "mistral-small-latest"),), (22_000, 1_100), 3_800, cache_ttl_s=600),
    "reasoning": Model(
        (("openai", "gpt-6.2-astra"), ("anthropic", "claude-opus-5-5")), (9_000, 3_100), 24_000
    ),
    "embeddings": Model((("openai", "text-embedding-3-small"),), (2_200, 0), 180, "embeddings"),
}

#: How busy the hours of a day are, from midnight on, and the days of a week from Thursday on, on
#: which the count of days begins.
_HOURS: Final = (2, 1, 1, 3, 4, 2, 2, 4, 8, 12, 14, 13, 11, 12, 14, 14, 12, 9, 6, 5, 4, 4, 3, 3)
_WEEK: Final = (1.0, 0.9, 0.3, 0.25, 0.95, 1.05, 1.0)


#: How attempts fail, with what status and within how many milliseconds, and how often of twenty.
_FAULTS: Final[Mapping[tuple[str, int | None, tuple[int, int]], int]] = {
    ("status_503", 503, (40, 900)): 12,
    ("status_429", 429, (30, 200)): 4,
    ("connect_error", None, (2, 20)): 3,
    ("timeout", None, (30_000, 30_000)): 1,
}


def config(provider_port: int) -> str:
    """Return the config file; every upstream of it is the one provider on a port of loopback."""
    parts = [_FILE_KEY]
    for name, protocol in (("openai", "openai"), ("anthropic", "anthropic"), ("mistral", "openai")):
        parts.append(
            f'[[upstreams]]\nname = "{name}"\nprotocol = "{protocol}"\n'
            f'base_url = "http://127.0.0.1:{provider_port}/v1"\napi_key_env = "PROVIDER_KEY"\n'
        )
    for name, model in MODELS.items():
        cache = f"cache_ttl_s = {model.cache_ttl_s}\n" if model.cache_ttl_s else ""
        parts.append(f'[[routes]]\nmodel = "{name}"\n{cache}')
        for upstream, target in model.targets:
            parts.append(f'  [[routes.targets]]\n  upstream = "{upstream}"\n  model = "{target}"\n')
    return "\n".join(parts) + media.CONFIG


_FILE_KEY: Final = """\
[[keys]]
name = "status-page"
key_sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
rpm = 10
models = ["fast", "cheap"]
"""


def events(now_ms: int, hashes: Mapping[str, str]) -> Iterator[UsageEvent]:
    """Yield the month, the oldest first.

    :param now_ms: milliseconds since 1970; the last request has just ended.
    :param hashes: the hash of each team's key.
    """
    dice = Random("a month")
    moments = sorted([*_month(dice, now_ms), *_hour(dice, now_ms)])
    weights = [team.weight for team in TEAMS]
    for number, ts_ms in enumerate(moments):
        (team,) = dice.choices(TEAMS, weights)
        yield _event(dice, f"{number:08x}", hashes[team.name], team, ts_ms, now_ms)


def _month(dice: Random, now_ms: int) -> Iterator[int]:
    """Yield when the requests before the last hour ended: more by day, and more each week."""
    hours = range(now_ms // HOUR_MS - DAYS * 24, now_ms // HOUR_MS - 1)
    weights = [
        _HOURS[hour % 24] * _WEEK[hour // 24 % 7] * (1 + (hour - hours[0]) / len(hours))
        for hour in hours
    ]
    for hour in dice.choices(hours, weights, k=REQUESTS):
        yield hour * HOUR_MS + dice.randrange(HOUR_MS)


def _hour(dice: Random, now_ms: int) -> Iterator[int]:
    for _ in range(LAST_HOUR):
        yield now_ms - int(HOUR_MS * dice.random() ** 1.1)


def _event(
    dice: Random, identity: str, key_sha256: str, team: Team, ts_ms: int, now_ms: int
) -> UsageEvent:
    (name,) = dice.choices(list(team.models), list(team.models.values()))
    model = MODELS[name]
    takes_ms = int(model.ms * dice.lognormvariate(0, 0.4))
    event = UsageEvent(
        id=f"{identity}{dice.getrandbits(96):024x}",
        key_sha256=key_sha256,
        route_model=name,
        upstream=None,
        target_model=None,
        status=200,
        stream=model.endpoint != "embeddings" and dice.random() < 0.7,
        input_tokens=0,
        cached_input_tokens=0,
        cache_write_input_tokens=0,
        output_tokens=0,
        cached=False,
        estimated=False,
        latency_ms=takes_ms,
        attempts=[],
        ts_ms=ts_ms,
        endpoint=model.endpoint,
    )
    if model.cache_ttl_s and dice.random() < 0.15:
        event.cached, event.latency_ms = True, dice.randrange(1, 4)
        return event
    _try_targets(dice, event, model, takes_ms, (now_ms - ts_ms) / MINUTE_MS)
    if event.status == 200:
        _count(dice, event, model)
    return event


def _try_targets(
    dice: Random, event: UsageEvent, model: Model, takes_ms: int, minutes_ago: float
) -> None:
    """Try one target after the other, as a data plane would, and note how it went."""
    event.latency_ms = 0
    for upstream, target in model.targets:
        broken = upstream == "openai" and TROUBLE[1] < minutes_ago < TROUBLE[0]
        tried = AttemptRecord(upstream, target, "ok", 200, takes_ms)
        if dice.random() < (0.7 if broken else 0.012):
            (fault,) = dice.choices(list(_FAULTS), list(_FAULTS.values()))
            tried.outcome, tried.status, (least, most) = fault
            tried.duration_ms = dice.randint(least, most)
        event.attempts.append(tried)
        event.latency_ms += tried.duration_ms
        if tried.outcome == "ok":
            event.upstream, event.target_model = upstream, target
            return
    event.status = 502


def _count(dice: Random, event: UsageEvent, model: Model) -> None:
    """Say how many tokens an answer used; a few clients leave before its end."""
    read, written = (int(typical * dice.lognormvariate(0, 0.5)) for typical in model.tokens)
    if event.stream and dice.random() < 0.01:
        event.status, event.estimated, written = 499, True, written // 3
        event.attempts[-1].outcome = "canceled"
    if model.endpoint == "messages" and dice.random() < 0.5:
        event.cached_input_tokens = read * 3 // 4
        event.cache_write_input_tokens = read // 20
    event.input_tokens = read - event.cached_input_tokens - event.cache_write_input_tokens
    event.output_tokens = written


#: What data planes turned away: key, code, how often.
REFUSALS: Final = (
    ("mobile-app", "rate_limit_exceeded", 23),
    ("nightly-summaries", "budget_exceeded", 9),
    ("", "invalid_api_key", 4),
    ("intern-playground", "model_not_found", 2),
    ("mobile-app", "endpoint_not_allowed", 3),
    ("nightly-summaries", "model_not_allowed", 2),
    (RETIRED, "invalid_api_key", 1),
    ("data-science", "concurrency_limit_exceeded", 1),
)

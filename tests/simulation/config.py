"""The config of every run: keys, some with budgets, and routes over four upstreams."""

from __future__ import annotations

import hashlib

import attrs


@attrs.frozen
class Budget:
    """What a key may spend, in nano-dollars, and in what period."""

    name: str
    nano: int
    period: str
    zone: str = "UTC"


NAMES = ("free", "daily", "weekly", "monthly", "total", "stockholm", "newyork", "kiritimati")

#: The secrets of the keys, by name.
SECRETS = {name: f"og-{name}-0123456789abcdef" for name in NAMES}

SHA256 = {name: hashlib.sha256(secret.encode()).hexdigest() for name, secret in SECRETS.items()}

#: Nano-dollars for one token, by upstream: input, cached, written to the cache, output.
PRICES = {
    "open1": (150, 75, 150, 600),
    "open2": (2_500, 1_250, 2_500, 10_000),
    "claude1": (3_000, 300, 3_750, 15_000),
    "claude2": (800, 80, 1_000, 4_000),
}

#: By the hash of the key.
BUDGETS = {
    SHA256["daily"]: Budget("daily", 40_000_000, "daily"),
    SHA256["weekly"]: Budget("weekly", 60_000_000, "weekly"),
    SHA256["stockholm"]: Budget("stockholm", 40_000_000, "daily", "Europe/Stockholm"),
    SHA256["newyork"]: Budget("newyork", 50_000_000, "weekly", "America/New_York"),
    SHA256["kiritimati"]: Budget("kiritimati", 70_000_000, "monthly", "Pacific/Kiritimati"),
    SHA256["monthly"]: Budget("monthly", 90_000_000, "monthly"),
    SHA256["total"]: Budget("total", 150_000_000, "total"),
}

#: For how many days the ledger knows an id again; calendars jump by months here, and nothing may
#: wait in a spool for longer.
IDS_DAYS = 100


#: For how many days sealed segments are kept, in either config; 0 is for ever.
LEDGER_DAYS = (0, 2)


def text(ledger_days: int) -> str:
    """The config file."""
    parts = [f"[retention]\nledger_ids_days = {IDS_DAYS}\nledger_days = {ledger_days}\n"]
    for name, sha256 in SHA256.items():
        parts.append(f'[[keys]]\nname = "{name}"\nkey_sha256 = "{sha256}"\n')
        budget = BUDGETS.get(sha256)
        if budget is not None:
            parts.append(f'budget_usd = {budget.nano / 10**9}\nbudget_period = "{budget.period}"\n')
            if budget.zone != "UTC":
                parts.append(f'budget_timezone = "{budget.zone}"\n')
    for name in PRICES:
        protocol = "anthropic" if name.startswith("claude") else "openai"
        parts.append(
            f'[[upstreams]]\nname = "{name}"\nprotocol = "{protocol}"\n'
            f'base_url = "http://{name}.test/v1"\napi_key_env = "UPSTREAM_KEY"\n'
            "head_timeout_ms = 5000\n"
            f'abandon = "{"cancel" if name.endswith("2") else "read_on"}"\n'
        )
    parts.append(_route("fast", "open1", "open2"))
    parts.append(_route("claude", "claude1", "claude2"))
    parts.append(_route("crossed", "claude2", "open2"))
    parts.append(_route("kept", "open1", cached=True))
    return "\n".join(parts)


def _route(model: str, *upstreams: str, cached: bool = False) -> str:
    lines = [f'[[routes]]\nmodel = "{model}"']
    if cached:
        lines.append("cache_ttl_s = 60")
    for upstream in upstreams:
        prices = [f"{nano / 1000:g}" for nano in PRICES[upstream]]
        lines.append(
            f'[[routes.targets]]\nupstream = "{upstream}"\nmodel = "{upstream}-model"\n'
            f"price = {{ input = {prices[0]}, cached_input = {prices[1]},"
            f" cache_write = {prices[2]}, output = {prices[3]} }}"
        )
    return "\n".join(lines) + "\n"

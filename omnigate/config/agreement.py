"""What the parts of a config must agree on: names used once, references that lead somewhere.

These checks look at the document as the TOML reader gave it and pass over whatever has not even
the right shape, so that they find their faults in the same run as the checks of single values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, TypeGuard

from omnigate.config.media_agreement import media_disagreements
from omnigate.config.rows import Row, rows, used_once
from omnigate.config.structure import Fault
from omnigate.config.values import did_you_mean, quoted
from omnigate.periods import TOTAL

if TYPE_CHECKING:
    from omnigate.config.schema import Config


def disagreements(document: Row) -> Iterator[Fault]:
    """Yield every fault that more than one value of the document takes part in."""
    keys = list(rows(document, "keys"))
    upstreams = list(rows(document, "upstreams"))
    routes = list(rows(document, "routes"))
    yield from used_once(keys, "name")
    yield from used_once(keys, "key_sha256")
    yield from used_once(keys, "key_env")
    yield from used_once(upstreams, "name")
    yield from used_once(routes, "model")
    for path, key in keys:
        yield from _key(path, key)
    for path, upstream in upstreams:
        yield from _upstream(path, upstream)
    names = [name for _, row in upstreams if isinstance(name := row.get("name"), str)]
    # One upstream taken out may be missed by thousands of targets, and a suggestion is slow.
    missing: dict[str, str] = dict.fromkeys(names, "")
    for path, route in routes:
        yield from _route(path, route, names, missing)
    yield from media_disagreements(document)


def models_of_no_route(config: Config) -> Iterator[Fault]:
    """Yield what keys may use and no route is there for: no fault, since one may come yet."""
    models = sorted((*config.routes_by_model, *config.media_by_model))
    for index, key in enumerate(config.keys):
        for pattern in key.models or ():
            if not _matches_any(pattern, models):
                message = f"no route has a model {quoted(pattern)}{did_you_mean(pattern, models)}"
                yield Fault(f"keys[{index}].models", message, quoted(key.name))


#: The ``caps`` that only a translation to an upstream of this protocol looks at.
_CAPS_OF = {
    "anthropic": (
        "thinking",
        "thinking_off",
        "forced_tools",
        "mid_system",
        "prefill",
        "structured_outputs",
    ),
    "openai": (
        "reasoning",
        "effort_none",
        "stop",
        "max_tokens_field",
        "user_field",
        "upstream_api",
    ),
}


def caps_of_other_protocol(config: Config) -> Iterator[Fault]:
    """Yield what targets say of their models that their upstreams' protocol has no use for."""
    protocols = {upstream.name: upstream.protocol for upstream in config.upstreams}
    for number, route in enumerate(config.routes):
        for place, target in enumerate(route.targets):
            protocol = protocols[target.upstream]
            path = f"routes[{number}].targets[{place}]"
            other = "openai" if protocol == "anthropic" else "anthropic"
            idle = [
                f"caps.{name}" for name in _CAPS_OF[other] if getattr(target.caps, name) is not None
            ]
            if other == "anthropic" and target.default_max_tokens is not None:
                idle.append("default_max_tokens")
            for name in idle:
                message = f'has no effect: it is for upstreams with protocol = "{other}"'
                yield Fault(f"{path}.{name}", message, quoted(route.model))


def _matches_any(pattern: str, models: list[str]) -> bool:
    """Whether one of the models, in order, is the pattern's."""
    prefix = pattern.removesuffix("*")
    place = bisect_left(models, prefix)
    if place == len(models):
        return False
    return models[place] == pattern or (prefix != pattern and models[place].startswith(prefix))


def _key(path: str, key: Row) -> Iterator[Fault]:
    if ("key_sha256" in key) == ("key_env" in key):
        yield Fault(path, "needs exactly one of key_sha256 and key_env")
    for member, fault in budget_disagreements(key):
        yield Fault(f"{path}.{member}", fault)


def budget_disagreements(key: Row) -> Iterator[tuple[str, str]]:
    """Yield each member of a key's budgets that does not go with the others, and why.

    :param key: the members as they were written; None counts as left out.
    """
    budget, soft = key.get("budget_usd"), key.get("soft_budget_usd")
    if budget is None and soft is None:
        for member in ("budget_period", "budget_timezone"):
            if key.get(member) is not None:
                yield member, "there is no budget_usd or soft_budget_usd that it could count for"
    elif key.get("budget_timezone") is not None and key.get("budget_period", TOTAL) == TOTAL:
        yield "budget_timezone", "has no meaning without a budget_period that turns"
    if _is_amount(budget) and _is_amount(soft) and soft > budget:
        yield "soft_budget_usd", "is more than budget_usd, which would block the key before it"


def _is_amount(value: object) -> TypeGuard[Decimal]:
    """Tell whether a value is an amount that can be compared; its own check judges the rest."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    return Decimal(value).is_finite()


def _upstream(path: str, upstream: Row) -> Iterator[Fault]:
    if upstream.get("protocol") == "openai":
        for field in ("anthropic_version", "drop_betas"):
            if field in upstream:
                yield Fault(f"{path}.{field}", 'only goes with protocol = "anthropic"')
    if upstream.get("protocol") == "anthropic" and "attestation" in upstream:
        yield Fault(f"{path}.attestation", 'only goes with protocol = "openai"')
    url = upstream.get("base_url")
    if "ca_file" in upstream and isinstance(url, str) and url.lower().startswith("http://"):
        yield Fault(f"{path}.ca_file", "has no effect: base_url is http, not https")


def _route(path: str, route: Row, names: list[str], missing: dict[str, str]) -> Iterator[Fault]:
    """Judge one route.

    :param missing: what to say of an upstream by its name, empty for one that is there; filled
        on the way.
    """
    first: dict[tuple[str, str], str] = {}
    weights = 0
    targets = list(rows(route, "targets", f"{path}."))
    for at, target in targets:
        upstream, model = target.get("upstream"), target.get("model")
        if isinstance(upstream, str):
            if upstream not in missing:
                hint = did_you_mean(upstream, names)
                missing[upstream] = f"no upstream named {quoted(upstream)}{hint}"
            if missing[upstream]:
                yield Fault(f"{at}.upstream", missing[upstream])
        if isinstance(upstream, str) and isinstance(model, str):
            if (upstream, model) in first:
                yield Fault(at, f"is the same upstream and model as {first[upstream, model]}")
            else:
                first[upstream, model] = at
        weights += target.get("weight", 1) != 0
    if route.get("strategy") == "weighted" and targets and not weights:
        yield Fault(f"{path}.targets", "all weights are 0: at least one must be more")

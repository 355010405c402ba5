"""What the parts of ``[media]`` must agree on; see :mod:`omnigate.config.agreement`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TypeGuard

from omnigate.config.media import WebhooksConfig
from omnigate.config.media_values import DURATION_FIELDS
from omnigate.config.rows import Row, rows, table, used_once
from omnigate.config.structure import Fault
from omnigate.config.values import quoted


def media_disagreements(document: Row) -> Iterator[Fault]:
    """Yield every fault of ``[media]`` that more than one value takes part in."""
    media = table(document, "media")
    routes = list(rows(media, "routes", "media."))
    yield from used_once(routes, "model")
    yield from _models_of_text(document, routes)
    if media.get("storage") == "s3" and "s3" not in media:
        yield Fault("media.s3", 'is missing: storage = "s3" needs [media.s3], the bucket')
    yield from _webhooks(table(media, "webhooks"))
    for path, route in routes:
        yield from _route(path, route)


def _models_of_text(document: Row, routes: list[tuple[str, Row]]) -> Iterator[Fault]:
    text = {
        model: path
        for path, route in rows(document, "routes")
        if isinstance(model := route.get("model"), str)
    }
    for path, route in routes:
        model = route.get("model")
        if isinstance(model, str) and model in text:
            message = f"is the same as {text[model]}.model; a model is one of text or of media jobs"
            yield Fault(f"{path}.model", message)


def _webhooks(webhooks: Row) -> Iterator[Fault]:
    each = webhooks.get("max_concurrent_per_key")
    most = webhooks.get("max_concurrent", WebhooksConfig().max_concurrent)
    if _is_whole(each) and _is_whole(most) and each > most:
        yield Fault("media.webhooks.max_concurrent_per_key", "is more than max_concurrent")


def _route(path: str, route: Row) -> Iterator[Fault]:
    listed = route.get("allowed_input")
    allowed = None
    if isinstance(listed, list):
        allowed = frozenset(field for field in listed if isinstance(field, str))
    if allowed is not None:
        multipliers = table(route, "price_multipliers")
        for field in multipliers:
            if field not in allowed:
                message = f"{quoted(field)} is not in allowed_input, so no job can name it"
                yield Fault(f"{path}.price_multipliers", message)
    for at, target in rows(route, "targets", f"{path}."):
        yield from _target(at, target)
        if allowed is not None and allowed.isdisjoint(DURATION_FIELDS) and _needs_duration(target):
            message = (
                "is priced per second, and allowed_input lets no job name a duration: give it "
                f"default_seconds, or allow {' or '.join(DURATION_FIELDS)}"
            )
            yield Fault(at, message)


def _target(path: str, target: Row) -> Iterator[Fault]:
    least, most = target.get("min_seconds", 0), target.get("max_seconds")
    usual = target.get("default_seconds")
    if _is_whole(least) and _is_whole(most) and most < least:
        yield Fault(f"{path}.max_seconds", "is less than min_seconds")
    elif _is_whole(usual):
        if _is_whole(least) and usual < least:
            yield Fault(f"{path}.default_seconds", "is less than min_seconds")
        if _is_whole(most) and usual > most:
            yield Fault(f"{path}.default_seconds", "is more than max_seconds")
    if "background" in target and target.get("adapter") != "gemini_interactions":
        yield Fault(f"{path}.background", 'only goes with adapter = "gemini_interactions"')


def _needs_duration(target: Row) -> bool:
    price = target.get("price")
    second = price.get("per_second") if isinstance(price, Mapping) else None
    if isinstance(second, bool) or not isinstance(second, (int, float, Decimal)):
        return False
    return Decimal(second).is_finite() and second > 0 and "default_seconds" not in target


def _is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a number that can be compared; its own check judges the rest."""
    return isinstance(value, int) and not isinstance(value, bool)

"""What models cost: the target's own price, or else the built-in table, ``prices.toml``.

The table holds list prices of one day. It is a convenience: the operator's ``price`` on a target
always wins, and whatever shows money should say the date of the table with it.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from importlib import resources
from typing import Any

from omnigate.config.model_ids import spellings
from omnigate.config.schema import Config, PriceConfig
from omnigate.money import Price, price_from_usd


def _read_table() -> tuple[str, Mapping[str, Price]]:
    """Return the date of the built-in table and its prices by model id."""
    text = resources.files("omnigate.config").joinpath("prices.toml").read_text("utf-8")
    document = tomllib.loads(text, parse_float=Decimal)
    prices: dict[str, Price] = {}
    for row in document["models"]:
        above = row.get("above")
        price = _price(row, (above["tokens"], _price(above)) if above else None)
        for model_id in row["ids"]:
            prices[model_id] = price
    return document["date"].isoformat(), prices


def _price(row: Mapping[str, Any], above: tuple[int, Price] | None = None) -> Price:
    return price_from_usd(
        row["input"],
        cached_input=row.get("cached_input"),
        cache_write=row.get("cache_write"),
        output=row["output"],
        above=above,
    )


#: The day of the prices in the built-in table (``YYYY-MM-DD``), and the table.
PRICES_DATE, BUILT_IN_PRICES = _read_table()


def built_in_price(model_id: str) -> Price | None:
    """Return the list price of a model, or None where the table does not know it.

    A dated release falls back to the id without the date, an id with a vendor's name in front to
    the id behind it. Nothing else is guessed: a model that only looks alike has no price.
    """
    for spelled in spellings(model_id):
        price = BUILT_IN_PRICES.get(spelled)
        if price is not None:
            return price
    return None


def price_for(config: Config, route: str, upstream: str, target_model: str) -> Price | None:
    """Return the price of an answer by the target that gave it.

    :param route: the model name of the route that the client wrote.
    :returns: None for a route or a target that the config does not have, and for a target that
        neither has a price of its own nor is in the built-in table: the caller counts it unpriced.
    """
    return find_price(config, route, upstream, target_model)[0]


def find_price(
    config: Config, route: str, upstream: str, target_model: str
) -> tuple[Price | None, bool]:
    """Return what :func:`price_for` returns, and whether it is the target's own price."""
    found = config.routes_by_model.get(route)
    if found is None:
        return None, False
    for target in found.targets:
        if target.upstream == upstream and target.model == target_model:
            if target.price is not None:
                return _own_price(target.price), True
            return built_in_price(target_model), False
    return None, False


# Called once per usage event: the few prices of a config are worth keeping.
@functools.lru_cache(maxsize=1024)
def _own_price(price: PriceConfig) -> Price:
    return price_from_usd(
        price.input,
        cached_input=price.cached_input,
        cache_write=price.cache_write,
        output=price.output,
    )

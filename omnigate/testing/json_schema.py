"""Holds JSON against a JSON Schema: as much of draft 2020-12 as our own schemas are written in.

A keyword that it does not know is an error, never passed over, so that no schema is thought to be
checked which is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

_ABOUT: Final = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$defs"}
)

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date": date.fromisoformat,
    "date-time": lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")),
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def faults(value: Any, schema: Any, document: Mapping[str, Any], place: str = "$") -> Iterator[str]:
    """Tell what is wrong with a value, each with the place it is in.

    :param document: where references of the schema lead into.
    """
    if schema is True or schema is False:
        if not schema:
            yield f"{place}: nothing may stand here"
        return
    for keyword, wanted in schema.items():
        if keyword in _ABOUT:
            continue
        check = _KEYWORDS.get(keyword)
        if check is None:
            raise ValueError(f'no way to check "{keyword}", at {place}')
        yield from check(value, wanted, schema, document, place)


def _reference(value: Any, wanted: str, schema: Any, document: Any, place: str) -> Iterator[str]:
    target: Any = document
    for step in wanted.removeprefix("#/").split("/"):
        target = target[step.replace("~1", "/").replace("~0", "~")]
    yield from faults(value, target, document, place)


def _type(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not any(_TYPES[name](value) for name in names):
        yield f"{place}: {value!r:.80} is no {' or '.join(names)}"


def _enum(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if value not in wanted:
        yield f"{place}: {value!r:.80} is none of {wanted!r:.200}"


def _const(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if value != wanted:
        yield f"{place}: {value!r:.80} is not {wanted!r:.80}"


def _any_of(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    found = [list(faults(value, each, document, place)) for each in wanted]
    if all(found):
        yield f"{place}: is none of {len(wanted)} kinds ({found[0][0]})"


def _one_of(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    right = sum(not any(faults(value, each, document, place)) for each in wanted)
    if right != 1:
        yield f"{place}: is {right} of {len(wanted)} kinds, and must be one"


def _all_of(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    for each in wanted:
        yield from faults(value, each, document, place)


def _not(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if not any(faults(value, wanted, document, place)):
        yield f"{place}: is what it must not be"


def _properties(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in wanted.keys() & value.keys():
            yield from faults(value[name], wanted[name], document, f"{place}.{name}")


def _additional(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value.keys() - schema.get("properties", {}).keys():
            yield from faults(value[name], wanted, document, f"{place}.{name}")


def _required(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in wanted:
            if name not in value:
                yield f"{place}.{name}: is missing"


def _dependent(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in wanted.keys() & value.keys():
            yield from _required(value, wanted[name], schema, document, place)


def _items(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, wanted, document, f"{place}[{index}]")


def _unique(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if wanted and isinstance(value, list):
        twice = any(value[index] in value[:index] for index in range(len(value)))
        if twice:
            yield f"{place}: holds an item twice"


def _pattern(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    # "$" of JSON Schema is the very end; Python's lets a line end follow.
    if isinstance(value, str) and not re.search(wanted.replace("$", r"\Z"), value):
        yield f"{place}: {value!r:.80} does not look like {wanted}"


def _format(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
    if isinstance(value, str):
        try:
            _FORMATS[wanted](value)
        except ValueError:
            yield f"{place}: {value!r:.80} is no {wanted}"


def _bound(
    kind: type | tuple[type, ...], good: Callable[[Any, Any], bool], words: str
) -> Callable[..., Iterator[str]]:
    """Return the check of one bound, for values of one kind."""

    def check(value: Any, wanted: Any, schema: Any, document: Any, place: str) -> Iterator[str]:
        if isinstance(value, kind) and not isinstance(value, bool) and not good(value, wanted):
            yield f"{place}: {value!r:.80} is {words} {wanted}"

    return check


_NUMBERS: Final = (int, float, Decimal)

_KEYWORDS: Final[Mapping[str, Callable[..., Iterator[str]]]] = {
    "$ref": _reference,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "dependentRequired": _dependent,
    "items": _items,
    "uniqueItems": _unique,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound(_NUMBERS, lambda value, least: value >= least, "under"),
    "maximum": _bound(_NUMBERS, lambda value, most: value <= most, "over"),
    "exclusiveMinimum": _bound(_NUMBERS, lambda value, least: value > least, "not over"),
    "exclusiveMaximum": _bound(_NUMBERS, lambda value, most: value < most, "not under"),
    "minLength": _bound(str, lambda value, least: len(value) >= least, "shorter than"),
    "maxLength": _bound(str, lambda value, most: len(value) <= most, "longer than"),
    "minItems": _bound(list, lambda value, least: len(value) >= least, "fewer than"),
    "maxItems": _bound(list, lambda value, most: len(value) <= most, "more than"),
    "minProperties": _bound(dict, lambda value, least: len(value) >= least, "fewer than"),
    "maxProperties": _bound(dict, lambda value, most: len(value) <= most, "more than"),
}

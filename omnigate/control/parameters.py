"""Parameters of a query: how each is described, and how a whole number is read by its bounds."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omnigate.control.schemas import Schema
from omnigate.control.schemas import whole as whole_schema
from omnigate.errors import GatewayError


@attrs.frozen
class Parameter:
    """One parameter of a query.

    :ivar schema: what it may be, with its bounds, and its ``default`` where there is one.
    """

    name: str
    description: str
    schema: Schema


def whole(name: str, description: str, default: int, most: int) -> Parameter:
    """Return a parameter that is a whole number from 1 to ``most``."""
    return Parameter(name, description, {**whole_schema(1, most), "default": default})


def text(name: str, description: str, most: int) -> Parameter:
    """Return a parameter that is any text of 1 to ``most`` characters."""
    return Parameter(name, description, {"type": "string", "minLength": 1, "maxLength": most})


def read_text(query: Mapping[str, str], parameter: Parameter) -> str | None:
    """Return the value of a :func:`text` parameter; ``None`` where it is not given.

    :raises GatewayError: ``invalid_request``; it is too short or too long.
    """
    name, schema = parameter.name, parameter.schema
    value = query.get(name)
    if value is None or schema["minLength"] <= len(value) <= schema["maxLength"]:
        return value
    raise GatewayError(
        "invalid_request",
        f"{name} must be {schema['minLength']} to {schema['maxLength']} characters",
        param=name,
    )


def read_whole(query: Mapping[str, str], parameter: Parameter) -> int:
    """Return the value of a :func:`whole` parameter, or its default.

    :raises GatewayError: ``invalid_request``; it is no number within its bounds.
    """
    name, schema = parameter.name, parameter.schema
    text = query.get(name)
    if text is None:
        return int(schema["default"])
    least, most = schema["minimum"], schema["maximum"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
    if not least <= number <= most:
        raise GatewayError("invalid_request", f"{name} must be {least} to {most}", param=name)
    return number

"""Small JSON Schemas for what the admin API takes and answers, and the words they are written in.

An endpoint says what its body and its answer look like by these; the OpenAPI document is made of
them, and the tests hold real answers to them. A schema with a ``title`` stands in the document
once, under that name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
DOLLARS: Final[Schema] = {"type": "number", "description": "exact US dollars"}
NAME: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
SHA256: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
TIME: Final[Schema] = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 in UTC, to the millisecond",
}
DAY: Final[Schema] = {"type": "string", "format": "date", "description": "a day of UTC"}
ANYTHING: Final[Schema] = {"type": "object"}


def record(
    members: Mapping[str, Schema],
    *,
    optional: Collection[str] = (),
    more: bool = False,
    title: str = "",
) -> Schema:
    """Return the schema of an object with these members.

    :param optional: members that may be left out.
    :param more: whether there may be others.
    :param title: the name under which others refer to it.
    """
    schema: dict[str, Any] = {"title": title} if title else {}
    schema |= {"type": "object", "properties": dict(members)}
    required = [name for name in members if name not in optional]
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": more}


def rows(of: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": of}


def one_of(*words: str) -> Schema:
    """Return the schema of one of a few words."""
    return {"type": "string", "enum": list(words)}


def whole(least: int, most: int) -> Schema:
    """Return the schema of a whole number within bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def or_null(schema: Schema) -> Schema:
    """Return a schema that takes null as well."""
    if takes_null(schema):
        return schema
    if "title" in schema or "enum" in schema or not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def takes_null(schema: Schema) -> bool:
    """Tell whether null will do."""
    return "null" in schema.get("type", ()) or {"type": "null"} in schema.get("anyOf", ())

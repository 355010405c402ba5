"""A JSON Schema of the config file, made out of its classes, for editors that read one.

The loader is the judge: what this schema refuses the loader refuses too, and the loader refuses
more, such as a name that is used twice. What single values may be is written down here once for
each check of :mod:`omnigate.config.values`; a check that is not in the table is an error, so that
none is forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

import attrs

from omnigate.config import key_values, media_values, values
from omnigate.config.schema import Config, KeyConfig
from omnigate.config.structure import Array, Value

Schema = dict[str, Any]

DIALECT: Final = "http://json-schema.org/draft-07/schema#"

#: Where etc/omnigate.schema.json says that it is from; nothing is fetched from there.
ID: Final = "https://omnigate.invalid/omnigate.schema.json"


def _words(pattern: str, longest: int) -> Schema:
    return {"type": "string", "pattern": f"^(?:{pattern})$", "maxLength": longest}


_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_FIELD: Final = r"[A-Za-z_][A-Za-z0-9_.-]*"
_ADDRESS: Final = r"[Hh][Tt][Tt][Pp][Ss]?://[^@?#]+"
_MODEL: Final = r"[A-Za-z0-9@~][A-Za-z0-9._:/@+~-]*"

#: What each check lets through, as far as a schema can say it.
_CHECKS: Final[Mapping[Callable[..., object], Schema]] = {
    values.flag: {"type": "boolean"},
    values.name: _words(_NAME, values.MAX_NAME_CHARS),
    values.model_id: _words(_MODEL, values.MAX_MODEL_CHARS),
    # One more character than a model id: the * behind it.
    values.model_pattern: _words(rf"{_MODEL}\*?|\*", values.MAX_MODEL_CHARS + 1),
    values.upstream_model: {
        "type": "string",
        "minLength": 1,
        "maxLength": values.MAX_MODEL_CHARS,
    },
    values.env_name: _words(r"[A-Za-z_][A-Za-z0-9_]*", 128),
    values.sha256_hex: _words(r"[0-9A-Fa-f]{64}", 64),
    values.plain_sha256: _words(r"[0-9A-Fa-f]{64}", 64),
    values.header_token: _words(_NAME, 128),
    values.absolute_path: _words(r"/[^\x00-\x1f\x7f]*", values.MAX_PATH_CHARS),
    values.base_url: _words(r"[Hh][Tt][Tt][Pp][Ss]?://[^@?#]+/v1", values.MAX_URL_CHARS),
    values.service_url: _words(_ADDRESS, values.MAX_URL_CHARS),
    values.origin_url: _words(_ADDRESS, values.MAX_URL_CHARS),
    values.proxy_url: _words(r"[Hh][Tt][Tt][Pp]://[^@?#]+", values.MAX_URL_CHARS),
    values.time_zone: _words(r"[A-Za-z0-9][A-Za-z0-9_+/-]*", values.MAX_ZONE_CHARS),
    values.budget: {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": int(values.MAX_BUDGET_USD),
    },
    key_values.network: _words(r"[0-9A-Fa-f.:]+(?:/[0-9]{1,3})?", 64),
    key_values.endpoint_kind: {"type": "string", "enum": list(key_values.ENDPOINT_KINDS)},
    # A date and time without quotes is one too; editors show it to a schema as text.
    key_values.instant: {"type": "string", "minLength": 20, "maxLength": 40},
    media_values.input_field: _words(_FIELD, media_values.MAX_FIELD_CHARS),
    media_values.multipliers: {
        "type": "object",
        "minProperties": 1,
        "maxProperties": media_values.MAX_MULTIPLIED,
        "additionalProperties": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": media_values.MAX_LISTED,
            "additionalProperties": {
                "type": "number",
                "minimum": 0,
                "maximum": int(media_values.MAX_FACTOR),
            },
        },
    },
    media_values.public_url: _words(_ADDRESS, values.MAX_URL_CHARS),
    media_values.bucket: _words(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", 63),
    media_values.region: _words(r"[a-z0-9][a-z0-9-]{0,62}", 63),
    media_values.age_recipient: _words(r"age1[02-9ac-hj-np-z]{58}", 62),
}


def config_schema() -> Schema:
    """Return the schema of the whole file."""
    definitions: dict[str, Schema] = {}
    schema = _table(Config, definitions) | {"description": "The config file of omnigate."}
    return {
        "$schema": DIALECT,
        "$id": ID,
        "title": "omnigate.toml",
        **schema,
        "definitions": dict(sorted(definitions.items())),
    }


def _table(cls: type, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of one table."""
    attrs.resolve_types(cls)
    fields = [field for field in attrs.fields(cls) if field.init]
    schema: Schema = {
        "type": "object",
        "description": _first_sentence(cls),
        "properties": {field.name: _member(field, definitions) for field in fields},
        "additionalProperties": False,
    }
    required = [field.name for field in fields if field.default is attrs.NOTHING]
    if required:
        schema["required"] = required
    if cls is KeyConfig:
        schema["oneOf"] = [{"required": ["key_sha256"]}, {"required": ["key_env"]}]
    return schema


def _member(field: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of one key of a table, with its default."""
    schema = _type(field.type, definitions)
    default = field.default
    if isinstance(default, str | int | float) and "$ref" not in schema:
        return {**schema, "default": default}
    return schema


def _type(annotation: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of what an annotation stands for; None only says it may be left out."""
    if attrs.has(annotation):
        name = annotation.__name__
        if name not in definitions:
            definitions[name] = {}  # so that a table within itself would find its end
            definitions[name] = _table(annotation, definitions)
        return {"$ref": f"#/definitions/{name}"}
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        for mark in marks:
            if isinstance(mark, Value):
                return _check(mark.check)
            if isinstance(mark, Array):
                items = _type(get_args(inner)[0], definitions)
                return {
                    "type": "array",
                    "items": items,
                    "minItems": mark.low,
                    "maxItems": mark.high,
                }
    (only,) = [part for part in get_args(annotation) if part is not NoneType]
    return _type(only, definitions)


def _check(check: Callable[..., object]) -> Schema:
    if isinstance(check, values.Whole):
        return {"type": "integer", "minimum": check.low, "maximum": check.high}
    if isinstance(check, values.OneOf):
        return {"type": "string", "enum": list(check.words)}
    if isinstance(check, values.Usd):
        return {"type": "number", "minimum": 0, "maximum": _plain(check.highest)}
    return dict(_CHECKS[check])


def _plain(amount: Decimal) -> int | float:
    return int(amount) if amount == int(amount) else float(amount)


def _first_sentence(cls: type) -> str:
    """Return what a table is, without the marks of reStructuredText."""
    return (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "")

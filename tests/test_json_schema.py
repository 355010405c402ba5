"""The checker of JSON Schemas that other tests lean on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.json_schema import faults

DOCUMENT = {"$defs": {"word": {"type": "string", "minLength": 1}}}

#: A schema, what it takes, and what it refuses.
CASES: tuple[tuple[Any, tuple[Any, ...], tuple[Any, ...]], ...] = (
    (True, (None, {}), ()),
    (False, (), (None, {})),
    ({"type": "integer"}, (0, -1, 1.0, Decimal(3)), (1.5, True, "1", None)),
    ({"type": "number"}, (0, 1.5, Decimal("0.1")), (True, "1", None)),
    ({"type": ["string", "null"]}, ("", None), (0, False, [])),
    ({"type": "boolean"}, (True, False), (0, 1, "true")),
    ({"enum": ["a", None]}, ("a", None), ("b", 0)),
    ({"const": 3}, (3,), (4, "3")),
    ({"minimum": 1, "maximum": 3}, (1, 3, "x"), (0, 4)),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, (2,), (1, 3)),
    ({"minLength": 1, "maxLength": 2}, ("a", "ab", 5), ("", "abc")),
    ({"pattern": "^a+$"}, ("a", "aa"), ("", "ab", "a\n")),
    ({"format": "date"}, ("2026-02-28",), ("2026-02-30", "x")),
    ({"format": "date-time"}, ("2026-02-28T01:02:03.004Z",), ("2026-02-28T25:00:00Z",)),
    ({"type": "array", "items": {"type": "integer"}}, ([], [1]), (["1"], {})),
    ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, ([1], [1, 2]), ([], [1, 1], [1, 2, 3])),
    ({"minProperties": 1, "maxProperties": 1}, ({"a": 1},), ({}, {"a": 1, "b": 2})),
    (
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ({"a": 1}, {"a": 1, "b": 2}, 7),
        ({}, {"a": "1"}),
    ),
    (
        {"properties": {"a": {}}, "additionalProperties": False},
        ({}, {"a": None}),
        ({"b": 1},),
    ),
    ({"additionalProperties": {"type": "string"}}, ({"a": "x"},), ({"a": 1},)),
    ({"dependentRequired": {"a": ["b"]}}, ({}, {"a": 1, "b": 1}), ({"a": 1},)),
    ({"anyOf": [{"type": "null"}, {"minimum": 2}]}, (None, 2), (1,)),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, (1, 2.5), (3, 1.5)),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, (2,), (1, 2.5)),
    ({"not": {"type": "null"}}, (0,), (None,)),
    ({"$ref": "#/$defs/word"}, ("a",), ("", 1)),
)


class CheckerTests(SynchronousTestCase):
    """It takes what a schema takes, and nothing else."""

    def test_keywords(self) -> None:
        for schema, good, bad in CASES:
            for value in good:
                self.assertEqual(list(faults(value, schema, DOCUMENT)), [], (schema, value))
            for value in bad:
                self.assertTrue(list(faults(value, schema, DOCUMENT)), (schema, value))

    def test_a_fault_names_its_place(self) -> None:
        schema = {"properties": {"a": {"items": {"type": "integer"}}}}
        self.assertEqual(list(faults({"a": [1, "x"]}, schema, {})), ["$.a[1]: 'x' is no integer"])

    def test_an_unknown_keyword_is_no_check(self) -> None:
        """Nobody shall think that something is checked which is not."""
        with self.assertRaises(ValueError):
            list(faults(1, {"multipleOf": 2}, {}))

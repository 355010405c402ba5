"""The JSON Schema of the config file, held to the loader and to the files of the distribution."""

from __future__ import annotations

import datetime
import json
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import attrs
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.commands.check import schema_text
from omnigate.config import values
from omnigate.config.json_schema import config_schema
from omnigate.config.schema import Config, ConfigError, load_config
from omnigate.testing.json_schema import faults
from tests.config.test_places import paths_of
from tests.config.test_schema import WHOLE

ETC = Path(__file__).parents[2] / "etc"
SCHEMA = config_schema()
#: Without what says something of the schema, and nothing of the file.
ROOT = {k: v for k, v in SCHEMA.items() if k not in ("$schema", "$id", "definitions")}

#: Values that some key takes, and most do not.
SAMPLES: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 5, 64, 1_000, 10**7, 10**10, 0.5, -0.5, 1e-12),
    *("", "a", "a b", "*", "a*", "a*b", "ä", "x" * 65, "x" * 257, "x" * 600, "0" * 64, "F" * 64),
    *("openai", "anthropic", "failover", "daily", "total", "Europe/Stockholm", "cancel", "budget"),
    *(
        "https://h.example/v1",
        "HTTP://h/v1",
        "http://h/v2",
        "http://u@h/v1",
        "http://h:1/",
        "/ca.pem",
    ),
    *("10.0.0.0/8", "::1", "2027-01-31T00:00:00Z", "2027-01-31", "chat", "models", "max_tokens"),
    *([], ["a"], ["chat"], ["10.0.0.1"], ["low", "high"], [1], [[]], {}, {"a": 1}, [{}]),
    *({"input": 1, "output": 0.5}, {"failures": 1}, {"sampling": True}),
    *("https://h.example", "http://h/a/", "https://h/v1/", "eu-north-1", "my.bucket", "fal", "s3"),
    *(
        "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m",
        "AGE1" + "Q" * 58,
        {"per_job": 0.5},
        {"per_second": -1},
    ),
    *({"size": {"big": 2, "small": 0.5}}, {"size": {"big": "2"}}, {"size": {}}, ["prompt"]),
)


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "true" if value is True else "false" if value is False else repr(value)


def loads(document: Any) -> bool:
    """Whether the loader takes a document."""
    try:
        load_config("\n".join(f"{name} = {toml(value)}" for name, value in document.items()))
    except ConfigError:
        return False
    return True


def taken(document: Any) -> list[str]:
    """What the schema has against a document, in which dates are texts."""
    plain = json.loads(json.dumps(document, default=lambda moment: moment.isoformat()))
    return list(faults(plain, ROOT, SCHEMA))


def put(document: Any, path: str, value: Any) -> Any:
    """A copy of a document with another value at a path."""
    copy = json.loads(json.dumps(document, default=lambda moment: moment.isoformat()))
    *above, last = [name or int(index) for index, name in re.findall(r"\[(\d+)\]|([^.\[]+)", path)]
    inner = copy
    for step in above:
        inner = inner[step]
    inner[last] = value
    return copy


class SchemaTests(SynchronousTestCase):
    def test_shipped(self) -> None:
        """The file that is shipped is what ``omnigate check --schema`` prints."""
        path = ETC / "omnigate.schema.json"
        if not path.exists():
            raise SkipTest("the file is in the checkout only, not in the installed package")
        self.assertEqual(path.read_text("utf-8"), schema_text())

    def test_every_key_has_its_place(self) -> None:
        """Each table of the config and each key of it stands in the schema, and nothing else."""
        classes = {cls.__name__: cls for cls in tables(Config)}
        definitions = {**SCHEMA["definitions"], "Config": SCHEMA}
        self.assertEqual(set(definitions), set(classes))
        for name, cls in classes.items():
            fields = {field.name for field in attrs.fields(cls) if field.init}
            self.assertEqual(set(definitions[name]["properties"]), fields)
            self.assertTrue(definitions[name]["description"].endswith((".", ",")), name)

    def test_good_files(self) -> None:
        """What the loader takes in the distribution's file and in the tests', the schema takes."""
        for text in (WHOLE, (ETC / "omnigate.toml").read_text("utf-8")):
            self.assertEqual(taken(tomllib.loads(text)), [])

    def test_what_it_refuses_the_loader_refuses(self) -> None:
        """With every value of a config replaced by every other kind of value."""
        document = tomllib.loads(WHOLE)
        rng = random.Random(5)
        refused = loaded = 0
        for path in paths_of(document):
            for sample in rng.sample(SAMPLES, 9):
                tried = put(document, path, sample)
                against = taken(tried)
                refused += bool(against)
                if loads(tried):
                    loaded += 1
                    self.assertEqual(against, [], (path, sample))
        self.assertGreater(refused, 300)
        self.assertGreater(loaded, 15)

    def test_it_refuses_what_people_mistype(self) -> None:
        """Unknown keys, wrong kinds, missing members, both ways to give a key."""
        key = {"name": "a", "key_env": "A"}
        self.assertEqual(taken({"keys": [key]}), [])
        documents: tuple[dict[str, Any], ...] = (
            {"kyes": []},
            {"keys": [{**key, "rmp": 1}]},
            {"keys": [{**key, "rpm": "600"}]},
            {"keys": [{**key, "rpm": -1}]},
            {"keys": [{"name": "a"}]},
            {"keys": [{**key, "key_sha256": "0" * 64}]},
            {"keys": [{**key, "budget_usd": 0}]},
            {"upstreams": [{"name": "u", "protocol": "openai", "base_url": "https://h"}]},
            {"upstreams": [{"name": "u", "protocol": "opnai", "base_url": "https://h/v1"}]},
            {"routes": [{"model": "m", "targets": []}]},
            {"routes": [{"model": "m"}]},
        )
        for bad in documents:
            self.assertTrue(taken(bad), bad)
            self.assertFalse(loads(bad), bad)

    def test_a_check_without_a_schema_is_noticed(self) -> None:
        """A new kind of value has to be entered."""
        from omnigate.config import json_schema

        self.assertRaises(KeyError, json_schema._check, lambda value: value)
        self.assertEqual(
            json_schema._check(values.whole(1, 3)), {"type": "integer", "minimum": 1, "maximum": 3}
        )


def tables(cls: type) -> set[type]:
    """A class of the config and all that its fields name."""
    found = {cls}
    attrs.resolve_types(cls)
    for field in attrs.fields(cls):
        if field.init:
            for part in parts_of(field.type):
                found |= tables(part)
    return found


def parts_of(annotation: Any) -> set[type]:
    """The attrs classes that an annotation names."""
    if attrs.has(annotation):
        return {annotation}
    return {part for inner in getattr(annotation, "__args__", ()) for part in parts_of(inner)}

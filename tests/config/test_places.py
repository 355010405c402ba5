"""Lines of the values of a TOML text."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.places import Places
from tests.config.test_schema import WHOLE

TEXT = '''# a remark, [[keys]] in it
top = 1
[[keys]]  # one
name = "a"
text = """
[[keys]]
name = "in a text"
"""
[[keys]]
name = 'b'  # = x
"quoted.key" = 1
dotted.below = 2
list = [
  "one", # a remark ]
  { inner = 1, other = "}" },
  [3,
   4],
]
[retention]
days = 2027-01-31T00:00:00Z
[[routes]]
[[routes.targets]]
x = 1
[[routes.targets]]
x = {a = {b = 1}}
[[routes]]
[[routes.targets]]
x = 3
'''


def paths_of(value: Any, path: str = "") -> Iterator[str]:
    """The paths of everything in a document, as faults tell them."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths_of(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths_of(inner, f"{path}[{index}]")


class PlaceTests(SynchronousTestCase):
    def test_every_form(self) -> None:
        """Tables, keys, texts over lines, arrays, tables on a line, dates."""
        tomllib.loads(TEXT)
        lines = TEXT.splitlines()
        places = Places(TEXT)
        for path, line in (
            ("top", 2),
            ("keys[0]", 3),
            ("keys[0].name", 4),
            ("keys[0].text", 5),
            ("keys[1]", 9),
            ("keys[1].name", 10),
            ("keys[1].dotted.below", 12),
            ("keys[1].list", 13),
            ("keys[1].list[0]", 14),
            ("keys[1].list[1].other", 15),
            ("keys[1].list[2]", 16),
            ("keys[1].list[2][1]", 17),
            ("retention.days", 20),
            ("routes[0].targets[1].x.a.b", 25),
            ("routes[1].targets[0].x", 28),
        ):
            self.assertEqual(places.line_of(path), line, (path, lines[line - 1]))

    def test_what_is_not_there(self) -> None:
        """What is missing in a table is told at that table; what has no table, nowhere."""
        places = Places(TEXT)
        self.assertEqual(places.line_of("keys[1].key_env"), 9)
        self.assertEqual(places.line_of("routes[0].targets[0].price.input"), 22)
        self.assertEqual(places.line_of("keys[7].name"), 3)
        self.assertIsNone(places.line_of("nowhere"))
        self.assertIsNone(places.line_of(""))

    def test_line_ends(self) -> None:
        """Those of other systems count as one."""
        self.assertEqual(Places(TEXT.replace("\n", "\r\n")).line_of("routes[1].targets[0].x"), 28)

    def test_files_of_the_distribution(self) -> None:
        """Every value has a line, and its name stands there."""
        shipped = Path(__file__).parents[2] / "etc" / "omnigate.toml"
        for text in (WHOLE, shipped.read_text("utf-8")):
            places, lines = Places(text), text.splitlines()
            for path in paths_of(tomllib.loads(text)):
                line = places.line_of(path)
                assert line is not None, path
                last = path.rpartition(".")[2]
                if not last.endswith("]"):
                    self.assertIn(last, lines[line - 1], path)

    @settings(max_examples=200, deadline=None)
    @given(st.text(st.sampled_from("[]{}=.,\"'\\\n#ab 1"), max_size=80))
    def test_any_text(self, text: str) -> None:
        """It comes to an end with any text, and every line it tells of is there."""
        places = Places(text)
        for path in ("a", "a[0]", "b.a", "1"):
            line = places.line_of(path)
            self.assertTrue(line is None or 1 <= line <= text.count("\n") + 1)

    def test_long_and_deep_texts(self) -> None:
        """It takes no time to speak of, and no depth."""
        began = time.process_time()
        for text in ("a = " + "[" * 100_000, "a=" + '"' * 100_001, "[" * 100_000, WHOLE * 500):
            Places(text)
        Places("".join(f"a{n} = [{n}]\n" for n in range(50_000)))
        self.assertLess(time.process_time() - began, 10)

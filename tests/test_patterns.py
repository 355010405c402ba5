"""No pattern of the package is one that Python 3.11 before 3.11.5 matches wrongly."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import omnigate.dialects
import omnigate.wire

# The parser of re has no public name; a pattern's tree is what it returns.
_parse: Any = importlib.import_module("re._parser").parse

LOOKS = ("ASSERT", "ASSERT_NOT")
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every node of a pattern's tree, with what it holds."""
    if isinstance(tree, tuple) and len(tree) == 2 and hasattr(tree[0], "name"):
        yield tree[0].name, tree[1]
        yield from nodes(tree[1])
    elif isinstance(tree, (tuple, list)) or type(tree).__name__ == "SubPattern":
        for part in tree:
            yield from nodes(part)


def of_more_than_one_character(name: str, held: Any) -> bool:
    """Whether a node repeats a group, which is what moves the place of the match."""
    return name in REPEATS and (len(held[2]) > 1 or held[2][0][0].name in ("SUBPATTERN", "BRANCH"))


def risky(pattern: str | bytes, flags: int = 0) -> bool:
    """Whether a possessive repeat of a group has a look-around or the repeat of a group in it."""
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    return any(
        inner in LOOKS or of_more_than_one_character(inner, what)
        for name, held in nodes(_parse(text, flags & ~re.UNICODE))
        if name == "POSSESSIVE_REPEAT"
        for inner, what in nodes(held[2])
    )


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns of the modules that read what strangers send."""
    for package in (omnigate.wire, omnigate.dialects):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(found.name)).items():
                pattern = getattr(value, "__self__", value)
                if isinstance(pattern, re.Pattern):
                    yield f"{found.name}.{name}", pattern


class PatternsTests(SynchronousTestCase):
    def test_risky(self) -> None:
        """What errs there is told from what does not."""
        for pattern in ("a(?:(?<=,) b)*+", r'(?:[^"]|"(?:\\.)*+")*+', "(?:ab(?:cd)*)++"):
            self.assertTrue(risky(pattern), pattern)
        for pattern in ("[a-z]*+", "(?:a++:b*+\n)*+", "(?>(?:(?<=,) b)*)", "(?:ab)*+", "(?=a)b++"):
            self.assertFalse(risky(pattern), pattern)

    def test_patterns(self) -> None:
        """None of ours is of that kind."""
        found = dict(patterns())
        self.assertIn("omnigate.wire.head._beta_value", found)
        self.assertEqual([n for n, one in found.items() if risky(one.pattern, one.flags)], [])

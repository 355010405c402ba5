"""Tests for how tables become attrs classes."""

from __future__ import annotations

from typing import Annotated

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import values
from omnigate.config.structure import Array, Fault, Structure, Value


@attrs.frozen
class Leaf:
    """A table of the test."""

    size: Annotated[int, Value(values.whole(0, 9))]
    word: Annotated[str, Value(values.name)] | None = None


@attrs.frozen
class Tree:
    """The document of the test."""

    leaves: Annotated[tuple[Leaf, ...], Array(0, 3)] = ()
    words: Annotated[tuple[Annotated[str, Value(values.name)], ...], Array(1, 2)] = ("a",)
    one: Leaf | None = None


class StructureTests(SynchronousTestCase):
    """A good document becomes the class; a bad one becomes the list of its faults."""

    def setUp(self) -> None:
        self.structure = Structure(Tree, {(Tree, "roots"): "not before spring"})

    def faults(self, document: dict[str, object]) -> list[str]:
        made, faults = self.structure.read(document)
        self.assertIsNone(made)
        return sorted(str(fault) for fault in faults)

    def test_a_good_document(self) -> None:
        made, faults = self.structure.read(
            {"leaves": [{"size": 1}, {"size": 2, "word": "x"}], "one": {"size": 3}}
        )
        self.assertEqual(faults, [])
        self.assertEqual(made, Tree(leaves=(Leaf(1), Leaf(2, "x")), one=Leaf(3)))
        self.assertEqual(self.structure.read({}), (Tree(), []))

    def test_every_fault_is_told_with_its_path(self) -> None:
        document: dict[str, object] = {
            "leaves": [{"size": 1}, {"size": 10, "wrod": "x"}, 7],
            "words": ["a", " "],
            "one": {"word": "-"},
        }
        self.assertEqual(
            [fault.split(" ")[0] for fault in self.faults(document)],
            [
                "leaves[1].size:",
                "leaves[1].wrod:",
                "leaves[2]:",
                "one.size:",
                "one.word:",
                "words[1]:",
            ],
        )

    def test_unknown_keys(self) -> None:
        self.assertEqual(
            self.faults({"leafs": 1, "roots": 2, "q x\n": 3}),
            [
                '"q x?": unknown key',
                'leafs: unknown key (did you mean "leaves"?)',
                "roots: not before spring",
            ],
        )

    def test_wrong_shapes(self) -> None:
        self.assertEqual(
            self.faults({"leaves": {"size": 1}, "words": "abc", "one": []}),
            [
                "leaves: must be an array of tables ([[double brackets]]), not a table",
                "one: must be a table, not an array",
                "words: must be an array, not a string",
            ],
        )

    def test_bounds_of_arrays(self) -> None:
        self.assertEqual(
            self.faults({"leaves": [{"size": 1}] * 4, "words": []}),
            ["leaves: must have 0 to 3 entries", "words: must have 1 to 2 entries"],
        )

    def test_a_fault_without_a_place_is_its_message(self) -> None:
        self.assertEqual(str(Fault("", "all of it")), "all of it")

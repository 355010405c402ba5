"""The cost of texts that come in pieces."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_cost import PieceCounter, answer_cost
from omnigate.wire.json_tree import TreeError

CROWDED = b"{" + b",".join(b'"%d":1' % number for number in range(70_000)) + b"}"


def counted(text: bytes, size: int) -> PieceCounter:
    counter = PieceCounter()
    for at in range(0, len(text), size):
        counter.feed(text[at : at + size])
    return counter


class CostTests(SynchronousTestCase):
    def test_plain(self) -> None:
        """A long plain text is taken, however it came."""
        text = b'{"x":"' + b"y" * 300_000 + b'","z":[1,{"a":null}]}'
        for size in (len(text), 65536, 1000):
            counter = counted(text, size)
            answer_cost(text, counter)
            self.assertEqual(counted(text, len(text)).counts.structure, counter.counts.structure)

    def test_short(self) -> None:
        """A short one needs no counting."""
        answer_cost(b'{"x":1}', None)

    def test_refused(self) -> None:
        """One that takes too long, is too crowded or nests too deep is not."""
        for text in (
            b'{"x":[' + b"{}," * 700_000 + b"{}]}",
            CROWDED,
            self.nested(129),
        ):
            for size in (len(text), 65536):
                self.assertRaises(TreeError, answer_cost, text, counted(text, size))
            self.assertRaises(TreeError, answer_cost, text, None)

    def test_nested(self) -> None:
        """One that nests as deep as an answer may is taken."""
        text = self.nested(128)
        for counter in (counted(text, 1000), None):
            self.assertGreater(answer_cost(text, counter), len(text))

    @staticmethod
    def nested(levels: int) -> bytes:
        """A long text of so many levels."""
        return b"[" * levels + b'"' + b"x" * 100_000 + b'"' + b"]" * levels

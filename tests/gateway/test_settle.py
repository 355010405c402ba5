"""What an ended exchange owes."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import decode_event
from omnigate.gateway.settle import Books
from tests.usage import usage_event

EVENT = usage_event()


class BooksTests(SynchronousTestCase):
    def test_event(self) -> None:
        """An event goes to the spool as one line, and is counted, full or not."""
        lines: list[bytes] = []
        for room in (True, False):

            def append(line: bytes, room: bool = room) -> bool:
                lines.append(line)
                return room

            books = Books(append, lambda name, code: None)
            books.usage(EVENT, "answered", 0.2)
            self.assertEqual((1, 0), (books.events, books.refusals))
        self.assertEqual([EVENT, EVENT], [decode_event(line) for line in lines])
        self.assertNotIn(b"\n", lines[0])

    def test_refusal(self) -> None:
        """A refusal is counted by key and reason."""
        refused: list[tuple[str, str]] = []
        books = Books(lambda line: True, lambda name, code: refused.append((name, code)))
        books.refusal("k1", "budget_exceeded", 402)
        self.assertEqual([("k1", "budget_exceeded")], refused)
        self.assertEqual((0, 1), (books.events, books.refusals))

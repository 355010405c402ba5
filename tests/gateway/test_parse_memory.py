"""Room for trees: bounds, and giving back."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import GatewayError
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.parse_memory import KEY_SHARE, ParseMemory, Reservation

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


class ParseMemoryTests(SynchronousTestCase):
    def refused(self, memory: ParseMemory, use: KeyUse, size: int) -> tuple[int, str, int | None]:
        with self.assertRaises(GatewayError) as caught:
            memory.reserve(use, size)
        error = caught.exception
        return error.kind.status, error.kind.code, error.retry_after

    def test_share(self) -> None:
        """One key holds half, to the byte; others are not touched by it."""
        memory, use = ParseMemory(1000), KeyUse()
        memory.reserve(use, 300)
        self.assertEqual((429, "request_memory_exceeded", 1), self.refused(memory, use, 201))
        memory.reserve(use, 200)
        memory.reserve(KeyUse(), 500)
        self.assertEqual((500, 1000), (use.parse_bytes, memory.bytes))

    def test_whole(self) -> None:
        """What is in use as a whole is nobody's to have."""
        memory = ParseMemory(1000)
        room = memory.reserve(KeyUse(), 500)
        memory.reserve(KeyUse(), 400)
        self.assertEqual((503, "overloaded", 1), self.refused(memory, KeyUse(), 101))
        room.release()
        memory.reserve(KeyUse(), 101)

    def test_tree(self) -> None:
        """A tree's room is what it costs; one that costs too much has none."""
        memory, use = ParseMemory(1 << 20), KeyUse()
        room = memory.reserve_tree(use, BODY, None)
        self.assertEqual(memory.bytes, room.size)
        self.assertGreater(room.size, len(BODY))
        crowded = b'{"model":"m","x":{' + b'"a":0,' * 1024 + b'"b":0}}'
        with self.assertRaises(GatewayError) as caught:
            memory.reserve_tree(use, crowded, None)
        error = caught.exception
        self.assertEqual(
            (400, "request_too_complex", None),
            (error.kind.status, error.kind.code, error.retry_after),
        )
        self.assertEqual(room.size, use.parse_bytes)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700), st.integers(0, 30)), max_size=60)
    )
    def test_books_balance(self, steps: list[tuple[int, int, int]]) -> None:
        """Whatever is reserved and given back, and however often, the sums are right."""
        memory = ParseMemory(1000)
        uses = [KeyUse() for _ in range(3)]
        rooms: list[tuple[int, Reservation]] = []
        held: set[int] = set()
        for who, size, again in steps:
            try:
                rooms.append((who, memory.reserve(uses[who], size)))
                held.add(len(rooms) - 1)
            except GatewayError:
                pass
            if rooms:
                rooms[again % len(rooms)][1].release()
                held.discard(again % len(rooms))
            for index, use in enumerate(uses):
                sums = sum(rooms[at][1].size for at in held if rooms[at][0] == index)
                self.assertEqual(sums, use.parse_bytes)
                self.assertLessEqual(sums, 1000 // KEY_SHARE)
            self.assertEqual(sum(use.parse_bytes for use in uses), memory.bytes)
            self.assertLessEqual(memory.bytes, 1000)

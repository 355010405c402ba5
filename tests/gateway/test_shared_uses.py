"""The counters of all workers: their memory, and which key has which row."""

import fcntl
import os
import struct
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import MAX_KEYS
from omnigate.gateway import shared_uses
from omnigate.gateway.shared_uses import (
    BODY_MEMORY,
    CONNECTIONS,
    IN_FLIGHT,
    KEPT_FIELDS,
    KEY_FIELDS,
    MAX_ROWS,
    MAX_WORKERS,
    PARSE_MEMORY,
    PLANE_FIELDS,
    RATE_BASE,
    RATE_TAKEN,
    TOKENS_BASE,
    TOKENS_HELD,
    TOKENS_TAKEN,
    Row,
    SharedUses,
    SharedUsesError,
    layout_of,
)
from tests.gateway.sharing import KEY, Workers, digest


class SharedTestCase(SynchronousTestCase):
    def workers(self, count: int, max_rows: int = 16) -> Workers:
        """Workers that are gone after the test."""
        workers = Workers(count, max_rows)
        self.addCleanup(workers.close)
        return workers


class MemoryTests(SharedTestCase):
    def test_fields(self) -> None:
        """Names and numbers of what is counted go together."""
        self.assertEqual(
            {
                IN_FLIGHT: "in flight",
                BODY_MEMORY: "body memory",
                PARSE_MEMORY: "parse memory",
                RATE_BASE: "rate base",
                RATE_TAKEN: "rate taken",
                TOKENS_BASE: "tokens base",
                TOKENS_TAKEN: "tokens taken",
                TOKENS_HELD: "tokens held",
            },
            dict(enumerate(KEY_FIELDS)),
        )
        self.assertEqual("connections", PLANE_FIELDS[CONNECTIONS])
        self.assertEqual({RATE_BASE, RATE_TAKEN, TOKENS_BASE, TOKENS_TAKEN}, KEPT_FIELDS)

    def test_size(self) -> None:
        """Twice the keys of a config have room, and only what is used takes memory."""
        self.assertEqual(2 * MAX_KEYS + 1, MAX_ROWS)
        for count, each in ((1, 104), (2, 168), (8, 552), (64, 4136)):
            workers = self.workers(count, MAX_ROWS)
            status = os.fstat(workers.parent.fd)
            self.assertLess(abs(status.st_size - MAX_ROWS * each), 200, count)
            self.assertLess(status.st_blocks * 512, 64 * 1024, "three pages and no more are used")
            self.assertEqual(2 * MAX_KEYS, workers.parent.most_keys)

    def test_counts_of_workers(self) -> None:
        """There are 1 to 64 workers."""
        for count in (-1, 0, MAX_WORKERS + 1):
            with self.assertRaises(ValueError):
                SharedUses.create(count)

    def test_all_see_what_each_writes(self) -> None:
        """A slot is one worker's, of one field, of one key; everybody reads it."""
        workers = self.workers(3)
        keys = [digest(n) for n in range(4)]
        rows: list[list[Row]] = []
        for shared in workers.all:
            claimed = shared.claim(keys)
            rows.append([shared.plane, *(claimed[key] for key in keys)])
        wrote = 0
        for number in range(5):
            for field in range(len(KEY_FIELDS)):
                for index in range(3):
                    wrote += 1
                    rows[index][number].ints(field)[index] = wrote
        wanted = iter(range(1, wrote + 1))
        for number in range(5):
            for field in range(len(KEY_FIELDS)):
                slots = [next(wanted) for _ in range(3)]
                for mine in rows:
                    self.assertEqual(slots, list(mine[number].ints(field)))
        rows[0][1].floats(RATE_TAKEN)[0] = 0.1
        self.assertEqual(0.1, rows[2][1].floats(RATE_TAKEN)[0])

    def test_another_memory(self) -> None:
        """A worker refuses what it cannot count in, and says what is wrong with it."""
        parent = self.workers(2).parent
        whole = os.pread(parent.fd, os.fstat(parent.fd).st_size, 0)
        cases = (
            (b"", 0, "does not hold the shared counters"),
            (whole[:20], 0, "does not hold the shared counters"),
            (b"x" + whole[1:], 0, "does not hold the shared counters"),
            (whole[:8] + b"x" + whole[9:], 0, "of another version of omnigate; restart"),
            (whole[:8] + layout_of("0.0.0") + whole[16:], 0, "another version"),
            (whole[:-8], 0, "which do not fit its header (2 workers, 16 rows)"),
            (whole + bytes(8), 0, "which do not fit its header (2 workers, 16 rows)"),
            (whole[:16] + struct.pack("q", 0) + whole[24:], 0, "(0 workers, 16 rows)"),
            (whole[:16] + struct.pack("q", 65) + whole[24:], 0, "(65 workers, 16 rows)"),
            (whole[:24] + struct.pack("q", -1) + whole[32:], 0, "(2 workers, -1 rows)"),
            (whole, 2, "worker 2 has no place in"),
            (whole, -1, "it counts for 2 workers, 0 to 1"),
        )
        for content, index, wrong in cases:
            fd = os.memfd_create("test")
            self.addCleanup(os.close, fd)
            os.write(fd, content)
            with self.assertRaises(SharedUsesError) as caught:
                SharedUses.attach(fd, index)
            self.assertIn(wrong, str(caught.exception))
            self.assertIn(f"file descriptor {fd}", str(caught.exception))
        read, write = os.pipe()
        os.close(write)
        os.close(read)
        with self.assertRaises(SharedUsesError) as caught:
            SharedUses.attach(read, 0)
        self.assertIn("cannot be read (Bad file descriptor)", str(caught.exception))

    def test_nobody_cuts_it_short(self) -> None:
        """The size of the memory stays: who reads beyond an end would be killed."""
        parent = self.workers(2).parent
        for size in (0, 1 << 20):
            with self.assertRaises(OSError):
                os.ftruncate(parent.fd, size)


class RegisterTests(SharedTestCase):
    def test_one_key_one_row(self) -> None:
        """Workers that learn of keys in whatever order agree."""
        workers = self.workers(2)
        keys = [digest(n) for n in range(6)]
        first, second = workers.all
        first.claim(keys[:3])
        second.claim(keys[::-1])
        mine, other = first.claim(keys), second.claim(keys)
        for number, key in enumerate(keys):
            mine[key].ints(IN_FLIGHT)[0] = number + 1
            self.assertEqual([number + 1, 0], list(other[key].ints(IN_FLIGHT)))

    def test_freed_when_nobody_holds_it(self) -> None:
        """A row goes to another key once all have let go, and is zero then."""
        first, second = self.workers(2, max_rows=2).all
        row = first.claim([KEY])[KEY]
        second.claim([KEY])
        row.floats(RATE_TAKEN)[0] = 5.0
        for holder in (first, second):
            self.assertEqual({}, second.claim([digest("other")]))
            self.assertEqual({KEY}, holder.let_go([KEY]))
            self.assertEqual(set(), holder.let_go([KEY]), "once")
        other = second.claim([digest("other")])[digest("other")]
        self.assertEqual([0.0, 0.0], list(other.floats(RATE_TAKEN)))
        self.assertEqual({}, first.claim([KEY]), "its row is gone")

    def test_a_key_that_comes_back(self) -> None:
        """It finds its row as it was left, also where others come at the same time."""
        first, second = self.workers(2, max_rows=4).all
        keys = [digest(n) for n in range(3)]
        rows = first.claim(keys)
        for n, key in enumerate(keys):
            rows[key].floats(RATE_TAKEN)[0] = n + 1.0
        first.let_go(keys)
        back = second.claim([digest("new"), *keys[1:], digest("too many")])
        self.assertEqual({digest("new"), *keys[1:]}, set(back))
        self.assertEqual(
            [0.0, 2.0, 3.0],
            [back[key].floats(RATE_TAKEN)[0] for key in (digest("new"), *keys[1:])],
        )

    def test_a_full_table(self) -> None:
        """Keys beyond it get no row, those that have one keep it."""
        [only] = self.workers(1, max_rows=4).all
        keys = [digest(n) for n in range(5)]
        self.assertEqual(set(keys[:3]), set(only.claim(keys)))
        self.assertEqual(set(keys[:3]), set(only.claim(keys)))
        only.let_go(keys[1:2])
        self.assertEqual({keys[0], keys[2], keys[3]}, set(only.claim([*keys[:1], *keys[2:]])))

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from(["claim", "let go", "crash"]),
                st.frozensets(st.integers(0, 7), max_size=4),
            ),
            max_size=40,
        )
    )
    def test_any_order(self, steps: list[tuple[int, str, frozenset[int]]]) -> None:
        """Whoever comes and goes: held rows are of one key each, the same for all who hold it."""
        workers = Workers(3, max_rows=6)
        try:
            for index, action, numbers in steps:
                shared = workers.all[index]
                keys = [digest(number) for number in sorted(numbers)]
                if action == "claim":
                    shared.claim(keys)
                elif action == "let go":
                    shared.let_go(keys)
                else:
                    os.close(shared.fd)
                    workers.parent.clear(index)
                    workers.all[index] = workers.attach(index)
                held: dict[bytes, int] = {}
                for one in workers.all:
                    for key, number in one._held.items():
                        self.assertEqual(number, held.setdefault(key, number))
                        self.assertTrue(0 < number < 6)
                self.assertEqual(len(held), len(set(held.values())))
        finally:
            workers.close()

    def test_what_a_dead_worker_had(self) -> None:
        """All it held is given back, but for the tokens it took; others' slots are not touched."""
        workers = self.workers(3)
        for index, shared in enumerate(workers.all):
            for field in range(len(PLANE_FIELDS)):
                shared.plane.ints(field)[index] = 7
            row = shared.claim([digest(0), digest(1)])[digest(1)]
            for field in range(len(KEY_FIELDS)):
                row.ints(field)[index] = 7
        workers.parent.clear(1)
        for shared in (workers.parent, workers.all[0]):
            for field in range(len(PLANE_FIELDS)):
                self.assertEqual([7, 0, 7], list(shared.plane.ints(field)))
        row = workers.all[0].claim([digest(1)])[digest(1)]
        for field in range(len(KEY_FIELDS)):
            wanted = [7, 7 if field in KEPT_FIELDS else 0, 7]
            self.assertEqual(wanted, list(row.ints(field)), KEY_FIELDS[field])

    def test_the_successor_of_a_dead_worker(self) -> None:
        """What that one held and the new one does not is free again."""
        workers = self.workers(1, max_rows=3)
        workers.all[0].claim([digest(0), digest(1)])[digest(1)].floats(RATE_TAKEN)[0] = 3.0
        workers.parent.clear(0)
        os.close(workers.all[0].fd)
        successor = workers.all[0] = workers.attach(0)
        rows = successor.claim([digest(1), digest(2)])
        self.assertEqual({digest(1), digest(2)}, set(rows))
        self.assertEqual(3.0, rows[digest(1)].floats(RATE_TAKEN)[0])


class LockTests(SharedTestCase):
    def test_the_lock_is_in_use(self) -> None:
        """Whoever waits too long for the register goes on without, and tries again later."""
        self.patch(shared_uses, "LOCK_SECONDS", 0.05)
        first, _ = self.workers(2).all
        first.claim([digest("held")])
        program = (
            "import fcntl, os, sys; fd = int(sys.argv[1]); fcntl.lockf(fd, fcntl.LOCK_EX); "
            "print('locked', flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(first.fd)],
            pass_fds=[first.fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            self.assertEqual(b"locked\n", child.stdout.readline())
            self.assertEqual({digest("held")}, set(first.claim([digest("held"), KEY])))
            self.assertEqual(set(), first.let_go([digest("held")]))
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()
        # The lock went with its holder.
        self.assertEqual({digest("held"), KEY}, set(first.claim([digest("held"), KEY])))
        self.assertEqual({digest("held")}, first.let_go([digest("held")]))

    def test_other_faults_are_told(self) -> None:
        """A file that cannot be locked at all is no lock in use."""
        [only] = self.workers(1).all
        self.patch(fcntl, "lockf", lambda fd, how: (_ for _ in ()).throw(OSError(37, "No locks")))
        with self.assertRaises(OSError):
            only.claim([KEY])

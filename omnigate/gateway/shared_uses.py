"""Counters that several worker processes share, so that one limit holds over all of them.

The memory is an anonymous file that the parent makes and each worker maps. There is no service and
no lock on a request's path: a counter is a row of slots, one for each worker, each written by that
worker alone; the sum (or the greatest) of the slots is what all hold. A worker that decides on a
sum and then writes its own slot may be one decision behind each of the others: never more.

Layout, in native byte order::

    header     magic, digest of layout and version, workers, rows, rows ever taken
    register   for each row: the digest of its key, and a bit for each worker that holds it
    counters   for each row: its fields one after the other, each of 8 bytes times workers

Row 0 is for the plane as a whole (:data:`PLANE_FIELDS`), the others are for keys
(:data:`KEY_FIELDS`). The file is sparse and rows are taken from the front, so it takes as much
memory as there are keys: with 2 workers 168 bytes for each, with 8 552, with 64 4.1 KB.

A slot is written and read by one copy of eight aligned bytes: :class:`memoryview` packs an item of
the native formats ``q`` and ``d`` by a ``memcpy`` of constant size, which compilers make a single
move, and 64-bit machines do such a move whole. (Its formats with a byte order, and those of
``struct`` with one, go byte by byte and could be seen half done.) On a 32-bit machine a move is
two, and an integer below 2^31 still cannot be seen torn.

Which key has which row changes when a config is put in force, at other moments in each worker. That
happens under a lock on the file. A row is free when no worker holds it, and keeps its key until it
is taken for another one: a key that comes back finds the tokens that were taken from its bucket.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from struct import Struct
from typing import Final

from omnigate import __version__
from omnigate.config.schema import MAX_KEYS

#: A bit of 64 stands for each in the register.
MAX_WORKERS: Final = 64
#: Twice as many as a config may have keys: between two configs without a common key, some workers
#: have the one in force and some the other. The row of the plane comes on top.
MAX_ROWS: Final = 2 * MAX_KEYS + 1
#: How long the lock is waited for. To take ten thousand rows is 20 ms, and 64 workers may start at
#: once; beyond that, whoever has it stands still, and its parent will end it.
LOCK_SECONDS: Final = 5.0
_LOCK_LOOK_SECONDS: Final = 0.001

#: What is counted for a key. A new limit is a new name here; its number is its place.
KEY_FIELDS: Final = (
    "in flight",
    "body memory",
    "parse memory",
    "rate base",
    "rate taken",
    "tokens base",
    "tokens taken",
    "tokens held",
)
(
    IN_FLIGHT,
    BODY_MEMORY,
    PARSE_MEMORY,
    RATE_BASE,
    RATE_TAKEN,
    TOKENS_BASE,
    TOKENS_TAKEN,
    TOKENS_HELD,
) = range(len(KEY_FIELDS))
#: What is counted for the plane, in row 0.
PLANE_FIELDS: Final = ("connections", "body memory", "parse memory")
CONNECTIONS, PLANE_BODY_MEMORY, PLANE_PARSE_MEMORY = range(len(PLANE_FIELDS))
#: Of a worker that is gone these stay: tokens taken stay taken, or each crash would be a new burst.
#: What it had reserved for requests that were under way comes back.
KEPT_FIELDS: Final = frozenset((RATE_BASE, RATE_TAKEN, TOKENS_BASE, TOKENS_TAKEN))

_FIELDS: Final = max(len(KEY_FIELDS), len(PLANE_FIELDS))
_MAGIC: Final = b"omniuses"
_HEADER: Final = Struct("@8s8sqqq")
#: Where the header counts the rows ever taken, row 0 among them; in items of 8 bytes.
_TAKEN_AT: Final = 4
_REGISTER_AT: Final = 64
_ENTRY: Final = Struct("@32sQ")
_DIGEST_BYTES: Final = 32
#: Rows of counters begin on a cache line of their own.
_LINE: Final = 64


def layout_of(version: str) -> bytes:
    """Return what a header says of who made it.

    An upgrade may put another version on the disk while the parent runs; the next worker is of it.
    The version counts, as more than this memory has to fit: what is said on the line to the parent,
    and what is written to its log.
    """
    return sha256(repr((version, KEY_FIELDS, PLANE_FIELDS)).encode()).digest()[:8]


_LAYOUT: Final = layout_of(__version__)


class SharedUsesError(Exception):
    """The memory is not what this worker can count in."""


class Row:
    """The counters of one key, or of the plane.

    :param start: the first slot, counted in items of 8 bytes.
    :ivar workers: how many slots each of its fields has.
    """

    __slots__ = ("_floats", "_ints", "_start", "workers")

    def __init__(
        self, ints: memoryview[int], floats: memoryview[float], start: int, workers: int
    ) -> None:
        self._ints = ints
        self._floats = floats
        self._start = start
        self.workers = workers

    def ints(self, field: int) -> memoryview[int]:
        """The slots of a field that is counted in whole numbers, one for each worker."""
        start = self._start + field * self.workers
        return self._ints[start : start + self.workers]

    def floats(self, field: int) -> memoryview[float]:
        """The slots of a field that is told in seconds."""
        start = self._start + field * self.workers
        return self._floats[start : start + self.workers]


def own_row(workers: int) -> Row:
    """A row that nobody else sees."""
    memory = memoryview(bytearray(8 * _FIELDS * workers))
    return Row(memory.cast("q"), memory.cast("d"), 0, workers)


class SharedUses:
    """The shared counters, as the parent or one worker has them.

    :ivar fd: the memory file; a worker is to inherit it.
    :ivar workers: how many there are.
    :ivar index: which of them this is; -1 for the parent.
    :ivar plane: the row of the plane as a whole.
    """

    def __init__(self, fd: int, index: int) -> None:
        """Map the memory; :meth:`create` and :meth:`attach` are the ways here."""
        memory = mmap.mmap(fd, 0)
        view = memoryview(memory)
        self._memory = memory
        self._ints = view.cast("q")
        self._floats = view.cast("d")
        self._masks = view.cast("Q")
        _, _, workers, rows, _ = _HEADER.unpack_from(memory)
        self.fd = fd
        self.index = index
        self.workers: int = workers
        self._rows: int = rows
        self._counters_at = _counters_at(rows)
        self._held: dict[bytes, int] = {}
        self.plane = self._row(0)

    @classmethod
    def create(cls, workers: int, max_rows: int = MAX_ROWS) -> SharedUses:
        """Make the memory, all of it zero; for the parent.

        :param workers: 1 to :data:`MAX_WORKERS`.
        :param max_rows: rows for keys and the one of the plane.
        """
        if not 1 <= workers <= MAX_WORKERS:
            raise ValueError(f"{workers} workers; it must be 1 to {MAX_WORKERS}")
        fd = os.memfd_create("omnigate-uses", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _size(workers, max_rows))
        # Were it cut short, whoever reads beyond the end would be killed.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        os.pwrite(fd, _HEADER.pack(_MAGIC, _LAYOUT, workers, max_rows, 1), 0)
        return cls(fd, -1)

    @classmethod
    def attach(cls, fd: int, index: int) -> SharedUses:
        """Map the parent's memory; for the worker ``index``.

        What stood in its slots for a worker before it must have been cleared (:meth:`clear`).

        :raises SharedUsesError: this is no such memory, or not that of this version.
        """
        place = f"file descriptor {fd}"
        try:
            size = os.fstat(fd).st_size
            header = os.pread(fd, _HEADER.size, 0)
        except OSError as error:
            reason = error.strerror or error
            raise SharedUsesError(
                f"{place} cannot be read ({reason}); it should be the shared counters of the parent"
            ) from None
        if len(header) < _HEADER.size or header[:8] != _MAGIC:
            raise SharedUsesError(f"{place} does not hold the shared counters of omnigate-data")
        _, layout, workers, rows, _ = _HEADER.unpack(header)
        if layout != _LAYOUT:
            raise SharedUsesError(
                f"{place} holds the shared counters of another version of omnigate; restart "
                "omnigate-data as a whole after an upgrade"
            )
        if not 1 <= workers <= MAX_WORKERS or rows < 1 or size != _size(workers, rows):
            raise SharedUsesError(
                f"{place} has {size} bytes, which do not fit its header "
                f"({workers} workers, {rows} rows)"
            )
        if not 0 <= index < workers:
            raise SharedUsesError(
                f"worker {index} has no place in {place}: it counts for {workers} workers, 0 to "
                f"{workers - 1}"
            )
        return cls(fd, index)

    @property
    def most_keys(self) -> int:
        """How many keys have room."""
        return self._rows - 1

    def clear(self, index: int) -> None:
        """Give back what a worker that is gone had; for the parent, before it starts another.

        Where the worker held keys stays in the register: its successor sets that right, and no lock
        is needed here that somebody else might hold on to.
        """
        for field in range(len(PLANE_FIELDS)):
            self.plane.ints(field)[index] = 0
        mask = 1 << index
        for number in range(1, self._taken()):
            if self._masks[_mask_at(number)] & mask:
                row = self._row(number)
                for field in range(len(KEY_FIELDS)):
                    if field not in KEPT_FIELDS:
                        row.ints(field)[index] = 0

    # -- which key has which row

    def claim(self, digests: Collection[bytes]) -> dict[bytes, Row]:
        """Hold the rows of keys, which are the same in all workers.

        :param digests: of 32 bytes each.
        :returns: the rows; a key is left out where all rows are in use, or the lock is.
        """
        held = self._held
        wanted = [digest for digest in digests if digest not in held]
        if wanted:
            with self._locked() as locked:
                if locked:
                    self._claim(wanted)
        return {digest: self._row(held[digest]) for digest in digests if digest in held}

    def let_go(self, digests: Iterable[bytes]) -> set[bytes]:
        """Hold the rows of these keys no longer; this worker's slots in them must be zero.

        :returns: those that were let go: all, or none where the lock is in use.
        """
        gone = {digest for digest in digests if digest in self._held}
        if not gone:
            return gone
        with self._locked() as locked:
            if not locked:
                return set()
            for digest in gone:
                self._masks[_mask_at(self._held.pop(digest))] &= ~(1 << self.index)
        return gone

    def _claim(self, wanted: list[bytes]) -> None:
        """Find or make the rows of new keys; under the lock."""
        known, free = self._look_through()
        new = []
        for digest in wanted:
            number = known.get(digest)
            if number is None:
                new.append(digest)
            else:
                self._hold(digest, number)
        spare = iter(free)
        for digest in new:
            number = next((number for number in spare if not self._masks[_mask_at(number)]), None)
            if number is None:
                number = self._taken()
                if number >= self._rows:
                    break
                self._ints[_TAKEN_AT] = number + 1
            self._wipe(number)
            # The key first: a row that is held is a row whose key is known.
            at = _REGISTER_AT + number * _ENTRY.size
            self._memory[at : at + _DIGEST_BYTES] = digest
            self._hold(digest, number)

    def _look_through(self) -> tuple[dict[bytes, int], list[int]]:
        """What key each row is for, and which rows nobody holds."""
        known: dict[bytes, int] = {}
        free = []
        mask = 1 << self.index
        mine = set(self._held.values())
        start = _REGISTER_AT + _ENTRY.size
        register = self._memory[start : start + (self._taken() - 1) * _ENTRY.size]
        for number, (digest, holders) in enumerate(_ENTRY.iter_unpack(register), 1):
            known[digest] = number
            if holders & mask and number not in mine:
                # Held by a worker that stood here before, and is gone.
                holders &= ~mask
                self._masks[_mask_at(number)] = holders
            if not holders:
                free.append(number)
        return known, free

    def _hold(self, digest: bytes, number: int) -> None:
        self._masks[_mask_at(number)] |= 1 << self.index
        self._held[digest] = number

    def _wipe(self, number: int) -> None:
        start = self._counters_at + 8 * number * _FIELDS * self.workers
        size = 8 * _FIELDS * self.workers
        self._memory[start : start + size] = bytes(size)

    def _row(self, number: int) -> Row:
        start = self._counters_at // 8 + number * _FIELDS * self.workers
        return Row(self._ints, self._floats, start, self.workers)

    def _taken(self) -> int:
        taken: int = self._ints[_TAKEN_AT]
        return taken

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Whether the register may be changed.

        The lock is one of ``fcntl``, which a process holds: a lock of ``flock`` belongs to the open
        file, and that is one and the same for all who inherited the descriptor. Either ends with
        its holder.
        """
        give_up_at = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if time.monotonic() >= give_up_at:
                yield False
                return
            time.sleep(_LOCK_LOOK_SECONDS)
        try:
            yield True
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)


def _mask_at(number: int) -> int:
    """Where the bits of a row's holders stand, in items of 8 bytes."""
    return (_REGISTER_AT + number * _ENTRY.size + _DIGEST_BYTES) // 8


def _counters_at(rows: int) -> int:
    """Where the counters begin, in bytes."""
    return -(-(_REGISTER_AT + rows * _ENTRY.size) // _LINE) * _LINE


def _size(workers: int, rows: int) -> int:
    return _counters_at(rows) + 8 * rows * _FIELDS * workers

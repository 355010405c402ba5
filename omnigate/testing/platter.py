"""What a disk holds, what it was told since it was last synced, and what a power loss may leave.

The model behind :mod:`omnigate.testing.memory_disk`, without files, descriptors and faults. A
:class:`Platter` takes :data:`Step` after step. Nothing is promised of what was not synced:

* the bytes of a file may be there, or not, or torn at any byte, with zero bytes in the place of the
  rest, or with zero bytes in the place of an earlier write while a later one is there;
* names that were made, moved or removed may be so, or not, each for itself, until their folder is
  synced; only a rename within a folder is whole, and a sync of a file says nothing of its name. One
  into another folder may have made the new name and not removed the old one, and the other way
  round; what is in a folder that is gone is gone too;
* a sync that failed has lost what it was for: the cache shows it, a later sync does not write it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random

import attrs

#: Of so many names not synced every subset is tried: 64 states. Of more only the simple ones.
MAX_WHOLE_NAMES = 6

#: What stands in the place of a file's number behind the name of a folder.
FOLDER = 0


@attrs.frozen
class Create:
    """A file was made; files are known by numbers, as inodes are."""

    path: str
    number: int


@attrs.frozen
class Write:
    """Bytes were written at an offset."""

    number: int
    offset: int
    data: bytes


@attrs.frozen
class Cut:
    """A file was cut, or lengthened by zero bytes."""

    number: int
    length: int


@attrs.frozen
class Sync:
    """A file was synced."""

    number: int


@attrs.frozen
class LostSync:
    """A sync of a file failed."""

    number: int


@attrs.frozen
class Reread:
    """The cache of a file was dropped; what was lost no longer shows."""

    number: int


@attrs.frozen
class MakeFolder:
    """A folder was made in another; the number of any is :data:`FOLDER`."""

    path: str


@attrs.frozen
class RemoveFolder:
    """A folder was removed, with nothing in it."""

    path: str


@attrs.frozen
class Rename:
    """A file was renamed, over another if there was one."""

    source: str
    target: str
    number: int


@attrs.frozen
class Remove:
    """A name was removed."""

    path: str
    number: int


@attrs.frozen
class SyncFolder:
    """The names of a folder were synced."""

    folder: str


@attrs.frozen
class Mark:
    """The world outside was told something; nothing happened to the disk."""

    value: object


NameChange = Create | Rename | Remove | MakeFolder | RemoveFolder
Step = NameChange | Write | Cut | Sync | LostSync | Reread | SyncFolder | Mark

#: Given the length of a write, at which bytes to tear it.
Tears = Callable[[int], Iterable[int]]


def every_byte(length: int) -> Iterable[int]:
    """Tear a write at every byte within it."""
    return range(1, length)


def few_bytes(length: int) -> Iterable[int]:
    """Tear a write behind its first byte, in its middle, and before its last byte."""
    return sorted({1, length // 2, length - 1} & set(range(1, length)))


class StoredFile:
    """One file: what its cache shows, and what the disk has of it for certain.

    :ivar content: what a reader is given.
    :ivar changes: what the disk was told since the last sync that succeeded, in order.
    """

    def __init__(self, number: int, content: bytes = b"") -> None:
        """Make a file whose content is on the disk."""
        self.number = number
        self.content = bytearray(content)
        self.changes: list[Write | Cut] = []
        # The disk has the first bytes of the content, so many; or this in its stead.
        self._floor = len(content)
        self._durable: bytes | None = None
        self._first: bytes | None = None
        self._lost: list[range] = []

    def copy(self) -> StoredFile:
        """Return a file that goes its own way from here."""
        other = StoredFile(self.number)
        other.content, other.changes = self.content[:], self.changes[:]
        other._floor, other._durable, other._first = self._floor, self._durable, self._first
        other._lost = self._lost[:]
        return other

    @property
    def durable(self) -> bytes:
        """What is on the disk for certain."""
        if self._durable is not None:
            return self._durable
        if self._first is None:
            self._first = bytes(self.content[: self._floor])
        return self._first

    @property
    def kept(self) -> bytes:
        """What is on the disk if all that it was told has reached it."""
        return _after(self.durable, self.changes)

    def change(self, step: Write | Cut) -> None:
        """Write or cut."""
        start = step.offset if isinstance(step, Write) else step.length
        if self._durable is None and start < self._floor:
            self._durable = self.durable
        end = start + len(step.data) if isinstance(step, Write) else len(self.content)
        self._lost = _without(self._lost, start, end)
        _apply(self.content, step)
        self.changes.append(step)

    def sync(self) -> None:
        """Make the disk have what the cache shows, but for what a failed sync lost."""
        self.changes.clear()
        self._floor, self._durable, self._first = len(self.content), None, None
        if self._lost:
            content = self.content[:]
            for lost in self._lost:
                content[lost.start : lost.stop] = bytes(len(lost))
            self._durable = bytes(content)

    def lose_sync(self) -> None:
        """Take all that was written since the last sync for written, though it may not be."""
        for change in self.changes:
            if isinstance(change, Write):
                lost = range(change.offset, change.offset + len(change.data))
                self._lost.append(range(lost.start, min(lost.stop, len(self.content))))
        self._lost = [lost for lost in self._lost if lost]

    def reread(self) -> None:
        """Show what the disk has, unless the cache holds what was not written yet."""
        if not self.changes and self._lost:
            self.content[:] = self.durable
            self._floor, self._durable, self._first = len(self.content), None, None
            self._lost.clear()

    def torn(self, tears: Tears) -> Iterator[tuple[str, bytes]]:
        """Tear the last change; the ones before it have reached the disk."""
        *before, last = self.changes
        content = _after(self.durable, before)
        yield "without the last change", content
        if isinstance(last, Write):
            full = max(len(content), last.offset + len(last.data))
            yield "with zero bytes for the last write", content.ljust(full, b"\0")
            for length in tears(len(last.data)):
                torn = _after(content, [Write(self.number, last.offset, last.data[:length])])
                yield f"torn at {length} of {len(last.data)}", torn
                yield f"torn at {length}, with zero bytes behind", torn.ljust(full, b"\0")

    def any_state(self, rng: Random) -> bytes:
        """Return one of all that may be there, by chance."""
        kind = rng.randrange(5)
        if kind == 0 or not self.changes:
            return self.durable
        if kind == 1:
            return self.kept
        changes = self.changes[: rng.randint(1, len(self.changes))]
        if kind == 2 and len(changes) > 1:
            del changes[rng.randrange(len(changes) - 1)]
        last = changes[-1]
        if isinstance(last, Write):
            changes[-1] = attrs.evolve(last, data=last.data[: rng.randint(0, len(last.data))])
        content = _after(self.durable, changes)
        return content.ljust(len(self.content), b"\0") if kind == 3 else content


class Platter:
    """All files of a disk and their names.

    :ivar files: by number.
    :ivar names: the number behind each path, as a process sees it; :data:`FOLDER` for a folder in
        one of the machines' folders, which themselves are always there.
    """

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        """Make a disk that has these files for certain; a path with a slash at its end: a folder.

        Folders come before what is in them.
        """
        self.files: dict[int, StoredFile] = {}
        self.names: dict[str, int] = {}
        for path, content in (contents or {}).items():
            if path.endswith("/"):
                self.names[path.rstrip("/")] = FOLDER
                continue
            number = len(self.files) + 1
            self.files[number], self.names[path] = StoredFile(number, content), number
        self._durable_names = dict(self.names)
        self._name_changes: list[NameChange] = []

    def copy(self) -> Platter:
        """Return a disk that goes its own way from here."""
        other = Platter()
        other.files = {number: file.copy() for number, file in self.files.items()}
        other.names, other._durable_names = self.names.copy(), self._durable_names.copy()
        other._name_changes = self._name_changes[:]
        return other

    def apply(self, step: Step) -> None:
        """Do one step."""
        if isinstance(step, Write | Cut):
            self.files[step.number].change(step)
        elif isinstance(step, Sync):
            self.files[step.number].sync()
        elif isinstance(step, LostSync):
            self.files[step.number].lose_sync()
        elif isinstance(step, Reread):
            self.files[step.number].reread()
        elif isinstance(step, SyncFolder):
            self._sync_folder(step.folder)
        elif not isinstance(step, Mark):
            if isinstance(step, Create):
                self.files[step.number] = StoredFile(step.number)
            _rename(self.names, step)
            if isinstance(step, Rename) and _parent(step.source) != _parent(step.target):
                self._name_changes.append(Create(step.target, step.number))
                self._name_changes.append(Remove(step.source, step.number))
            else:
                self._name_changes.append(step)

    def _sync_folder(self, folder: str) -> None:
        waiting = []
        for change in self._name_changes:
            if _folder(change) == folder:
                _rename(self._durable_names, change)
            else:
                waiting.append(change)
        self._name_changes = waiting

    def forget(self, opened: Iterable[int]) -> None:
        """Free the files that no name leads to, now or after any crash, and that nobody has open.

        :param opened: the numbers of those that somebody has open.
        """
        used = {*opened, *self.names.values(), *self._durable_names.values()}
        used.update(getattr(change, "number", FOLDER) for change in self._name_changes)
        for number in [number for number in self.files if number not in used]:
            del self.files[number]

    def shown(self) -> dict[str, bytes]:
        """Return what processes see."""
        return {path: bytes(self.files[n].content) for path, n in self.names.items() if n}

    def certain(self) -> dict[str, bytes]:
        """Return what is on the disk whatever happens."""
        return {path: self.files[n].durable for path, n in self._durable_names.items() if n}

    def crash(self, folder: str, rng: Random | None) -> None:
        """Lose the power of the machine that has this folder, and go on with what is left.

        :param rng: what takes one of all permitted states; None for the one in which nothing that
            was not synced is left.
        """
        changes = [one for one in self._name_changes if _within(_folder(one), folder)]
        kept = [one for one in changes if rng is not None and rng.random() < 0.5]
        names = {path: n for path, n in self.names.items() if not _within(path, folder)}
        after = {path: n for path, n in self._durable_names.items() if _within(path, folder)}
        for change in kept:
            _rename(after, change)
        after = _reachable(after, self._all_folders())
        self._durable_names = {
            path: n for path, n in self._durable_names.items() if not _within(path, folder)
        } | after
        self._name_changes = [
            one for one in self._name_changes if not _within(_folder(one), folder)
        ]
        for number in {*after.values()} - {FOLDER}:
            file = self.files[number]
            content = file.durable if rng is None else file.any_state(rng)
            self.files[number] = StoredFile(number, content)
        self.names = names | after

    def name_choices(self, every: bool) -> list[dict[str, int]]:
        """Return the names that may be there after a power loss: all kept first, none second.

        :param every: False for these two only.
        """
        changes = self._name_changes
        subsets: list[list[NameChange]] = [changes, []]
        if every and len(changes) <= MAX_WHOLE_NAMES:
            for bits in range(1, 2 ** len(changes) - 1):
                subsets.append([one for i, one in enumerate(changes) if bits >> i & 1])
        elif every:
            for i in range(len(changes)):
                subsets += [changes[:i], changes[i:], changes[:i] + changes[i + 1 :], [changes[i]]]
        choices: list[dict[str, int]] = []
        for subset in subsets:
            names = self._durable_names.copy()
            for change in subset:
                _rename(names, change)
            names = _reachable(names, self._all_folders())
            if len(choices) < 2 or names not in choices:
                choices.append(names)
        return choices

    def _all_folders(self) -> set[str]:
        """Return every folder that was ever made and may be missed now."""
        made = {path for path, number in self.names.items() if number == FOLDER}
        made.update(path for path, number in self._durable_names.items() if number == FOLDER)
        changed = (c for c in self._name_changes if isinstance(c, MakeFolder | RemoveFolder))
        return made.union(change.path for change in changed)

    def power_losses(
        self, step: Step, tears: Tears, rng: Random | None, mixed: int
    ) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield what may be there if the power goes right after a step.

        Writes are torn that the step made, since earlier ones were torn after theirs; after a
        mark the last one of each file, since more is then expected of them.

        :param mixed: how many states to add in which each file has a fate of its own.
        """
        every = isinstance(step, NameChange | SyncFolder | Mark)
        choices = self.name_choices(every)
        changed = {number: file for number, file in self.files.items() if file.changes}
        base = {n: file.durable for n, file in self.files.items() if n not in changed}
        kept = base | {number: file.kept for number, file in changed.items()}
        dropped = base | {number: file.durable for number, file in changed.items()}
        for index, names in enumerate(choices):
            label = f"names {index}" if index > 1 else ("names kept", "names dropped")[index]
            yield f"{label}, content kept", _contents(names, kept)
            yield f"{label}, content dropped", _contents(names, dropped)
        torn = [step.number] if isinstance(step, Write | Cut) else []
        for number in list(changed) if isinstance(step, Mark) else torn:
            for label, content in self.files[number].torn(tears):
                for names in choices[:2]:
                    yield f"file {number} {label}", _contents(names, kept | {number: content})
        for _ in range(mixed if rng is not None and (changed or len(choices) > 2) else 0):
            assert rng is not None
            some = base | {number: file.any_state(rng) for number, file in changed.items()}
            yield "mixed", _contents(rng.choice(choices), some)


def _contents(names: Mapping[str, int], files: Mapping[int, bytes]) -> dict[str, bytes]:
    return {path if n else f"{path}/": files[n] if n else b"" for path, n in names.items()}


def _reachable(names: dict[str, int], folders: set[str]) -> dict[str, int]:
    """Return the names without those in a folder that is not there."""
    gone = [folder for folder in folders if names.get(folder) != FOLDER]
    if not gone:
        return names
    return {p: n for p, n in names.items() if not any(_within(p, folder) for folder in gone)}


def _rename(names: dict[str, int], change: NameChange) -> None:
    """Do to a table of names what was done to the folder, if it is still so."""
    if isinstance(change, Create):
        names[change.path] = change.number
    elif isinstance(change, Rename):
        if names.get(change.source) == change.number:
            del names[change.source]
        names[change.target] = change.number
    elif isinstance(change, MakeFolder):
        names[change.path] = FOLDER
    elif names.get(change.path) == getattr(change, "number", FOLDER):
        del names[change.path]


def _folder(change: NameChange) -> str:
    return _parent(change.target if isinstance(change, Rename) else change.path)


def _parent(path: str) -> str:
    return posixpath.dirname(path)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _after(content: bytes, changes: Iterable[Write | Cut]) -> bytes:
    result = bytearray(content)
    for change in changes:
        _apply(result, change)
    return bytes(result)


def _apply(content: bytearray, change: Write | Cut) -> None:
    if isinstance(change, Cut):
        del content[change.length :]
        content.extend(bytes(change.length - len(content)))
    else:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.offset + len(change.data)] = change.data


def _without(ranges: Iterable[range], start: int, end: int) -> list[range]:
    """Take what lies between two offsets out of ranges."""
    parts = []
    for one in ranges:
        parts += [range(one.start, min(one.stop, start)), range(max(one.start, end), one.stop)]
    return [part for part in parts if part]

"""Lines of the job log: a job whole, a change of one, jobs that are gone.

Three kinds, told apart by ``kind``; every one ends with its own checksum, as a line of the ledger
does, so that a line that a disk has torn or mixed with another is known for what it is::

    {"v":1,"kind":"job","n":1,"status":"queued","id":"job_…",…,"input":{…},"crc32":"1a2b3c4d"}
    {"v":1,"kind":"change","n":2,"id":"job_…","status":"running","started_ms":…,"crc32":"…"}
    {"v":1,"kind":"gone","ids":["job_…",…],"crc32":"…"}

``n`` counts the lines of a job from 1: one that is missing shows by the next one. A line of kind
``job`` has all that differs from what :class:`~omnigate.jobs.job.Job` begins with, and always
``status``, ``input`` and, where the input lies in a file, ``"input":null`` and
``"input_file":true``. A later version of the program may add members freely; it counts ``v`` up
only where an older one would misread the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from omnigate.events import checked_line
from omnigate.jobs.job import QUEUED, Job
from omnigate.text import one_line, valid_text
from omnigate.wire.json_values import rounded

#: The version of the lines that is written.
LINE_VERSION: Final = 1

#: An input longer than this, as JSON, lies in a file of its own, and so stays out of memory.
MAX_INLINE_INPUT_BYTES: Final = 8 * 1024

#: The longest patch: the attempts of a route of 64 targets with 500 characters of error each, and
#: 256 outputs of 300 bytes, come to half of this.
MAX_PATCH_BYTES: Final = 256 * 1024

#: The longest line that is read: a patch's members, the input and the metadata together.
MAX_LINE_BYTES: Final = 1024 * 1024

#: What a job is begun with and never changes.
UNCHANGEABLE: Final = frozenset(
    (
        "id",
        "key_sha256",
        "model",
        "created_ms",
        "input",
        "input_file",
        "metadata",
        "idempotency_key",
        "request_sha256",
    )
)

_CHECK_BEGIN = b',"crc32":"'
_CHECK_BYTES = len(_CHECK_BEGIN) + len('12345678"}')
_ID = re.compile(rb'"id":"(job_[0-9a-z]{26})"')
_ID_SCAN_BYTES = 512

_FIELDS: Final = tuple(
    field for field in msgspec.structs.fields(Job) if field.name not in UNCHANGEABLE
)
CHANGEABLE: Final = frozenset(field.name for field in _FIELDS)

_Patch: Any = msgspec.defstruct(
    "_Patch",
    [(field.name, field.type | msgspec.UnsetType, msgspec.UNSET) for field in _FIELDS],
    frozen=True,
    kw_only=True,
    gc=False,
)


class DamagedLineError(ValueError):
    """A line of the job log cannot be read; the text says why.

    :ivar id: the job that it seems to be about; empty where nothing tells.
    """

    def __init__(self, reason: str, id: str = "") -> None:
        super().__init__(reason)
        self.id = id


class NewerLineError(Exception):
    """A line was written by a later version of the program and must not be guessed at."""


class PatchTooLargeError(ValueError):
    """A change is longer than a line may be; nothing of it was written."""


@attrs.frozen
class JobLine:
    """A job whole, as it was after ``n`` lines."""

    n: int
    job: Job


@attrs.frozen
class ChangeLine:
    """What changed of a job by its ``n``-th line."""

    n: int
    id: str
    fields: Mapping[str, Any]


@attrs.frozen
class GoneLine:
    """Jobs that were removed."""

    ids: Sequence[str]


Line: TypeAlias = JobLine | ChangeLine | GoneLine


class _Head(msgspec.Struct, gc=False):
    v: int
    kind: str
    id: str = ""
    n: int = 0
    ids: tuple[str, ...] = ()


class _RawInput(msgspec.Struct, gc=False):
    input: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_job = msgspec.json.Decoder(Job, float_hook=rounded).decode
_decode_patch = msgspec.json.Decoder(_Patch, float_hook=rounded).decode
_decode_raw_input = msgspec.json.Decoder(_RawInput).decode


def job_line(job: Job, n: int, input_json: bytes | None) -> bytes:
    """Write a job whole, its line end included.

    :param input_json: its input as JSON on one line, whatever :attr:`Job.input` holds; None where
        it lies in a file.
    """
    bare = msgspec.structs.replace(job, status=QUEUED, input=None)
    return (
        checked_line(
            b'{"v":1,"kind":"job","n":%d,"status":"%b",%b,"input":%b}'
            % (n, job.status.encode("ascii"), _encode(bare)[1:-1], input_json or b"null")
        )
        + b"\n"
    )


def change_line(id: str, n: int, fields: Mapping[str, Any]) -> bytes:
    """Write what changed of a job, its line end included.

    :raises PatchTooLargeError: it is longer than :data:`MAX_PATCH_BYTES`.
    :raises UnicodeEncodeError: a text cannot be encoded; see :func:`repaired`.
    """
    line = (
        checked_line(
            b'{"v":1,"kind":"change","n":%d,"id":"%b",%b}'
            % (n, id.encode("ascii"), _encode(fields)[1:-1])
        )
        + b"\n"
    )
    if len(line) > MAX_PATCH_BYTES:
        raise PatchTooLargeError(
            f"{id}: a change of {', '.join(fields)} takes {len(line)} bytes; at most "
            f"{MAX_PATCH_BYTES} can be written"
        )
    return line


def gone_line(ids: Iterable[str]) -> bytes:
    """Write that jobs were removed, its line end included."""
    return checked_line(b'{"v":1,"kind":"gone","ids":%b}' % _encode(list(ids))) + b"\n"


def decode_line(line: bytes) -> Line:
    """Read a line of the job log back; it comes without its line end.

    :raises DamagedLineError: it is no such line.
    :raises NewerLineError: it is one of a version that this program does not know.
    """
    try:
        head = _checked_head(line)
        if head.kind == "job":
            return JobLine(head.n, _decode_job(line))
        if head.kind == "change":
            patch = _decode_patch(line)
            values = ((name, getattr(patch, name)) for name in _Patch.__struct_fields__)
            changed = {name: value for name, value in values if value is not msgspec.UNSET}
            return ChangeLine(head.n, head.id, changed)
        if head.kind == "gone":
            return GoneLine(head.ids)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLineError(one_line(str(error), 200), id_in(line)) from None
    raise DamagedLineError(f"there is no kind {one_line(head.kind, 50)!r}", id_in(line))


def _checked_head(line: bytes) -> _Head:
    end = line[-_CHECK_BYTES:]
    if not end.startswith(_CHECK_BEGIN) or line != checked_line(line[:-_CHECK_BYTES] + b"}"):
        raise DamagedLineError("its checksum is missing or wrong", id_in(line))
    head = _decode_head(line)
    if head.v > LINE_VERSION:
        raise NewerLineError(f"line of version {head.v}; this program reads {LINE_VERSION}")
    return head


def id_in(line: bytes) -> str:
    """Return the id of the job that a damaged line seems to be about; empty where none shows."""
    found = _ID.search(line[:_ID_SCAN_BYTES])
    return "" if found is None else found[1].decode("ascii")


def raw_input(line: bytes) -> bytes:
    """Return the input of a line of kind ``job`` as it stands there.

    :raises DamagedLineError: the line is not, or not any more, such a line.
    """
    try:
        _checked_head(line)
        return bytes(_decode_raw_input(line).input)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLineError(one_line(str(error), 200), id_in(line)) from None


def repaired(value: Any) -> Any:
    """Return a value, structs among it, with every text in it such that it can be encoded."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{f: repaired(getattr(value, f)) for f in fields})
    if isinstance(value, dict):
        return {repaired(key): repaired(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(repaired(item) for item in value)
    return value

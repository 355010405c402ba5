"""A request for a job, judged by what it says alone: members, types, lengths.

The input's own rules are those of :mod:`omnigate.jobs.input_rules`; what the key may is judged
where its counts are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import attrs
import msgspec

from omnigate.errors import GatewayError
from omnigate.jobs.long_strings import (
    Cut,
    NotJsonError,
    Steps,
    TooComplexError,
    cut_steps,
    small_tree,
    tree_steps,
)
from omnigate.outbound.urls import UrlError, parse_url
from omnigate.text import one_line, quoted
from omnigate.wire.json_walk import PIECE_BYTES

#: The largest body, as at the data plane.
MAX_BODY_BYTES: Final = 8_000_000

#: Metadata stay in memory as long as their job is kept; other services take 16 pairs of 64 and 512
#: characters, which is half of this.
MAX_METADATA_BYTES: Final = 16 * 1024

#: A name in the config has no more.
MAX_MODEL_CHARS: Final = 256

MEMBERS: Final = (b"model", b"input", b"metadata", b"webhook_url")

#: How msgspec names a member that it misses, or does not know.
_LACKING = re.compile(r"field `(\w+)`")
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_JOB_ID = re.compile(r"job_[0-9a-hjkmnp-tv-z]{26}")


@attrs.frozen
class JobRequest:
    """What a client asks for.

    :ivar input_json: the input as the client wrote it.
    :ivar sha256: of all that makes it this request, however its JSON is laid out.
    """

    model: str
    input: dict[str, Any] = attrs.field(repr=False)
    input_json: bytes = attrs.field(repr=False)
    metadata: dict[str, Any] | None
    webhook_url: str | None
    sha256: str


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    model: msgspec.Raw
    input: msgspec.Raw
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    webhook_url: msgspec.Raw = msgspec.Raw(b"null")


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def read_request(body: bytes, max_input_bytes: int) -> Steps[JobRequest]:
    """Read a request in steps of some milliseconds, whatever its body holds.

    :param max_input_bytes: the most that input and metadata may have together, as JSON.
    :raises GatewayError: ``invalid_json``, ``invalid_request``, ``request_too_large``,
        ``request_too_complex``.
    """
    try:
        cut = yield from cut_steps(body, MEMBERS)
        _check_once(cut)
        members = _members(cut.rest)
        model = _text(cut, members.model, "model", MAX_MODEL_CHARS)
        input_part = bytes(members.input)
        if input_part[:1] != b"{":
            raise _invalid("input must be an object", "input")
        metadata_part = _unless_null(members.metadata)
        metadata = None if metadata_part is None else _metadata(cut, metadata_part)
        input_json = cut.restored(input_part)
        yield
        length = len(input_json) + len(metadata_part or b"")
        if length > max_input_bytes:
            raise GatewayError(
                "request_too_large",
                f"input and metadata take {length} bytes as JSON; together they may take "
                f"{max_input_bytes}",
                param="input",
            )
        webhook_url = None
        if (url_part := _unless_null(members.webhook_url)) is not None:
            webhook_url = _webhook_url(cut, url_part)
        input = yield from tree_steps(cut, input_part)
        digest = yield from _digest(cut, input_part, (model, metadata, webhook_url))
    except TooComplexError as error:
        raise GatewayError("request_too_complex", f"the body is too complex: {error}") from None
    except (NotJsonError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GatewayError(
            "invalid_json", f"the body is no JSON: {one_line(str(error), 200)}"
        ) from None
    return JobRequest(model, input, input_json, metadata, webhook_url, digest)


def _check_once(cut: Cut) -> None:
    """Refuse a member that is given twice: of two readers one may take the first."""
    seen: set[bytes] = set()
    for hit in cut.hits:
        if hit.name in seen:
            name = hit.name.decode("ascii")
            raise _invalid(f"{name} is given twice", name)
        seen.add(hit.name)


def _members(text: bytes) -> _Body:
    try:
        return _decode_body(text)
    except msgspec.ValidationError as error:
        known = ", ".join(name.decode("ascii") for name in MEMBERS)
        reason = one_line(str(error), 200)
        named = _LACKING.search(reason)
        raise GatewayError(
            "invalid_request",
            f"a job is asked for by an object of {known}: {reason}",
            param=None if named is None else named[1],
        ) from None


def _unless_null(part: msgspec.Raw) -> bytes | None:
    raw = bytes(part)
    return None if raw == b"null" else raw


def _text(cut: Cut, part: msgspec.Raw | bytes, name: str, most: int) -> str:
    raw = cut.restored(bytes(part))
    if raw[:1] != b'"':
        raise _invalid(f"{name} must be a string", name)
    # An escape has six characters, and two of them make one.
    text = _decode_text(raw) if len(raw) <= 12 * most + 2 else ""
    if not 1 <= len(text) <= most:
        raise _invalid(f"{name} must have 1 to {most} characters", name)
    return text


def _metadata(cut: Cut, part: bytes) -> dict[str, Any]:
    if part[:1] != b"{":
        raise _invalid("metadata must be an object or null", "metadata")
    raw = cut.restored(part)
    if len(raw) > MAX_METADATA_BYTES:
        raise _invalid(
            f"metadata may take {MAX_METADATA_BYTES} bytes as JSON; this takes {len(raw)}",
            "metadata",
        )
    return small_tree(raw)


def _webhook_url(cut: Cut, part: bytes) -> str:
    text = _text(cut, part, "webhook_url", 2048)
    try:
        parse_url(text)
    except UrlError as error:
        raise _invalid(f"webhook_url cannot be used: {error}", "webhook_url") from None
    return text


def _digest(cut: Cut, input_part: bytes, others: tuple[object, ...]) -> Steps[str]:
    """Hash a request; its long strings one by one, the rest in one form for all layouts."""
    hashes: dict[str, str] = {}
    for marker in cut.markers_in(input_part):
        text, hasher = cut.strings[marker], sha256()
        for start in range(0, len(text), PIECE_BYTES):
            hasher.update(text[start : start + PIECE_BYTES])
            yield
        hashes[marker] = hasher.hexdigest()
    # A marker was made by chance, and a hash says where its string stands.
    rest = cut.replaced(input_part, hashes)
    yield
    try:
        # Sorted, since members may stand in any order.
        return sha256(_encode((small_tree(rest), sorted(hashes.values()), others))).hexdigest()
    except (OverflowError, UnicodeEncodeError) as error:
        raise NotJsonError(str(error)) from None


def check_idempotency_key(key: str) -> None:
    """Judge the value of an ``idempotency-key`` header; an empty one is none.

    :raises GatewayError: ``invalid_request``.
    """
    if key and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise _invalid(
            "an idempotency key has 1 to 255 characters of visible ASCII, and is given once",
            "Idempotency-Key",
        )


@attrs.frozen
class ListRequest:
    """Which of a key's jobs are asked for."""

    status: str | None
    after: str | None
    limit: int


#: Jobs of one page.
MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 20


def read_list_request(query: Mapping[str, str], states: tuple[str, ...]) -> ListRequest:
    """Read the query of a list.

    :param states: those there are.
    :raises GatewayError: ``invalid_request``.
    """
    status, after = query.get("status"), query.get("after")
    if status is not None and status not in states:
        raise _invalid(f"status is one of {', '.join(states)}", "status")
    if after is not None and not _JOB_ID.fullmatch(after):
        raise _invalid(f"after is the id of a job, not {quoted(after)}", "after")
    text = query.get("limit", str(DEFAULT_LIMIT))
    limit = int(text) if re.fullmatch("[0-9]{1,3}", text, re.ASCII) else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise _invalid(f"limit is a number from 1 to {MAX_LIMIT}", "limit")
    return ListRequest(status, after, limit)


def _invalid(message: str, param: str) -> GatewayError:
    return GatewayError("invalid_request", message, param=param)

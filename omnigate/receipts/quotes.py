"""What a TDX quote says (Intel's quote format, versions 4 and 5); reading it proves nothing.

A header of 48 bytes, in version 5 six more that describe the body, and a body of 584 bytes with the
measurements of a trust domain.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from typing import Any, Final

import attrs

from omnigate.wire.json_values import BoundsError, read_values

#: A quote with its certificates has about 5 KB.
MAX_QUOTE_CHARS: Final = 64 * 1024
MAX_EVENTS: Final = 4_096
MAX_COMPOSE_CHARS: Final = 1024 * 1024

TDX: Final = 0x81
_BODY_BYTES: Final = 584
_RUNTIME_EVENT: Final = 0x08000001
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")


class QuoteError(ValueError):
    """Bytes that are no quote of a trust domain."""


@attrs.frozen
class Quote:
    """The fields of a quote that are looked at."""

    version: int
    debug: bool
    mrtd: bytes
    mr_config_id: bytes
    rtmrs: tuple[bytes, bytes, bytes, bytes]
    report_data: bytes
    sha256: str


def read_quote(text: object) -> Quote:
    """Read a quote in hexadecimal or base64.

    :raises QuoteError: it is none.
    """
    if not isinstance(text, str) or len(text) > MAX_QUOTE_CHARS:
        raise QuoteError("no text, or too long")
    text = text.removeprefix("0x")
    try:
        data = (
            bytes.fromhex(text) if _HEX.fullmatch(text) else base64.b64decode(text, validate=True)
        )
    except (ValueError, binascii.Error):
        raise QuoteError("neither hexadecimal nor base64") from None
    if len(data) < 48:
        raise QuoteError("shorter than its header")
    version, _, tee = struct.unpack_from("<HHI", data)
    if version not in (4, 5) or tee != TDX:
        raise QuoteError("no quote of a trust domain in version 4 or 5")
    start = 48 if version == 4 else 54
    body = data[start : start + _BODY_BYTES]
    if len(body) < _BODY_BYTES:
        raise QuoteError("shorter than its body")
    return Quote(
        version,
        bool(body[120] & 1),
        body[136:184],
        body[184:232],
        (body[328:376], body[376:424], body[424:472], body[472:520]),
        body[520:584],
        hashlib.sha256(data).hexdigest(),
    )


def replayed_rtmr3(log: object) -> bytes | None:
    """Replay an event log into the fourth register; None where it is no log.

    :param log: a list of events, or its JSON.
    """
    if isinstance(log, str):
        if len(log) > MAX_COMPOSE_CHARS:
            return None
        try:
            log = read_values(log.encode("utf-8", "replace"))
        except BoundsError:
            return None
    if not isinstance(log, list) or len(log) > MAX_EVENTS:
        return None
    register = bytes(48)
    for event in log:
        digest = _digest_of(event) if isinstance(event, dict) else None
        if digest is None:
            return None
        if event.get("imr") == 3:
            register = hashlib.sha384(register + digest).digest()
    return register


def _digest_of(event: dict[str, Any]) -> bytes | None:
    """The digest of an event; that of a runtime event is computed, and not taken on trust."""
    kind, name, payload = event.get("event_type"), event.get("event"), event.get("event_payload")
    try:
        if kind == _RUNTIME_EVENT and isinstance(name, str) and isinstance(payload, str):
            # Not of what is said to be that number: it may be a float.
            data = (
                struct.pack("<I", _RUNTIME_EVENT)
                + b":"
                + name.encode()
                + b":"
                + bytes.fromhex(payload)
            )
            return hashlib.sha384(data).digest()
        digest = event.get("digest")
        return bytes.fromhex(digest) if isinstance(digest, str) else None
    except ValueError:
        return None


def compose_of(report: dict[str, Any]) -> str | None:
    """Return the text of what runs there, ``info.tcb_info.app_compose``."""
    info = report.get("info")
    tcb = info.get("tcb_info") if isinstance(info, dict) else None
    if isinstance(tcb, str) and len(tcb) <= MAX_COMPOSE_CHARS:
        try:
            tcb = read_values(tcb.encode("utf-8", "replace"))
        except BoundsError:
            return None
    compose = tcb.get("app_compose") if isinstance(tcb, dict) else None
    return compose if isinstance(compose, str) and len(compose) <= MAX_COMPOSE_CHARS else None

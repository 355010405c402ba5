"""How errors of upstreams are told, in the words of each protocol: status, type, code, message."""

import attrs
import msgspec

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.text import valid_text

_encode = msgspec.json.Encoder().encode


@attrs.frozen
class _Row:
    """How a kind is told: the client's status, type and code, and what is said of our own."""

    openai_status: int
    openai_type: str
    openai_code: str | None
    anthropic_status: int
    anthropic_type: str
    words: str


_ROWS = {
    FaultKind.INVALID: _Row(
        400,
        "invalid_request_error",
        None,
        400,
        "invalid_request_error",
        "The upstream refused the request and gave no reason.",
    ),
    FaultKind.CONTEXT_LENGTH: _Row(
        400,
        "invalid_request_error",
        "context_length_exceeded",
        400,
        "invalid_request_error",
        "The request is longer than the model's context: shorten the conversation.",
    ),
    FaultKind.CREDENTIAL: _Row(
        502,
        "server_error",
        "upstream_authentication_failed",
        502,
        "api_error",
        "The upstream refused the gateway's credential: its operator has to look into it.",
    ),
    FaultKind.QUOTA: _Row(
        429,
        "insufficient_quota",
        "insufficient_quota",
        402,
        "billing_error",
        "The gateway's account with the upstream has no credit left.",
    ),
    FaultKind.NOT_FOUND: _Row(
        404,
        "invalid_request_error",
        "model_not_found",
        404,
        "not_found_error",
        "The upstream does not know the model.",
    ),
    FaultKind.TOO_LARGE: _Row(
        413,
        "invalid_request_error",
        "request_too_large",
        413,
        "request_too_large",
        "The upstream takes no request as large as this one.",
    ),
    FaultKind.RATE_LIMIT: _Row(
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        429,
        "rate_limit_error",
        "The upstream's rate limit is reached: try again later.",
    ),
    FaultKind.SERVER: _Row(
        500, "server_error", None, 500, "api_error", "The upstream failed and gave no reason."
    ),
    FaultKind.TIMEOUT: _Row(
        504,
        "server_error",
        "timeout",
        504,
        "timeout_error",
        "The upstream took too long: try again.",
    ),
    FaultKind.OVERLOADED: _Row(
        503,
        "service_unavailable_error",
        "server_is_overloaded",
        529,
        "overloaded_error",
        "The upstream is overloaded: try again later.",
    ),
    FaultKind.BAD_ANSWER: _Row(
        502,
        "server_error",
        "upstream_bad_response",
        502,
        "api_error",
        "The upstream gave an answer that is none of its protocol: try again.",
    ),
    FaultKind.INTERRUPTED: _Row(
        502,
        "server_error",
        "upstream_stream_interrupted",
        502,
        "api_error",
        "The upstream ended its stream before the answer was finished: try again.",
    ),
}

# Coding tools shorten their conversation when they see it.
_TOO_LONG = "prompt is too long: "


def openai_error(fault: Fault) -> tuple[int, bytes]:
    """Return the status and the body of an error for a client of Chat or Responses."""
    return _status(fault, _ROWS[fault.kind].openai_status), b'{"error":%b}' % openai_error_object(
        fault
    )


def openai_error_object(fault: Fault) -> bytes:
    """Return the JSON of an error object with ``message``, ``type``, ``param`` and ``code``."""
    return _encode(
        {
            "message": _message(fault),
            "type": _ROWS[fault.kind].openai_type,
            "param": _param(fault),
            "code": _code(fault),
        }
    )


def responses_error_object(fault: Fault) -> bytes:
    """Return the JSON of the ``error`` of a response: ``code``, which is never null, and message.

    The code is the one of a whole error, since clients act on it (``context_length_exceeded``).
    """
    code = _code(fault)
    if code is None:
        code = "invalid_prompt" if fault.kind is FaultKind.INVALID else "server_error"
    return _encode({"code": code, "message": _message(fault)})


def anthropic_error(fault: Fault, request_id: str) -> tuple[int, bytes]:
    """Return the status and the body of an error for a client of Messages."""
    body = b'{"type":"error","error":%b,"request_id":%b}' % (
        anthropic_error_object(fault),
        _encode(request_id),
    )
    return _status(fault, _ROWS[fault.kind].anthropic_status), body


def anthropic_error_object(fault: Fault) -> bytes:
    """Return the JSON of an error object with ``type`` and ``message``."""
    message = _message(fault)
    if fault.kind is FaultKind.CONTEXT_LENGTH and not message.startswith(_TOO_LONG):
        message = _TOO_LONG + message
    return _encode({"type": _ROWS[fault.kind].anthropic_type, "message": message})


def fault_lines(fault: Fault) -> bytes:
    """Return the header lines that go with an error: to try again buys no credit."""
    return b"x-should-retry: false\r\n" if fault.kind is FaultKind.QUOTA else b""


def _status(fault: Fault, usual: int) -> int:
    """Return the client's status: that of the kind, or the 502 of a gateway behind us."""
    return 502 if fault.kind is FaultKind.SERVER and fault.status == 502 else usual


def _message(fault: Fault) -> str:
    """Return what the client is told: of the gateway's credential nothing but that it failed."""
    if fault.kind is FaultKind.CREDENTIAL:
        return _ROWS[fault.kind].words
    return valid_text(fault.message) or _ROWS[fault.kind].words


def _code(fault: Fault) -> str | None:
    """Return the code in OpenAI's words; the provider's own where the request is at fault."""
    if fault.kind is FaultKind.INVALID and fault.code is not None:
        return valid_text(fault.code)
    return _ROWS[fault.kind].openai_code


def _param(fault: Fault) -> str | None:
    if fault.kind is FaultKind.CONTEXT_LENGTH:
        return valid_text(fault.param or "messages")
    if fault.kind is FaultKind.INVALID and fault.param is not None:
        return valid_text(fault.param)
    return None

"""The one table of refusals, and how each protocol spells them.

A refusal has a *code*, which is stable and means the same everywhere (``budget_exceeded``). The
table gives its HTTP status and its category in the OpenAI and in the Anthropic protocol. Whoever
refuses raises :class:`GatewayError` with a code; whoever writes to the client asks for the
envelope of the protocol that the client speaks. The admin API writes RFC 9457 problem documents
with the same codes, and a few codes of its own.
"""

from http import HTTPStatus
from typing import Any

import attrs
import msgspec

from omnigate.text import valid_text

# A client that is told to come back is told so within a minute: every condition that the gateway
# itself refuses for (a bucket, a place, a snapshot) turns faster than that.
MAX_OWN_RETRY_AFTER = 60

# A provider may ask for more. Beyond two minutes the SDKs would sleep inside the caller's request,
# so they are told not to retry at all.
MAX_CLIENT_RETRY_AFTER = 120

_encode = msgspec.json.Encoder().encode


@attrs.frozen
class ErrorKind:
    """One row of the table: a status, the code, and the category in each protocol."""

    status: int
    code: str
    openai_type: str
    anthropic_type: str


def _rows(status: int, openai_type: str, anthropic_type: str, *codes: str) -> dict[str, ErrorKind]:
    return {code: ErrorKind(status, code, openai_type, anthropic_type) for code in codes}


ERRORS: dict[str, ErrorKind] = {
    **_rows(
        400,
        "invalid_request_error",
        "invalid_request_error",
        "invalid_request",
        "invalid_json",
        "invalid_path",
        "request_too_complex",
        "untranslatable_request",
        # Anthropic's own name for it: on it their SDKs go on by sending the whole conversation.
        "thread_unsupported_request",
    ),
    **_rows(401, "authentication_error", "authentication_error", "invalid_api_key"),
    **_rows(402, "insufficient_quota", "billing_error", "budget_exceeded"),
    **_rows(
        403,
        "permission_error",
        "permission_error",
        "model_not_allowed",
        "address_not_allowed",
        "endpoint_not_allowed",
        "invalid_signature",
    ),
    **_rows(
        404,
        "not_found_error",
        "not_found_error",
        "not_found",
        "model_not_found",
        "endpoint_not_supported",
    ),
    **_rows(405, "invalid_request_error", "invalid_request_error", "method_not_allowed"),
    **_rows(411, "invalid_request_error", "invalid_request_error", "length_required"),
    **_rows(413, "invalid_request_error", "request_too_large", "request_too_large"),
    **_rows(417, "invalid_request_error", "invalid_request_error", "expectation_failed"),
    **_rows(
        429,
        "rate_limit_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "concurrency_limit_exceeded",
        "request_memory_exceeded",
        "upstream_rate_limited",
        "too_many_open_jobs",
        "too_many_jobs_today",
    ),
    **_rows(500, "server_error", "api_error", "internal_error"),
    **_rows(
        502,
        "server_error",
        "api_error",
        "all_upstreams_failed",
        "control_plane_unavailable",
        "upstream_authentication_failed",
    ),
    **_rows(
        503,
        "server_error",
        "overloaded_error",
        "overloaded",
        "gateway_not_ready",
        "not_ready",
        "storage_unavailable",
    ),
}
"""Every refusal a client can meet, by its code."""

CLIENT_GONE = "client_disconnected"
"""Counted like a refusal: the client left before any upstream was asked, so nobody is told.

In the log it also stands where the client left, or took nothing any more, in the middle."""

UPSTREAM_CUT = "upstream_cut"
"""In the log only: the provider broke the answer off in the middle, and the client saw it break."""

ADMIN_ERRORS: dict[str, ErrorKind] = {
    **_rows(401, "authentication_error", "authentication_error", "invalid_token"),
    **_rows(403, "permission_error", "permission_error", "insufficient_scope", "forged_form"),
    **_rows(409, "invalid_request_error", "invalid_request_error", "already_exists", "conflict"),
    **_rows(429, "rate_limit_error", "rate_limit_error", "too_many_attempts"),
}
"""Refusals that only operators and data planes can meet, at the control plane."""


class GatewayError(Exception):
    """A request is refused, for a reason that is told to the caller.

    :ivar kind: the row of the table.
    :ivar message: what was wrong and what to do; for the client, so it never holds a secret, a
        file path or text of another client.
    :ivar param: the member of the request that is at fault, where there is one.
    :ivar retry_after: seconds after which to try again.
    :ivar headers: further response headers, as (name, value) pairs.
    :ivar detail: for the log only.
    """

    kind: ErrorKind
    message: str
    param: str | None
    retry_after: int | None
    headers: tuple[tuple[bytes, bytes], ...]
    detail: str

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        detail: str = "",
        status: int | None = None,
    ) -> None:
        """Make the refusal ``code`` of the table.

        :param status: an HTTP status other than the table's, for the few cases where HTTP itself
            demands one (426 for an upgrade, 505 for a version).
        :raises KeyError: the table has no such code.
        """
        super().__init__(code, message)
        kind = ERRORS.get(code) or ADMIN_ERRORS[code]
        self.kind = kind if status is None else attrs.evolve(kind, status=status)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.headers = headers
        self.detail = detail

    def __str__(self) -> str:
        text = f"{self.kind.status} {self.kind.code}: {self.message}"
        return f"{text} ({self.detail})" if self.detail else text

    def response_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers of the refusal, those that tell when to retry among them."""
        if self.retry_after is None:
            return self.headers
        return (*self.headers, *retry_headers(self.retry_after))


def retry_headers(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that tell a client when to come back.

    Over :data:`MAX_CLIENT_RETRY_AFTER` seconds the SDKs of both makers are told not to wait.
    """
    told = (b"retry-after", b"%d" % max(0, seconds))
    if seconds > MAX_CLIENT_RETRY_AFTER:
        return (told, (b"x-should-retry", b"false"))
    return (told,)


def openai_envelope(kind: ErrorKind, message: str, param: str | None = None) -> bytes:
    """Return the body of an error in OpenAI's shape."""
    return _encode_object(
        {"error": {"message": message, "type": kind.openai_type, "param": param, "code": kind.code}}
    )


def anthropic_envelope(kind: ErrorKind, message: str, request_id: str) -> bytes:
    """Return the body of an error in Anthropic's shape.

    The code stands twice, since the current SDK looks for it in ``details.error_code``.
    """
    return _encode_object(
        {
            "type": "error",
            "error": {
                "type": kind.anthropic_type,
                "message": message,
                "code": kind.code,
                "details": {"error_code": kind.code},
            },
            "request_id": request_id,
        }
    )


def envelope(protocol: str, error: GatewayError, request_id: str) -> bytes:
    """Return the body of ``error`` for a client that speaks ``protocol``.

    :param protocol: ``"openai"`` or ``"anthropic"``.
    """
    if protocol == "anthropic":
        return anthropic_envelope(error.kind, error.message, request_id)
    return openai_envelope(error.kind, error.message, error.param)


def problem(error: GatewayError) -> bytes:
    """Return ``error`` as a problem document (RFC 9457) with the member ``code``."""
    status = error.kind.status
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "code": error.kind.code,
    }
    if error.param is not None:
        document["param"] = error.param
    return _encode_object(document)


def _encode_object(value: dict[str, Any]) -> bytes:
    """Encode, also where a lone surrogate slipped into a text: an error must not fail."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_repaired(value))


def _repaired(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _repaired(member) for key, member in value.items()}
    return valid_text(value) if isinstance(value, str) else value

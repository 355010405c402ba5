"""Whole answers of an upstream: whether one is an answer at all, and errors in the client's shape.

Only answers that are held whole come here. They are short, so a tree may be built of one.
"""

import re
from typing import Any, Literal

import attrs
import msgspec

from omnigate.dialects.endpoints import ANTHROPIC
from omnigate.dialects.event_shapes import decode_answer, tells_error
from omnigate.dialects.usage import Usage, load_tree, odd_usage
from omnigate.text import ELLIPSIS, valid_text
from omnigate.wire.json_members import MAX_ANSWER_DEPTH
from omnigate.wire.json_walk import JsonWalk

AnswerVerdict = Literal["ok", "not_json", "error_envelope", "wrong_shape"]

# What the relay holds of an answer before it begins to send; a tree of as much holds the reactor
# for 6 ms at the worst.
MAX_HELD_BYTES = 64 * 1024

# An object behind white space, or behind the byte order mark that some servers put first.
_BEGINS_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\{").match

# Providers' messages have one to three sentences; some quote the request. A page of HTML is cut.
MAX_MESSAGE_CHARS = 4000
MAX_CODE_CHARS = 200

# The member without which an answer is none of its kind.
_OWN_MEMBERS = {
    "chat": "choices",
    "completions": "choices",
    "responses": "output",
    "embeddings": "data",
    "messages": "content",
    "count_tokens": "input_tokens",
}

_OPENAI_TYPES = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_KNOWN_ANTHROPIC_TYPES = frozenset(
    (*_ANTHROPIC_TYPES.values(), "invalid_request_error", "api_error")
)


@attrs.define
class ErrorWords:
    """What an error says of itself: valid text, cut; ``None`` is what it does not say.

    :ivar code: also a number, as text; Anthropic's is that of ``details.error_code``.
    """

    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None


def begins_object(body: bytes) -> bool:
    """Say whether what begins so can be an answer: those of all endpoints are objects."""
    return body.startswith(b"{") or _BEGINS_OBJECT(body) is not None


def read_answer(kind: str, body: bytes) -> tuple[AnswerVerdict, Usage | None]:
    """Say whether what came with a good status is an answer of its endpoint, and what it used.

    The content type is not asked: an HTML page is one under any type, and an answer is one under
    none. An object that is merely odd is an answer, and its client's business; one that nests too
    deep is none.

    :param kind: of the endpoint; see :class:`omnigate.dialects.endpoints.Endpoint`.
    :param body: the answer, whole.
    """
    if not begins_object(body) or nests_too_deep(body):
        return "not_json", None
    try:
        answer = decode_answer(body)
    except (msgspec.MsgspecError, RecursionError):
        pass
    else:
        if not tells_error(answer.error) and "error" not in (answer.type, answer.object):
            return "ok", answer.usage
    tree = load_tree(body, MAX_HELD_BYTES)
    if not isinstance(tree, dict):
        return "not_json", None
    told = tree.get("error") or "error" in (tree.get("type"), tree.get("object"))
    if told and _OWN_MEMBERS.get(kind, "error") not in tree:
        return "error_envelope", None
    return "ok", odd_usage(tree.get("usage"))


def nests_too_deep(body: bytes) -> bool:
    """Say whether JSON nests deeper than :data:`MAX_ANSWER_DEPTH`: no client should have to."""
    # By what is left without brackets: ``count`` looks at each byte, this stops at brackets only.
    most = MAX_ANSWER_DEPTH + 1
    objects = len(body) - len(body.replace(b"{", b"", most))
    lists = len(body) - len(body.replace(b"[", b"", most))
    if objects + lists <= MAX_ANSWER_DEPTH:
        return False
    walk = JsonWalk((), MAX_ANSWER_DEPTH, 0, len(body), 0)
    walk.feed(body)
    return walk.fault == "depth"


def wrap_error(protocol: str, status: int, body: bytes, request_id: str) -> bytes:
    """Put an upstream's error into the envelope of its protocol.

    :param protocol: ``"openai"`` or ``"anthropic"``: what the client speaks.
    :param status: of the answer, 400 or above; it gives the category where the provider gave none.
    :param body: the answer, whole.
    :param request_id: ours, for an Anthropic envelope that has to be made.
    :returns: ``body`` itself where it is such an envelope already, in JSON that every client reads;
        else one with the message and the code that could be found in it, and failing that with its
        text.
    """
    tree = load_tree(body, MAX_HELD_BYTES, strict=True)
    if _is_envelope(protocol, tree):
        return body
    if tree is None:
        tree = load_tree(body, MAX_HELD_BYTES)
    words = error_words(tree)
    message = words.message or _body_text(status, body)
    if protocol == ANTHROPIC:
        # An OpenAI word among Anthropic's types would be no type to their SDK, so it gives way.
        known = words.type in _KNOWN_ANTHROPIC_TYPES
        fault: dict[str, Any] = {
            "type": words.type if known else _category(protocol, status),
            "message": message,
        }
        if words.code is not None:
            fault |= {"code": words.code, "details": {"error_code": words.code}}
        return msgspec.json.encode({"type": "error", "error": fault, "request_id": request_id})
    return msgspec.json.encode(
        {
            "error": {
                "message": message,
                "type": words.type or _category(protocol, status),
                "param": words.param,
                "code": words.code,
            }
        }
    )


def error_words(tree: object) -> ErrorWords:
    """Find what an error says of itself, in the shape of whatever server.

    :param tree: what :func:`omnigate.dialects.usage.load_tree` makes of it.
    """
    error = _error_object(tree)
    message = _text(error.get("message"))
    if message is None and isinstance(tree, dict):
        message = _text(tree.get("detail"))
    return ErrorWords(
        message=message,
        type=_text(error.get("type")),
        code=_code(error),
        param=_text(error.get("param")),
    )


def _is_envelope(protocol: str, tree: object) -> bool:
    error = tree.get("error") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(error, dict):
        return False
    if not isinstance(error.get("message"), str):
        return False
    if protocol == ANTHROPIC:
        return tree.get("type") == "error" and isinstance(error.get("type"), str)
    return all(isinstance(error.get(name), str | None) for name in ("type", "param", "code"))


def _error_object(tree: object) -> dict[str, Any]:
    """Find the object that tells of the error; an empty one where there is none.

    Google answers an array of one envelope; some servers have the members of an error at the top.
    """
    if isinstance(tree, list) and tree:
        tree = tree[0]
    if not isinstance(tree, dict):
        return {}
    error = tree.get("error")
    if isinstance(error, dict):
        return error
    # Beside a message of words, ``error`` is FastAPI's or Spring's name of the status.
    return {name: tree.get(name) for name in ("message", "code", "param")} | (
        {"message": error} if isinstance(error, str) and not _text(tree.get("message")) else {}
    )


def _body_text(status: int, body: bytes) -> str:
    """Return the text of an error in which no message was found."""
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return f"The upstream answered with status {status} and said nothing."
    return _cut(text, MAX_MESSAGE_CHARS)


def _code(error: dict[str, Any]) -> str | None:
    code = error.get("code")
    if isinstance(code, int) and not isinstance(code, bool):
        code = str(code)
    if code is None and isinstance(error.get("details"), dict):
        code = error["details"].get("error_code")
    return _cut(code, MAX_CODE_CHARS) if isinstance(code, str) and code else None


def _category(protocol: str, status: int) -> str:
    if protocol == ANTHROPIC:
        return _ANTHROPIC_TYPES.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
    return _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def _text(value: object) -> str | None:
    return _cut(value, MAX_MESSAGE_CHARS) if isinstance(value, str) and value else None


def _cut(text: str, limit: int) -> str:
    return valid_text(text if len(text) <= limit else text[: limit - 1] + ELLIPSIS)

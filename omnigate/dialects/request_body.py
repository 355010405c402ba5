"""A client's request decoded to be translated, and what is told of one that cannot be."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from omnigate.errors import GatewayError
from omnigate.text import reason_of

T = TypeVar("T")

# Where msgspec says the fault is: "Expected `int`, got `str` - at `$.messages[0].content`".
_PLACE = " - at `$"
_TYPES = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")

_JSON_NAMES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
"""What msgspec calls a type by, and what it is in JSON."""

MAX_PIECES = 6000
"""The most messages, parts of messages, calls and tools of a translated request, all together.

To read and write one takes up to 4 µs, and no other work is done meanwhile. A call and its result
are four of them. A million tokens, as much as a model takes, are this many messages of 160."""

_WHITE_SPACE = b" \t\r\n"

ABSENT = msgspec.Raw(b"")
"""The value of a raw member that is not there."""


def decode_request(
    decode: Callable[[bytes | msgspec.Raw], T], body: bytes | msgspec.Raw, within: str = ""
) -> T:
    """Decode a body, or a value that was kept raw in one.

    :param decode: of a ``msgspec.json.Decoder`` of the request's shape.
    :param within: where the value stands in the body: ``input[3].content``.
    :raises GatewayError: ``invalid_request`` where a member has another type than its protocol
        gives it, ``invalid_json`` where the body is no JSON, or has half a surrogate pair.
    """
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        what, _, place = reason_of(error).partition(_PLACE)
        path = (within + place.rstrip("`")).lstrip(".")
        message = f"{path or 'the body'} has the wrong type: {_in_words(what)}"
        raise GatewayError("invalid_request", message, param=path or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = (
            f"the body cannot be read as JSON ({reason_of(error)}): send valid UTF-8, whole"
            " surrogate pairs and a moderate depth"
        )
        raise GatewayError("invalid_json", message) from None


def _in_words(what: str) -> str:
    """Say what msgspec says of a wrong type in the words of JSON."""
    found = _TYPES.fullmatch(what)
    if not found:
        return what[:1].lower() + what[1:]
    wanted, got = (
        " or ".join(_JSON_NAMES.get(name, name) for name in names.split(" | "))
        for names in (found[1].removesuffix(" | null"), found[2])
    )
    return f"expected {wanted}, got {got}"


def check_pieces(count: int) -> None:
    """Refuse a request of more than :data:`MAX_PIECES` messages, parts, calls and tools."""
    if count > MAX_PIECES:
        message = (
            f"The request has {count} messages, parts, calls and tools, and more than {MAX_PIECES}"
            " are not translated: shorten the conversation."
        )
        raise GatewayError("request_too_complex", message)


def is_given(raw: msgspec.Raw, nothing: bytes = b"") -> bool:
    """Return whether a member is there, and says something else than ``nothing``."""
    text = bytes(raw)
    return text not in (b"", b"null") and text.translate(None, _WHITE_SPACE) != nothing


def member_text(raw: msgspec.Raw, path: str) -> bytes:
    """Return a JSON object as the client wrote it; empty where it is absent or ``null``.

    :raises GatewayError: it is something else than an object.
    """
    text = bytes(raw)
    if text in (b"", b"null"):
        return b""
    if text[:1] != b"{":
        raise GatewayError("invalid_request", f"{path} has to be an object", param=path)
    return text


def missing(path: str) -> GatewayError:
    """Return the refusal of a request that lacks a member it must have."""
    return GatewayError("invalid_request", f"{path} is missing: set it", param=path)


def malformed(path: str, message: str) -> GatewayError:
    """Return the refusal of a request that no protocol would take.

    :param message: begins with the name of the member, and says what to do.
    """
    return GatewayError("invalid_request", message, param=path)


def untranslatable(path: str, message: str) -> GatewayError:
    """Return the refusal of a request that the other protocol has no words for.

    :param message: begins with the name of the member, and says what to do.
    """
    return GatewayError("untranslatable_request", message, param=path)

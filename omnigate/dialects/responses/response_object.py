"""The response object of Responses and the items of its output, as JSON text.

A whole answer and a stream's events are made of the same pieces, so that they agree. Texts are
encoded where they stand; the items are put together of bytes, without a tree.
"""

from collections.abc import Mapping, Sequence

import msgspec

from omnigate.dialects.shapes import AnswerUsage, Frame
from omnigate.text import valid_text

IN_PROGRESS = "in_progress"
COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"

MAX_OUTPUT_TOKENS = "max_output_tokens"
"""Why a response is incomplete: its bound, or the model's context, is reached."""
CONTENT_FILTER = "content_filter"
"""Why a response is incomplete: the provider declined."""

ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
    "reasoning",
    "user",
)
"""The members of a request that its response repeats."""

Text = str | bytes
"""A text, or the JSON string that it is: a long one that is told several times is encoded once."""

_encode = msgspec.json.Encoder().encode


def item_id(kind: str, frame: Frame, index: int) -> str:
    """Return the id of an output item.

    :param kind: what such ids begin with: ``msg``, ``rs``, ``fc``.
    :param index: of the item in the output.
    """
    return f"{kind}_{frame.id}{index:04x}"


def tool_name(frame: Frame, name: str) -> tuple[str, str | None]:
    """Return a function as the client named it, and its namespace where it is in one.

    :param name: as the upstream knows it.
    """
    name = frame.tool_names.get(name, name)
    namespaced = frame.namespaces.get(name)
    if namespaced is None:
        return name, None
    return namespaced[1], namespaced[0]


def text_json(text: Text) -> bytes:
    """Return a text as a JSON string; lone surrogates, which UTF-8 cannot hold, are replaced."""
    if isinstance(text, bytes):
        return text
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return _encode(valid_text(text))


def text_part(text: Text) -> bytes:
    """Return a part of a message that is text."""
    return b'{"type":"output_text","text":%b,"annotations":[]}' % text_json(text)


def refusal_part(text: Text) -> bytes:
    """Return a part of a message in which the model declines."""
    return b'{"type":"refusal","refusal":%b}' % text_json(text)


def message_item(item: str, status: str, parts: Sequence[bytes]) -> bytes:
    """Return a message of the assistant.

    :param item: its id.
    :param parts: of :func:`text_part` or :func:`refusal_part`.
    """
    return b'{"id":"%b","type":"message","role":"assistant","status":"%b","content":[%b]}' % (
        item.encode(),
        status.encode(),
        b",".join(parts),
    )


def summary_part(text: Text) -> bytes:
    """Return one text of a reasoning item's summary."""
    return b'{"type":"summary_text","text":%b}' % text_json(text)


def reasoning_item(item: str, status: str, text: Text, encrypted_content: str) -> bytes:
    """Return a reasoning item.

    :param item: its id.
    :param text: what was thought, as its one summary; none where it is empty.
    :param encrypted_content: what the client brings back; ``null`` where it is empty.
    """
    return b'{"id":"%b","type":"reasoning","summary":[%b],"encrypted_content":%b,"status":"%b"}' % (
        item.encode(),
        summary_part(text) if text else b"",
        text_json(encrypted_content) if encrypted_content else b"null",
        status.encode(),
    )


def function_call_item(
    item: str, status: str, call_id: str, name: tuple[str, str | None], arguments: Text
) -> bytes:
    """Return the call of a function.

    :param item: its id.
    :param name: as :func:`tool_name` returns it.
    """
    namespace = b"" if name[1] is None else b',"namespace":%b' % text_json(name[1])
    return (
        b'{"id":"%b","type":"function_call","call_id":%b,"name":%b%b,"arguments":%b,"status":"%b"}'
        % (
            item.encode(),
            text_json(call_id),
            text_json(name[0]),
            namespace,
            text_json(arguments),
            status.encode(),
        )
    )


def response_error(code: str, message: str) -> bytes:
    """Return what a failed response tells of its error."""
    return b'{"code":%b,"message":%b}' % (text_json(code), text_json(message))


def usage_object(usage: AnswerUsage) -> bytes:
    """Return the usage; the SDKs' type requires all of its details."""
    return (
        b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
        b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
        % (
            usage.input,
            usage.cached,
            usage.written,
            usage.output,
            usage.thinking or 0,
            usage.input + usage.output,
        )
    )


def response_object(
    frame: Frame,
    status: str,
    output: Sequence[bytes],
    usage: AnswerUsage | None = None,
    error: bytes | None = None,
    incomplete: str | None = None,
) -> bytes:
    """Return a response object.

    :param output: its items.
    :param error: of :func:`response_error`.
    :param incomplete: the reason of a response that is incomplete.
    """
    return (
        b'{"id":"resp_%b","object":"response","created_at":%d,"status":"%b","error":%b,'
        b'"incomplete_details":%b,%b,"model":%b,"output":[%b],"usage":%b%b}'
        % (
            frame.id.encode(),
            frame.created,
            status.encode(),
            error or b"null",
            b"null" if incomplete is None else b'{"reason":"%b"}' % incomplete.encode(),
            _repeated(frame.echo),
            text_json(frame.model),
            b",".join(output),
            b"null" if usage is None else usage_object(usage),
            b"".join([b',"%b":%b' % (n.encode(), frame.echo[n]) for n in _RARE if n in frame.echo]),
        )
    )


#: What stands in every response, where the request says nothing of it.
_DEFAULTS = {
    "instructions": b"null",
    "max_output_tokens": b"null",
    "metadata": b"{}",
    "parallel_tool_calls": b"true",
    "temperature": b"null",
    "text": b'{"format":{"type":"text"}}',
    "tool_choice": b'"auto"',
    "tools": b"[]",
    "top_p": b"null",
    "truncation": b'"disabled"',
}
_RARE = tuple(name for name in ECHOED if name not in _DEFAULTS)
_FIXED = b'"previous_response_id":null,"store":false'


def _repeated(echo: Mapping[str, bytes]) -> bytes:
    members = [b'"%b":%b' % (n.encode(), echo.get(n, plain)) for n, plain in _DEFAULTS.items()]
    return b",".join((*members, _FIXED))

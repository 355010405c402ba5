"""A whole answer of Responses, read from an upstream.

What the provider's own tools did has no counterpart and is left out.
"""

from collections.abc import Sequence

import msgspec

from omnigate.dialects.answer_usage import answer_usage, take_usage
from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.event_shapes import ABSENT, tells_error
from omnigate.dialects.faults import (
    FailedAnswer,
    Fault,
    FaultKind,
    NotAnAnswer,
    openai_fault,
)
from omnigate.dialects.lenient import (
    bounded,
    decode_leniently,
    decode_member,
    long_text_of,
    not_an_answer,
    text_of,
)
from omnigate.dialects.meter import Meter
from omnigate.dialects.packing import pack_reasoning
from omnigate.dialects.responses.stream_events import Item, Part
from omnigate.dialects.shapes import Answer, RedactedThinking, Stop, Text, Thinking, ToolCall
from omnigate.dialects.tool_ids import made_up_id


class _Details(msgspec.Struct, gc=False):
    reason: msgspec.Raw = ABSENT


class _Response(msgspec.Struct, gc=False):
    status: msgspec.Raw = ABSENT
    output: list[Item | None] | None = None
    incomplete_details: _Details | None = None
    usage: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


_Parts = Sequence[Text | Thinking | RedactedThinking | ToolCall]

_decode = msgspec.json.Decoder(_Response).decode
_decode_parts = msgspec.json.Decoder(list[Part] | str | None).decode

# How a response may have broken; in any other state but these and the good two it is not over.
_BROKEN = ("failed", "cancelled")


def read_answer(body: bytes, meter: Meter) -> Answer:
    """Read an answer, and meter it.

    :raises NotAnAnswer: it is none, or never says that it is finished.
    :raises FailedAnswer: the response failed, and says so.
    """
    meter.body_bytes += len(body)
    response = decode_leniently(_decode, body)
    if response is None:
        raise not_an_answer("responses", body)
    take_usage(meter, response.usage)
    status = text_of(response.status)
    failed = tells_error(response.error)
    if not status:
        raise NotAnAnswer("error_envelope" if failed else "wrong_shape")
    if failed or status in _BROKEN:
        raise FailedAnswer(_fault(response, status))
    if status not in ("completed", "incomplete") or response.output is None:
        raise NotAnAnswer("wrong_shape")
    parts = [part for item in bounded(response.output) if item for part in _parts(item)]
    tier = text_of(response.service_tier) or None
    return Answer(parts, _stop(response, status, parts), answer_usage(meter), service_tier=tier)


def _fault(response: _Response, status: str) -> Fault:
    if tells_error(response.error):
        fault = openai_fault(None, b'{"error":%b}' % bytes(response.error))
        if fault.kind is not FaultKind.BAD_ANSWER:
            return fault
    return Fault(FaultKind.SERVER, f"The upstream says that its response is {status}.")


def _stop(response: _Response, status: str, parts: _Parts) -> Stop:
    if status == "incomplete":
        details = response.incomplete_details
        filtered = details is not None and text_of(details.reason) == "content_filter"
        return Stop.REFUSAL if filtered else Stop.LENGTH
    if any(isinstance(part, Text) and part.refusal for part in parts):
        return Stop.REFUSAL
    return Stop.TOOLS if any(isinstance(part, ToolCall) for part in parts) else Stop.END


def _parts(item: Item) -> _Parts:
    """Return what an item says; nothing where it is empty, or of no type with a counterpart."""
    kind = text_of(item.type)
    if kind == "message":
        return _words(item)
    if kind == "reasoning":
        return _thoughts(item)
    return (_call(item),) if kind == "function_call" else ()


def _words(item: Item) -> _Parts:
    """Return what was said as one text, and what was declined as another."""
    parts = _pieces(item.content)
    said = "".join([long_text_of(part.text) for part in parts])
    declined = "".join([text_of(part.refusal) for part in parts])
    found = []
    if said:
        found.append(Text(said))
    if declined:
        found.append(Text(declined, refusal=True))
    return found


def _thoughts(item: Item) -> _Parts:
    """Return what was thought: the summary, or the thought itself where a server shows that."""
    texts = [long_text_of(part.text) for part in _pieces(item.summary) or _pieces(item.content)]
    sealed = text_of(item.encrypted_content)
    text = "\n\n".join([text for text in texts if text])
    if not text and not sealed:
        return ()
    return (Thinking(text, pack_reasoning(text_of(item.id), sealed) if sealed else ""),)


def _call(item: Item) -> ToolCall:
    """Return a call.

    :raises NotAnAnswer: it does not say what it calls.
    """
    name = text_of(item.name)
    if not name:
        raise NotAnAnswer("wrong_shape")
    call_id = text_of(item.call_id) or text_of(item.id) or made_up_id()
    return ToolCall(call_id, name, arguments_of(item.arguments))


def _pieces(raw: msgspec.Raw) -> list[Part]:
    """Return the parts of a content, which some servers write as a plain string."""
    if raw is ABSENT:
        return []
    parts = decode_member(_decode_parts, raw)
    if isinstance(parts, str):
        return [Part(text=raw)]
    return bounded(parts or [])

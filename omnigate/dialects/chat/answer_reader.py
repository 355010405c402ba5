"""A whole answer of Chat Completions, read from an upstream.

Of the choices the first is read. Compatible servers leave members out, write ``null``, give the
content as parts, the reasoning under another name and arguments as an object: all of it is read.
"""

from collections.abc import Sequence

import msgspec

from omnigate.dialects.answer_usage import answer_usage, take_usage
from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.event_shapes import ABSENT, tells_error
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.lenient import (
    MISFITS,
    bounded,
    decode_leniently,
    long_text_of,
    not_an_answer,
    text_of,
)
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import Answer, RedactedThinking, Text, Thinking, ToolCall
from omnigate.dialects.stops import chat_stop
from omnigate.dialects.tool_ids import made_up_id


class _Function(msgspec.Struct, gc=False):
    """The function of a call; of a custom tool ``input`` stands for the arguments."""

    name: str | None = None
    arguments: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT


class _Call(msgspec.Struct, gc=False):
    id: msgspec.Raw = ABSENT
    function: _Function | None = None
    custom: _Function | None = None


class _Part(msgspec.Struct, gc=False):
    """A part of the content; ``thinking`` is Mistral's."""

    text: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    content: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    tool_calls: list[_Call | None] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message | None = None
    finish_reason: msgspec.Raw = ABSENT


class _Completion(msgspec.Struct, gc=False):
    choices: list[_Choice | None] | None = None
    usage: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    object: msgspec.Raw = ABSENT


_decode = msgspec.json.Decoder(_Completion).decode
_decode_parts = msgspec.json.Decoder(list[_Part]).decode


def read_answer(body: bytes, meter: Meter) -> Answer:
    """Read an answer, and meter it.

    :raises NotAnAnswer: it is none, or never says that it is finished.
    """
    meter.body_bytes += len(body)
    completion = decode_leniently(_decode, body)
    if completion is None:
        raise not_an_answer("chat", body)
    take_usage(meter, completion.usage)
    choice = completion.choices[0] if completion.choices else None
    if choice is None or choice.message is None:
        failed = tells_error(completion.error) or text_of(completion.object) == "error"
        raise NotAnAnswer("error_envelope" if failed else "wrong_shape")
    message = choice.message
    calls = _calls(message)
    parts = [*_words(message), *calls]
    refused = any(isinstance(part, Text) and part.refusal for part in parts)
    reason = text_of(choice.finish_reason)
    if not reason:
        raise NotAnAnswer("error_envelope" if tells_error(completion.error) else "wrong_shape")
    stop = chat_stop(reason, bool(calls), refused)
    if stop is None:
        raise NotAnAnswer("error_envelope")
    tier = text_of(completion.service_tier) or None
    return Answer(parts, stop, answer_usage(meter), service_tier=tier)


def _words(message: _Message) -> Sequence[Text | Thinking | RedactedThinking]:
    """Return what was thought, said and declined, in this order."""
    parts = _parts(message.content)
    thought = long_text_of(message.reasoning_content) or text_of(message.reasoning)
    if not thought:
        thought = "".join([_joined(part.thinking) for part in parts])
    said = long_text_of(message.content) or "".join([long_text_of(part.text) for part in parts])
    declined = text_of(message.refusal) or "".join([text_of(part.refusal) for part in parts])
    found: list[Text | Thinking | RedactedThinking] = []
    if thought:
        found.append(Thinking(thought))
    if said:
        found.append(Text(said))
    if declined:
        found.append(Text(declined, refusal=True))
    return found


def _parts(content: msgspec.Raw) -> list[_Part]:
    """Return the parts of a content that is a list; none where it is none of objects.

    :raises NotAnAnswer: there are too many.
    """
    if not bytes(content).startswith(b"["):
        return []
    try:
        parts = _decode_parts(content)
    except MISFITS:
        return []
    return bounded(parts)


def _joined(raw: msgspec.Raw) -> str:
    """Return a text that may also be a list of parts."""
    return text_of(raw) or "".join([long_text_of(part.text) for part in _parts(raw)])


def _calls(message: _Message) -> list[ToolCall]:
    """Return the calls, the old ``function_call`` among them.

    :raises NotAnAnswer: one does not say what it calls, or there are too many.
    """
    calls = []
    for call in bounded(message.tool_calls or []):
        if call is None:
            continue
        function = call.function or call.custom
        if function is not None:
            calls.append(_call(_id_of(call.id), function))
    if not calls and message.function_call is not None:
        calls.append(_call("", message.function_call))
    return calls


def _call(call_id: str, function: _Function) -> ToolCall:
    if not function.name:
        raise NotAnAnswer("wrong_shape")
    arguments = function.arguments if function.input is ABSENT else function.input
    return ToolCall(call_id or made_up_id(), function.name, arguments_of(arguments))


def _id_of(raw: msgspec.Raw) -> str:
    """Return an id, which some servers write as a number."""
    data = bytes(raw)
    return data.decode("ascii") if data.isdigit() else text_of(raw)

"""The other protocol of the benchmark: Anthropic's, behind a client that speaks OpenAI's.

What such a provider is asked and answers, prepared as in :mod:`bench.traffic`; and what the client
must be told then. A translated request and answer are judged by what they say, not to the byte:
their ids and times are the gateway's own.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from bench import traffic
from bench.answers import WrongAnswerError
from bench.traffic import BURST_EVENTS, OddRequestError

MESSAGES_PATH: Final = "/v1/messages"

#: What the provider states for an answer of either kind.
TOKENS: Final = traffic.Tokens(180, 160)

_WORD = " word-%05d"


def _message(content: list[dict[str, Any]], stop: str | None, output: int) -> dict[str, Any]:
    return {
        "id": "msg_bench0000000000000000000",
        "type": "message",
        "role": "assistant",
        "model": traffic.UPSTREAM_MODELS["xwhole"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": TOKENS.prompt,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output,
            "service_tier": "standard",
        },
    }


def whole_text() -> str:
    """Return the text of a plain answer: with it the body is about 1 KiB long."""
    return traffic.words(700)


def whole_answer() -> bytes:
    """Return the complete plain answer."""
    content = [{"type": "text", "text": whole_text()}]
    body = _json(_message(content, "end_turn", TOKENS.completion))
    return traffic.answer_head("application/json", f"content-length: {len(body)}") + body


def stream_events() -> list[bytes]:
    """Return the events of a stream of :data:`~bench.traffic.BURST_EVENTS` words and its end."""
    words = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": _WORD % index},
        }
        for index in range(BURST_EVENTS)
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _message([], None, 1)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *words,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": TOKENS.completion},
        },
        {"type": "message_stop"},
    ]
    return [b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json(event)) for event in events]


def stream_answer() -> bytes:
    """Return the complete stream that comes in one write, each event a chunk."""
    chunks = b"".join([traffic.chunk(event) for event in stream_events()])
    return traffic.stream_head() + chunks + traffic.LAST_CHUNK


# -- the request


class _Turn(msgspec.Struct):
    role: str
    content: Any


class _Asked(msgspec.Struct):
    """What of a request reaches the provider."""

    model: str
    messages: list[_Turn]
    max_tokens: int
    system: Any = None
    temperature: float | None = None
    stream: bool = False


_read_asked = msgspec.json.Decoder(_Asked).decode


def judge_request(body: bytes, sizes: dict[tuple[str, int], list[tuple[str, str]]]) -> str:
    """Return which answer is asked for.

    :param sizes: by kind and length of its text, the turns that clients send.
    :raises OddRequestError: the request does not say what a client of the benchmark wrote.
    """
    try:
        asked = _read_asked(body)
    except msgspec.MsgspecError as error:
        raise OddRequestError(f"the body is no request for a message: {error}") from None
    kind = "xburst" if asked.stream else "xwhole"
    if asked.model != traffic.UPSTREAM_MODELS[kind]:
        raise OddRequestError("the body names no model of the benchmark")
    turns = [("system", _text_of(asked.system))] if asked.system is not None else []
    turns += [(turn.role, _text_of(turn.content)) for turn in asked.messages]
    expected = sizes.get((kind, sum(len(text) for _, text in turns)))
    if turns != expected or (asked.temperature, asked.max_tokens) != traffic.PARAMETERS:
        raise OddRequestError("the body does not say what the client's says")
    return kind


def turns_of(kind: str, size: int) -> list[tuple[str, str]]:
    """Return what the client's request of a size says: who speaks, and the text."""
    told = json.loads(traffic.request_body(kind, size))
    return [(turn["role"], turn["content"]) for turn in told["messages"]]


def _text_of(content: Any) -> str:
    """Return the text of a turn, which is one text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


# -- what the client is told


class _Said(msgspec.Struct):
    content: str | None = None
    role: str | None = None


class _Choice(msgspec.Struct):
    index: int
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None


class _Counted(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Told(msgspec.Struct):
    """An answer or an event as the client's protocol has it."""

    id: str
    object: str
    model: str
    choices: list[_Choice]
    usage: _Counted | None = None


_read_told = msgspec.json.Decoder(_Told).decode


class ToldPayload:
    """The payload of a translated answer: collected, and judged at its end by what it says.

    :param stream: whether events are expected.
    """

    def __init__(self, stream: bool) -> None:
        self._stream = stream
        self._pieces: list[bytes] = []

    def take(self, data: bytes, now_ns: int) -> None:
        """Keep it."""
        self._pieces.append(data)

    def finish(self) -> None:
        """Compare it.

        :raises WrongAnswerError: it does not say what the provider said
        """
        got = b"".join(self._pieces)
        self._pieces = []
        try:
            problem = _wrong_stream(got) if self._stream else _wrong_whole(got)
        except msgspec.MsgspecError as error:
            problem = f"it is no chat completion: {error}"
        if problem:
            raise WrongAnswerError(f"the translated answer is wrong: {problem}: {got[:300]!r}")


def _wrong_whole(got: bytes) -> str:
    told = _read_told(got)
    if len(told.choices) != 1 or told.choices[0].message is None:
        return "it has no one message"
    if told.choices[0].message.content != _WHOLE_TEXT:
        return "the text is another"
    if told.choices[0].finish_reason != "stop" or told.usage != _COUNTED:
        return "its end or its usage is another"
    return ""


def _wrong_stream(got: bytes) -> str:
    events = got.split(b"\n\n")
    if events[-2:] != [b"data: [DONE]", b""]:
        return "the stream has no end"
    said: list[str] = []
    ends: list[str] = []
    for event in events[:-2]:
        if not event.startswith(b"data: "):
            return f"an event is none: {event[:100]!r}"
        for choice in _read_told(event[6:]).choices:
            if choice.delta is not None and choice.delta.content:
                said.append(choice.delta.content)
            if choice.finish_reason is not None:
                ends.append(choice.finish_reason)
    if said != _WORDS:
        return f"{len(said)} words came, or others than the {len(_WORDS)} that were sent"
    return "" if ends == ["stop"] else "it does not end once"


def _json(told: dict[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode("ascii")


_WHOLE_TEXT: Final = whole_text()
_WORDS: Final = [_WORD % index for index in range(BURST_EVENTS)]
_COUNTED: Final = _Counted(TOKENS.prompt, TOKENS.completion)

"""Which protocol an upstream is asked in, and the translator between the two of an exchange.

A translator belongs to one attempt and has four duties: the request's body (before it is made,
:func:`request_steps`), a whole answer, the events of a stream, and an error. It owns the meter,
so that what is billed and what is said come of one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Protocol

import attrs
import msgspec

from omnigate.capabilities import Capabilities
from omnigate.dialects.chat.answer_reader import read_answer as read_chat_answer
from omnigate.dialects.chat.answer_writer import write_answer as write_chat_answer
from omnigate.dialects.chat.request_reader import read_request as read_chat_request
from omnigate.dialects.chat.request_writer import write_request as write_chat_request
from omnigate.dialects.chat.stream_reader import StreamReader as ChatStreamReader
from omnigate.dialects.chat.stream_writer import StreamWriter as ChatStreamWriter
from omnigate.dialects.endpoints import ANTHROPIC
from omnigate.dialects.fault_words import anthropic_error, fault_lines, openai_error
from omnigate.dialects.faults import Fault, anthropic_fault, openai_fault
from omnigate.dialects.messages.answer_reader import read_answer as read_messages_answer
from omnigate.dialects.messages.answer_writer import write_answer as write_messages_answer
from omnigate.dialects.messages.request_reader import read_request as read_messages_request
from omnigate.dialects.messages.request_writer import write_request as write_messages_request
from omnigate.dialects.messages.stream_reader import StreamReader as MessagesStreamReader
from omnigate.dialects.messages.stream_writer import StreamWriter as MessagesStreamWriter
from omnigate.dialects.meter import Meter
from omnigate.dialects.replay import replay
from omnigate.dialects.responses.answer_reader import read_answer as read_responses_answer
from omnigate.dialects.responses.answer_writer import write_answer as write_responses_answer
from omnigate.dialects.responses.request_reader import read_request as read_responses_request
from omnigate.dialects.responses.request_writer import write_request as write_responses_request
from omnigate.dialects.responses.stream_reader import StreamReader as ResponsesStreamReader
from omnigate.dialects.responses.stream_writer import StreamWriter as ResponsesStreamWriter
from omnigate.dialects.shapes import Answer, DeltaSink, Frame, Quirk, Request, Written
from omnigate.dialects.struck_sink import StruckSink
from omnigate.text import MIN_SECRET_CHARS

CHAT, RESPONSES, MESSAGES = "chat", "responses", "messages"

#: What is asked for in one protocol and may be answered in another.
TRANSLATED_KINDS = frozenset((CHAT, RESPONSES, MESSAGES))

#: What upstreams of either protocol serve: the same, and token counts.
SERVED_BY_BOTH = TRANSLATED_KINDS | {"count_tokens"}

#: Where each is asked, behind the ``/v1`` of an upstream's base address.
UPSTREAM_PATHS = {CHAT: b"/chat/completions", RESPONSES: b"/responses", MESSAGES: b"/messages"}


class Reader(Protocol):
    """Reads an upstream's stream; see the ``stream_reader`` of each protocol.

    :ivar closed: the protocol's own end has come, so that its figures are the last; also where the
        answer could not be told.
    :ivar finished: the protocol has called the answer finished.
    :ivar failed: the answer broke; nothing more comes.
    :ivar finding: what we found wrong, where it broke without an error of the upstream's own.
    """

    closed: bool
    finished: bool
    failed: bool
    finding: str

    def event(self, data: bytes) -> None:
        """Take the data of one event."""

    def end(self) -> None:
        """Take the proper end of the body."""


class Writer(DeltaSink, Protocol):
    """Writes a client's stream.

    :ivar out: whole events, as bytes, that whoever drives it takes out.
    """

    out: list[bytes]


@attrs.frozen
class _ClientSide:
    read_request: Callable[[bytes], Request]
    write_answer: Callable[[Answer, Frame], bytes]
    writer: Callable[[Frame], Writer]


@attrs.frozen
class _UpstreamSide:
    write_request: Callable[[Request, str, Capabilities, Quirk], Written]
    read_answer: Callable[[bytes, Meter], Answer]
    reader: Callable[[DeltaSink, Meter], Reader]
    read_error: Callable[[int | None, bytes], Fault]


_CLIENTS: Mapping[str, _ClientSide] = {
    CHAT: _ClientSide(read_chat_request, write_chat_answer, ChatStreamWriter),
    RESPONSES: _ClientSide(read_responses_request, write_responses_answer, ResponsesStreamWriter),
    MESSAGES: _ClientSide(read_messages_request, write_messages_answer, MessagesStreamWriter),
}
_UPSTREAMS: Mapping[str, _UpstreamSide] = {
    CHAT: _UpstreamSide(write_chat_request, read_chat_answer, ChatStreamReader, openai_fault),
    RESPONSES: _UpstreamSide(
        write_responses_request, read_responses_answer, ResponsesStreamReader, openai_fault
    ),
    MESSAGES: _UpstreamSide(
        write_messages_request, read_messages_answer, MessagesStreamReader, anthropic_fault
    ),
}


# -- which protocol


def upstream_kind(client_kind: str, upstream_protocol: str, caps: Capabilities, body: bytes) -> str:
    """Return the kind of endpoint that an upstream is asked at.

    The same as the client's means that nothing is translated; so it is with whatever is not one of
    :data:`TRANSLATED_KINDS`, which only upstreams of its own protocol have.

    :param client_kind: of the endpoint that the client asked.
    :param upstream_protocol: ``"openai"`` or ``"anthropic"``.
    :param body: the request; looked into only for a model whose ``caps`` depend on its tools.
    """
    if client_kind not in TRANSLATED_KINDS:
        return client_kind
    if upstream_protocol == ANTHROPIC:
        return MESSAGES
    if caps.upstream_api:
        return caps.upstream_api
    if client_kind == RESPONSES or (caps.tools_over_responses and names_tools(body)):
        return RESPONSES
    return CHAT


class _WithTools(msgspec.Struct, gc=False):
    """The members of a request that hold tools, as raw text."""

    tools: msgspec.Raw = msgspec.Raw()
    functions: msgspec.Raw = msgspec.Raw()


_decode_tools = msgspec.json.Decoder(_WithTools).decode


def names_tools(body: bytes) -> bool:
    """Tell whether a scanned request has tools: no tree is made for it."""
    if b'"tools"' not in body and b'"functions"' not in body and b"\\u" not in body:
        return False
    top = _decode_tools(body)
    return _has_items(bytes(top.tools)) or _has_items(bytes(top.functions))


def _has_items(text: bytes) -> bool:
    """Tell whether the text of a JSON value is an array that is not empty."""
    return text.startswith(b"[") and bool(text[1:-1].strip(b" \t\r\n"))


# -- the request


@attrs.define
class Asked:
    """What the answer has to know of the request; the rest of it is gone.

    :ivar body: what goes to the upstream; emptied once that has answered.
    """

    body: bytes
    include_usage: bool
    wants_thinking: bool
    tool_names: Mapping[str, str]
    echo: Mapping[str, bytes]
    namespaces: Mapping[str, tuple[str, str]]

    def frame(self, request_id: str, created: int, model: str) -> Frame:
        """Return what the answer says of itself.

        :param created: seconds since 1970.
        :param model: the model that answers.
        """
        return Frame(
            id=request_id,
            created=created,
            model=model,
            include_usage=self.include_usage,
            wants_thinking=self.wants_thinking,
            tool_names=self.tool_names,
            echo=self.echo,
            namespaces=self.namespaces,
        )


def request_steps(
    client_kind: str,
    upstream_kind: str,
    body: bytes,
    model: str,
    caps: Capabilities,
    quirks: Quirk = Quirk.NONE,
) -> Generator[None, None, Asked]:
    """Translate a request whose tree there is room for: read it, and in a second step write it.

    :param model: the upstream's id of it.
    :raises GatewayError: what the client asks cannot be said to this target; it names the field.
    """
    request = _CLIENTS[client_kind].read_request(body)
    yield
    written = _UPSTREAMS[upstream_kind].write_request(request, model, caps, quirks)
    return Asked(
        body=written.body,
        include_usage=request.include_usage,
        wants_thinking=request.wants_thinking,
        tool_names=written.tool_names,
        echo=request.echo,
        namespaces=request.namespaces,
    )


# -- the answer


class Translator:
    """Translates the answer of one attempt; see the module's docstring.

    :ivar meter: counts what the upstream answers, in the upstream's terms.
    """

    __slots__ = ("_client", "_client_kind", "_frame", "_upstream", "meter")

    def __init__(self, client_kind: str, upstream_kind: str, frame: Frame, streamed: bool) -> None:
        """Make the translator of one answer.

        :param streamed: whether the answer is an event stream.
        """
        self._client_kind = client_kind
        self._client = _CLIENTS[client_kind]
        self._upstream = _UPSTREAMS[upstream_kind]
        self._frame = frame
        self.meter = Meter(upstream_kind, streamed)

    def read(self, body: bytes) -> Answer:
        """Read a whole answer, and meter it.

        :raises NotAnAnswer: it is none.
        """
        return self._upstream.read_answer(body, self.meter)

    def write(self, answer: Answer, as_stream: bool) -> bytes:
        """Write a whole answer for the client, as the stream that it asked for or as it is."""
        if not as_stream:
            return self._client.write_answer(answer, self._frame)
        writer = self._client.writer(self._frame)
        replay(answer, writer)
        return b"".join(writer.out)

    def stream(self, secret: bytes = b"") -> tuple[Reader, Writer]:
        """Make the reader of the upstream's stream, and the writer it drives.

        :param secret: the upstream's credential, which the writer is never told.
        """
        writer = self._client.writer(self._frame)
        sink: DeltaSink = writer
        if len(secret) >= MIN_SECRET_CHARS:
            sink = StruckSink(writer, secret.decode("latin-1"))
        return self._upstream.reader(sink, self.meter), writer

    def error(self, status: int, body: bytes) -> tuple[int, bytes, bytes]:
        """Translate an error.

        :param status: the upstream's, 400 or above.
        :returns: the client's status, the body, and header lines that go with it.
        """
        fault = self._upstream.read_error(status, body)
        if self._client_kind == MESSAGES:
            told = anthropic_error(fault, self._frame.id)
        else:
            told = openai_error(fault)
        return (*told, fault_lines(fault))

"""The neutral form between the protocols: what a request asks, what an answer says.

Three readers make it and three writers take it, so six translations are six pieces. A JSON value
that the gateway has no business with (a schema, the arguments of a call) travels as its own text.
"""

import enum
from collections.abc import Mapping
from typing import Protocol

import attrs

from omnigate.dialects.faults import Fault

# -- parts of messages


@attrs.frozen
class CacheMark:
    """A client's wish that the prompt up to here be cached.

    :ivar value: the JSON object, as the client wrote it.
    :ivar openai: whether it is a ``prompt_cache_breakpoint``; else it is a ``cache_control``.
    """

    value: bytes
    openai: bool


@attrs.define
class Text:
    """Text; ``refusal`` where the model said it to decline."""

    text: str
    cache: CacheMark | None = None
    refusal: bool = False


@attrs.define
class Image:
    """A picture: at an address, or its base64 with its media type.

    :ivar path: where it stands in the client's request, for a refusal.
    """

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str | None = None
    cache: CacheMark | None = None
    path: str = ""


@attrs.define
class Document:
    """A document: a PDF as base64, plain text, or either at an address.

    :ivar media_type: ``application/pdf`` or ``text/plain``.
    :ivar data: the base64 of a PDF; the text itself of a text; empty where ``url`` is given.
    """

    media_type: str
    data: str = ""
    url: str = ""
    title: str | None = None
    cache: CacheMark | None = None
    path: str = ""


@attrs.define
class Thinking:
    """What a model thought, with the provider's signature.

    :ivar signature: empty where there is none. One that begins with ``omnigate.`` is the gateway's
        own packing of another protocol's reasoning item (:mod:`omnigate.dialects.packing`).
    """

    text: str
    signature: str = ""


@attrs.define
class RedactedThinking:
    """Thinking that only its provider can read."""

    data: str


@attrs.define
class ToolCall:
    """A call of a tool by the model.

    :ivar arguments: the text of a JSON object; whatever else the model wrote stands there as it is.
    :ivar path: where it stands in the client's request, for a refusal.
    """

    id: str
    name: str
    arguments: str
    cache: CacheMark | None = None
    path: str = ""


@attrs.define
class ToolResult:
    """What a tool answered.

    :ivar parts: none where it answered nothing.
    :ivar plain: whether the content was one plain string.
    """

    call_id: str
    parts: list[Text | Image | Document]
    plain: bool = False
    is_error: bool = False
    cache: CacheMark | None = None
    path: str = ""


Part = Text | Image | Document | Thinking | RedactedThinking | ToolCall | ToolResult


class Role(enum.Enum):
    """Who speaks; ``TOOL`` turns hold tool results only."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@attrs.define
class Turn:
    """A message.

    :ivar plain: whether its content was one plain string, so that it stays one.
    :ivar path: where it stands in the client's request: ``messages[3]``, ``system``.
    :ivar developer: whether a client of Chat named the speaker of a ``SYSTEM`` turn ``developer``,
        a word that Responses knows, too, and other servers of Chat often do not.
    """

    role: Role
    parts: list[Part]
    plain: bool = False
    path: str = ""
    developer: bool = False


# -- a request


@attrs.define
class Tool:
    """A function the model may call.

    :ivar schema: the JSON schema of its arguments as text; empty where there is none.
    :ivar strict: as the client said; ``None`` where it did not.
    """

    name: str
    description: str | None = None
    schema: bytes = b""
    strict: bool | None = None
    cache: CacheMark | None = None
    path: str = ""


class Choice(enum.Enum):
    """Whether tools are called."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


@attrs.define
class ToolChoice:
    """Whether tools are called; ``name`` is the one of ``NAMED``."""

    mode: Choice
    name: str = ""


@attrs.define
class ThinkingWish:
    """What a client of Messages says of thinking, or one of Chat by its extension ``thinking``.

    :ivar type: ``enabled``, ``adaptive`` or ``disabled``.
    :ivar budget: tokens; 0 where none is named.
    :ivar raw: the JSON object as the client wrote it.
    """

    type: str
    budget: int = 0
    display: str | None = None
    raw: bytes = b""


@attrs.define
class Format:
    """The form an answer is held to.

    :ivar schema: JSON text; empty for any JSON object.
    :ivar strict: as the client said; a client of Messages cannot, so its reader says it by
        :func:`omnigate.dialects.parameters.is_strict_schema`.
    """

    schema: bytes = b""
    name: str = "response"
    description: str | None = None
    strict: bool | None = None


@attrs.define
class Request:
    """What a client asks of a model.

    :ivar turns: the whole conversation in order, system turns where they stood; the top-level
        ``system`` or ``instructions`` is the first of them.
    :ivar effort: one of :data:`omnigate.capabilities.EFFORTS`, or what else the client wrote.
    :ivar summaries: whether the client wishes to see what the model thinks (``reasoning.summary``
        of Responses, as text: ``auto``, ``concise``, ``detailed``).
    :ivar parallel: ``False`` where only one tool may be called at a time.
    :ivar service_tier: in Chat's words (:func:`omnigate.dialects.parameters.tier_of_messages`).
    :ivar include_usage: whether the stream is to end with its usage (Chat).
    :ivar wants_thinking: whether the answer's thinking is shown to this client.
    :ivar keeps_reasoning: whether the client brings the sealed reasoning of a Responses upstream
        back, so that it is asked for: one of Messages does, in signatures.
    :ivar echo: members that a Responses answer repeats, as JSON text by name.
    :ivar namespaces: of a function that a client of Responses keeps in a namespace: by the name it
        has here, that of the namespace and its own in there.
    """

    turns: list[Turn]
    stream: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = attrs.Factory(list)
    tools: list[Tool] = attrs.Factory(list)
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    effort: str | None = None
    thinking: ThinkingWish | None = None
    summaries: str | None = None
    format: Format | None = None
    user: str | None = None
    service_tier: str | None = None
    include_usage: bool = False
    wants_thinking: bool = True
    keeps_reasoning: bool = False
    echo: dict[str, bytes] = attrs.Factory(dict)
    namespaces: dict[str, tuple[str, str]] = attrs.Factory(dict)


class Quirk(enum.Flag):
    """What a model was seen to refuse, and is asked without."""

    NONE = 0
    NO_SAMPLING = enum.auto()
    THOUGHT_SIGNATURE = enum.auto()


@attrs.define
class Written:
    """A request for an upstream.

    :ivar tool_names: of names that had to be shortened: the short one, and what it stands for.
    """

    body: bytes
    tool_names: dict[str, str] = attrs.Factory(dict)


# -- an answer


class Stop(enum.Enum):
    """Why an answer ended."""

    END = "end"
    LENGTH = "length"
    TOOLS = "tools"
    REFUSAL = "refusal"


@attrs.define
class AnswerUsage:
    """The answer's own figures, for the client to see; the bill is made of the same.

    :ivar uncached: input tokens neither read from nor written to a cache.
    :ivar thinking: the share of the output that was thought; ``None`` where it is not told.
    """

    uncached: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    thinking: int | None = None

    @property
    def input(self) -> int:
        """All input."""
        return self.uncached + self.cached + self.written


@attrs.define
class Answer:
    """A whole answer.

    :ivar refusal: the provider's words where it declined (``stop`` is ``REFUSAL``); ``None`` where
        it gave none.
    :ivar service_tier: in Chat's words; ``None`` where it is not told.
    """

    parts: list[Text | Thinking | RedactedThinking | ToolCall]
    stop: Stop
    usage: AnswerUsage
    refusal: str | None = None
    service_tier: str | None = None


@attrs.define
class Frame:
    """What an answer says of itself, whoever made it.

    :ivar id: the request id, 32 hexadecimal digits, of which the answer's ids are made.
    :ivar created: seconds since 1970.
    :ivar model: the model that answers: the id that its upstream was asked for.
    :ivar tool_names: as in :class:`Written`.
    :ivar echo: as in :class:`Request`, and so ``namespaces``.
    """

    id: str
    created: int
    model: str
    include_usage: bool = False
    wants_thinking: bool = True
    tool_names: Mapping[str, str] = attrs.Factory(dict)
    echo: Mapping[str, bytes] = attrs.Factory(dict)
    namespaces: Mapping[str, tuple[str, str]] = attrs.Factory(dict)


class DeltaSink(Protocol):
    """Takes a streamed answer piece by piece, in order; blocks never overlap.

    A stream reader calls, a stream writer implements. ``start`` comes once and first,
    but for a ``fault``, which may come at any time and is the last; else ``finish`` is.
    """

    def start(self) -> None:
        """The upstream has begun to answer."""

    def thinking_start(self) -> None:
        """A block of thinking begins."""

    def thinking(self, text: str) -> None:
        """More of it; never empty."""

    def thinking_end(self, signature: str) -> None:
        """The block is whole; the signature may be empty."""

    def redacted(self, data: str) -> None:
        """A whole block of redacted thinking."""

    def text(self, text: str) -> None:
        """More text; never empty. A new block where the last call was of another kind."""

    def refusal(self, text: str) -> None:
        """More words of a refusal; never empty."""

    def tool_start(self, call_id: str, name: str) -> None:
        """A tool call begins."""

    def tool_arguments(self, fragment: str) -> None:
        """More of its arguments' text; never empty."""

    def tool_end(self) -> None:
        """The call is whole; at least one fragment came (``{}`` where there are no arguments)."""

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """The answer is finished, as its protocol says."""

    def fault(self, fault: Fault) -> None:
        """The answer broke: an error of the upstream's own, or its end without a finish."""

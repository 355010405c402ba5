"""What the fake model says: deterministic words, tool calls and the tokens they count as."""

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any, Literal

import attrs

from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import Scenario

Finish = Literal["stop", "length", "tool_calls"]
# One server-sent event: its name, empty for none, and its data.
Event = tuple[str, bytes]

_SENTENCES = (
    "The quick answer is that every word you read here was counted before it was sent.",
    "A gateway sees each piece pass, adds nothing, takes nothing away, and keeps the bill.",
    "Umlauts such as ä, ö and ü, a euro sign € and a rocket 🚀 have to arrive whole.",
    "When the last word is out, the tokens go into the ledger and the price is known.",
)
WORDS = tuple(word for sentence in _SENTENCES for word in sentence.split(" "))

# One token is about four bytes of English text in the vocabularies of today.
BYTES_PER_TOKEN = 4
EMBEDDING_DIMENSIONS = 8
# More than the largest embedding model on the market gives.
MAX_EMBEDDING_DIMENSIONS = 8192


@attrs.frozen
class Usage:
    """The tokens of one answer, each counted once (input is what was not cached)."""

    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int

    @property
    def prompt(self) -> int:
        """All input, the way OpenAI counts it."""
        return self.input + self.cached + self.cache_write


@attrs.frozen
class ToolCall:
    """One call of a tool; ``arguments`` is JSON text."""

    name: str
    arguments: str


@attrs.frozen
class Reply:
    """One answer of the fake model, in no protocol's words yet.

    :ivar pieces: the text, cut as it is streamed
    :ivar thought: what it tells of its thinking
    :ivar seal: what makes that thinking its own; empty where it seals nothing
    :ivar redacted: whether nothing of it may be told
    """

    pieces: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    finish: Finish
    usage: Usage
    thought: str = ""
    seal: str = ""
    redacted: bool = False

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


def compose(request: SeenRequest, scenario: Scenario) -> Reply:
    """Make up the answer to a request."""
    calls = _calls(request, scenario)
    count = 2 if calls else scenario.words
    cap = _output_cap(request)
    finish: Finish = "tool_calls" if calls else "stop"
    if cap is not None and cap < count:
        count, finish, calls = cap, "length", ()
    pieces = tuple(_pieces(count))
    if scenario.echo_key and pieces:
        pieces = (request.credential, " " + pieces[0], *pieces[1:])
    output = len(pieces) + scenario.reasoning_tokens
    output += sum(tokens_of(len(call.arguments)) for call in calls)
    usage = usage_of(request, scenario, output, scenario.reasoning_tokens)
    return Reply(pieces, calls, finish, usage)


def count_input(request: SeenRequest) -> int:
    """Input tokens of a request: its text at four bytes a token, at least one."""
    places = ("messages", "input", "prompt", "system", "instructions", "tools")
    size = sum(len(text.encode()) for name in places for text in _texts(request.fields.get(name)))
    return tokens_of(size)


def embeddings(request: SeenRequest) -> list[object]:
    """One vector for each input, as floats or base64 as the request asks."""
    asked = request.fields.get("dimensions")
    size = asked if isinstance(asked, int) and asked > 0 else EMBEDDING_DIMENSIONS
    size = min(size, MAX_EMBEDDING_DIMENSIONS)
    given = request.fields.get("input")
    inputs = given if isinstance(given, list) and given else [given]
    if inputs and all(isinstance(item, int) for item in inputs):
        inputs = [inputs]
    vectors = [_vector(json.dumps(item), size) for item in inputs]
    if request.fields.get("encoding_format") != "base64":
        return list(vectors)
    return [base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() for vector in vectors]


def to_json(value: object) -> bytes:
    """JSON the way the providers write it: compact, with raw UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def cut_text(text: str, parts: int) -> list[str]:
    """A text in so many pieces of about one length, as arguments are streamed."""
    size = max(1, -(-len(text) // parts))
    return [text[at : at + size] for at in range(0, len(text), size)]


def usage_of(request: SeenRequest, scenario: Scenario, output: int, reasoning: int) -> Usage:
    """The tokens to report; cached and written ones are part of the prompt.

    :param output: all that the model put out, ``reasoning`` included
    """
    prompt = scenario.input_tokens
    if prompt is None:
        prompt = count_input(request) + scenario.cached_tokens + scenario.cache_write_tokens
    cached = min(scenario.cached_tokens, prompt)
    written = min(scenario.cache_write_tokens, prompt - cached)
    return Usage(prompt - cached - written, cached, written, output, reasoning)


def _calls(request: SeenRequest, scenario: Scenario) -> tuple[ToolCall, ...]:
    """The tools to call, in turn those the request offers; none once a result has come."""
    if not scenario.tools or _has_tool_result(request.fields):
        return ()
    names = _tool_names(request.fields.get("tools")) or ["get_weather"]
    cities = ("Bern", "Zürich", "Genève", "Lugano")
    return tuple(
        ToolCall(
            names[index % len(names)],
            json.dumps({"city": cities[index % len(cities)]}, ensure_ascii=False),
        )
        for index in range(min(scenario.tools, 128))
    )


def _tool_names(tools: object) -> list[str]:
    """The names of the offered tools, in any protocol's spelling."""
    names: list[str] = []
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict):
            inner = tool.get("function")
            holder: dict[str, Any] = inner if isinstance(inner, dict) else tool
            if isinstance(holder.get("name"), str):
                names.append(holder["name"])
    return names


def _has_tool_result(fields: dict[str, Any]) -> bool:
    """Whether the newest turn brings the result of a tool."""
    turns = fields.get("messages") or fields.get("input")
    last = turns[-1] if isinstance(turns, list) and turns else None
    if not isinstance(last, dict):
        return False
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return True
    content = last.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _output_cap(request: SeenRequest) -> int | None:
    """The most tokens the client wants, whatever its protocol calls that."""
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        cap = request.fields.get(name)
        if isinstance(cap, int) and not isinstance(cap, bool):
            return max(cap, 0)
    return None


def _pieces(count: int) -> Iterator[str]:
    """The first ``count`` words, each but the first with the space before it."""
    for index in range(count):
        word = WORDS[index % len(WORDS)]
        yield f" {word}" if index else word


def _texts(value: object) -> Iterator[str]:
    """Every string in a JSON value; the values are as deep as ``json.loads`` let them be."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())


def tokens_of(size: int) -> int:
    """Tokens of so many bytes."""
    return max(1, -(-size // BYTES_PER_TOKEN))


def _vector(text: str, size: int) -> list[float]:
    """A vector that only the text decides, with numbers that survive four-byte floats."""
    digest = hashlib.shake_128(text.encode()).digest(size)
    return [(byte - 128) / 128 for byte in digest]

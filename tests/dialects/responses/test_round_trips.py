"""Conversations that go out and come back are the same."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.meter import Meter
from omnigate.dialects.packing import pack_reasoning
from omnigate.dialects.responses.answer_reader import read_answer
from omnigate.dialects.responses.answer_writer import write_answer
from omnigate.dialects.responses.request_reader import read_request
from omnigate.dialects.responses.request_writer import write_request
from omnigate.dialects.shapes import (
    Answer,
    AnswerUsage,
    Document,
    Format,
    Frame,
    Image,
    Part,
    Quirk,
    RedactedThinking,
    Request,
    Role,
    Stop,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)

CAPS = Capabilities(reasoning=True, efforts=("low", "high"))
FRAME = Frame("0123456789abcdef0123456789abcdef", 1764441600, "m")

_words = st.text(min_size=1, max_size=8)
_ids = st.text("abc_-09", min_size=1, max_size=20)
_texts = st.builds(Text, _words)
_images = st.builds(Image, url=st.just("https://h/a.png"), detail=st.just("low")) | st.builds(
    Image, media_type=st.just("image/png"), data=st.just("AA=="), detail=st.just("auto")
)
_pdfs = st.builds(
    Document, st.just("application/pdf"), data=st.just("JVBE"), title=_words
) | st.builds(Document, st.just("application/pdf"), url=st.just("https://h/a.pdf"))
_content = st.lists(_texts | _images | _pdfs, min_size=1, max_size=3)
_arguments = st.dictionaries(_words, st.integers()).map(json.dumps)
_calls = st.builds(ToolCall, _ids, _ids, _arguments)


def comparable(parts: list[Part]) -> list[Any]:
    """Return parts so that those that mean the same are equal: neighbouring texts are one."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, Text):
            if found and isinstance(found[-1], Text) and found[-1].refusal is part.refusal:
                found[-1] = Text(found[-1].text + part.text, refusal=part.refusal)
            else:
                found.append(Text(part.text, refusal=part.refusal))
        elif isinstance(part, ToolCall):
            found.append((part.id, part.name, part.arguments))
        elif isinstance(part, ToolResult):
            found.append((part.call_id, comparable(list(part.parts))))
        elif isinstance(part, Image):
            found.append((part.url, part.media_type, part.data, part.detail))
        elif isinstance(part, Document):
            found.append((part.url, part.data, part.title))
        else:
            found.append(part)
    return found


def said(turns: list[Turn]) -> list[Any]:
    """Return who said what."""
    return [(turn.role, comparable(turn.parts)) for turn in turns]


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Make turns in an order that every protocol takes."""
    turns = []
    if draw(st.booleans()):
        turns.append(Turn(Role.SYSTEM, [draw(_texts)]))
    for _ in range(draw(st.integers(1, 3))):
        turns.append(Turn(Role.USER, list(draw(_content))))
        calls = draw(st.lists(_calls, max_size=3, unique_by=lambda call: call.id))
        words = draw(st.lists(_texts, min_size=0 if calls else 1, max_size=2))
        turns.append(Turn(Role.ASSISTANT, [*words, *calls]))
        if calls:
            results = [
                ToolResult(call.id, list(draw(st.just([]) | _content))) for call in reversed(calls)
            ]
            turns.append(Turn(Role.TOOL, list(results)))
    return turns


class RoundTripTests(SynchronousTestCase):
    """There and back again."""

    @settings(max_examples=150, deadline=None)
    @given(conversations(), st.text(min_size=1), st.none() | st.integers(16, 10**6))
    def test_request(self, turns: list[Turn], words: str, bound: int | None) -> None:
        """A request that is written is read as the same request."""
        request = Request(
            turns,
            stream=bool(bound),
            max_tokens=bound,
            tools=[Tool("f", words, b'{"type":"object"}', True)],
            effort="low",
            format=Format(b'{"type":"object"}', "n", words, False),
            user="u",
        )
        body = write_request(request, "up", CAPS, Quirk.NONE).body
        back = read_request(body)
        self.assertEqual(said(back.turns), said(turns))
        self.assertEqual((back.stream, back.max_tokens), (request.stream, bound))
        self.assertEqual((back.effort, back.format), ("low", request.format))
        self.assertEqual(back.user, "u")
        (tool,) = back.tools
        self.assertEqual((tool.name, tool.description, tool.strict), ("f", words, True))

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            _texts
            | st.builds(Text, _words, refusal=st.just(True))
            | _calls
            | st.builds(Thinking, st.text(), _words)
            | st.builds(RedactedThinking, st.text()),
            max_size=6,
        )
    )
    def test_answer_comes_back(self, parts: list[Any]) -> None:
        """A client that sends our answer back brings the same turn, with all that was thought."""
        answer = Answer(parts, Stop.END, AnswerUsage())
        output = json.loads(write_answer(answer, FRAME))["output"]
        user = {"role": "user", "content": "go on"}
        turns = read_request(json.dumps({"input": [user, *output, user]}).encode()).turns
        expected = list(parts)
        while expected and isinstance(expected[-1], Thinking | RedactedThinking):
            expected.pop()
        told = comparable([part for turn in turns[1:-1] for part in turn.parts])
        self.assertEqual(told, comparable(expected))
        self.assertLessEqual(len(turns), 3)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(_texts | _calls | st.builds(Thinking, _words), max_size=6))
    def test_answer(self, parts: list[Any]) -> None:
        """An answer that is written is read as the same answer."""
        usage = AnswerUsage(1, 2, 3, 4, 5)
        stop = Stop.TOOLS if any(isinstance(part, ToolCall) for part in parts) else Stop.END
        body = write_answer(Answer(parts, stop, usage), FRAME)
        back = read_answer(body, Meter("responses", False))
        self.assertEqual(comparable(list(back.parts)), comparable(parts))
        self.assertEqual((back.stop, back.usage), (stop, usage))

    @settings(max_examples=100, deadline=None)
    @given(_ids, _words, _words)
    def test_sealed_reasoning(self, item_id: str, text: str, sealed: str) -> None:
        """What a provider sealed goes back to it as it came."""
        item = {
            "type": "reasoning",
            "id": item_id,
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": sealed,
        }
        told = {"status": "completed", "output": [item]}
        answer = read_answer(json.dumps(told).encode(), Meter("responses", False))
        self.assertEqual(answer.parts, [Thinking(text, pack_reasoning(item_id, sealed))])
        turn = Turn(Role.ASSISTANT, [*answer.parts, Text("x")])
        body = write_request(Request([turn]), "up", CAPS, Quirk.NONE).body
        self.assertEqual(json.loads(body)["input"][0], item)


class CodexTests(SynchronousTestCase):
    """What the Codex CLI sends, in the form in which it was seen."""

    REQUEST: dict[str, Any] = {
        "model": "claude-sonnet-5",
        "instructions": "You are a coding agent.",
        "input": [
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "<permissions>"}],
            },
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "<environment_context>"}],
            },
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "List the files."}],
            },
            {
                "type": "function_call",
                "name": "exec_command",
                "arguments": '{"cmd":"ls"}',
                "call_id": "call_1",
            },
            {
                "type": "function_call",
                "name": "create_issue",
                "namespace": "mcp__tracker",
                "arguments": "{}",
                "call_id": "call_2",
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
            {"type": "function_call_output", "call_id": "call_2", "output": "#1"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "exec_command",
                "description": "Runs a command.",
                "strict": False,
                "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
            },
            {
                "type": "namespace",
                "name": "mcp__tracker",
                "description": "Tools in the mcp__tracker namespace.",
                "tools": [
                    {
                        "type": "function",
                        "name": "create_issue",
                        "description": "Files an issue.",
                        "strict": False,
                        "parameters": {"type": "object", "properties": {}},
                    }
                ],
            },
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0198",
        "client_metadata": {"x-codex-installation-id": "1"},
    }

    def test_namespace_there_and_back(self) -> None:
        """A function of a namespace is called by one name, and the client told both of its own."""
        request = read_request(json.dumps(self.REQUEST).encode())
        self.assertEqual(
            [tool.name for tool in request.tools], ["exec_command", "mcp__tracker__create_issue"]
        )
        calls = [
            part for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)
        ]
        self.assertEqual(
            [call.name for call in calls], ["exec_command", "mcp__tracker__create_issue"]
        )
        frame = Frame(
            FRAME.id,
            FRAME.created,
            "claude-sonnet-5",
            echo=request.echo,
            namespaces=request.namespaces,
        )
        answer = Answer(
            [ToolCall("toolu_1", "mcp__tracker__create_issue", "{}")], Stop.TOOLS, AnswerUsage()
        )
        told = json.loads(write_answer(answer, frame))
        item = told["output"][0]
        self.assertEqual((item["namespace"], item["name"]), ("mcp__tracker", "create_issue"))
        self.assertEqual(told["tools"], self.REQUEST["tools"])

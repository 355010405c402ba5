"""The messages of a client of Chat."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.chat.request_reader import read_request
from omnigate.dialects.chat.request_writer import write_request as write_chat
from omnigate.dialects.messages.request_writer import write_request as write_messages
from omnigate.dialects.responses.request_writer import write_request as write_responses
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    Quirk,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.errors import GatewayError


def read(*messages: Any) -> list[Turn]:
    """Read messages."""
    return read_request(json.dumps({"messages": messages}).encode()).turns


def call(call_id: str | None, name: str = "f") -> dict[str, Any]:
    """Make a call of a tool."""
    function = {"name": name, "arguments": "{}"}
    return {"id": call_id, "type": "function", "function": function}


def calls(*ids: str | None) -> dict[str, Any]:
    """Make a message of the assistant with calls."""
    return {"role": "assistant", "content": None, "tool_calls": [call(one) for one in ids]}


def result(call_id: str | None) -> dict[str, Any]:
    """Make the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


class TurnCase(SynchronousTestCase):
    """Looks at refusals."""

    def refused(self, place: str, code: str, *messages: Any) -> None:
        """Check that messages are refused for what stands at ``place``."""
        error = self.assertRaises(GatewayError, read, *messages)
        self.assertEqual((error.kind.code, error.param), (code, place), messages)
        self.assertIn(place, error.message)


class MessageTests(TurnCase):
    """Messages of every role."""

    def test_said_as_it_was(self) -> None:
        """The conversation is kept as it was said: order, neighbours, blank text."""
        roles = ("system", "user", "user", "developer", "assistant", "assistant")
        read_as = (
            Role.SYSTEM,
            Role.USER,
            Role.USER,
            Role.SYSTEM,
            Role.ASSISTANT,
            Role.ASSISTANT,
        )
        turns = read(*({"role": role, "content": " ", "name": "n"} for role in roles))
        self.assertEqual(
            turns,
            [
                Turn(role, [Text(" ")], True, f"messages[{at}]", roles[at] == "developer")
                for at, role in enumerate(read_as)
            ],
        )

    def test_parts(self) -> None:
        """Parts of a user: texts, pictures, files; with cache marks as they were written."""
        [turn] = read(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}},
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://x.test/a.png", "detail": "low"},
                    },
                    {"type": "image_url", "image_url": "data:image/png;base64,QUJD"},
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,QUJD",
                        },
                        "prompt_cache_breakpoint": None,
                    },
                ],
            }
        )
        place = "messages[0].content"
        self.assertFalse(turn.plain)
        self.assertEqual(
            turn.parts,
            [
                Text("a", CacheMark(b'{"type": "ephemeral"}', openai=False)),
                Text("b", CacheMark(b'{"mode": "explicit"}', openai=True)),
                Image(url="https://x.test/a.png", detail="low", path=f"{place}[2].image_url.url"),
                Image(media_type="image/png", data="QUJD", path=f"{place}[3].image_url"),
                Document("application/pdf", data="QUJD", title="a.pdf", path=f"{place}[4].file"),
            ],
        )

    def test_assistant(self) -> None:
        """Thinking comes first, then what was said, then the calls."""
        [turn] = read(
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                "refusal": "c",
                "reasoning_content": "unsigned",
                "reasoning": "unsigned",
                "thinking_blocks": [
                    {"index": 0, "type": "thinking", "thinking": "t", "signature": "s"},
                    {"index": 1, "type": "redacted_thinking", "data": "d"},
                    {"index": 2, "type": "thinking", "thinking": "unsigned"},
                    {"index": 3, "type": "thinking", "thinking": "unsigned", "signature": ""},
                    {"index": 4, "type": "redacted_thinking"},
                    {"index": 5, "type": "thinking", "signature": "hidden"},
                ],
                "tool_calls": [call("x", "f"), {"id": "y", "function": {"name": "g"}}],
            }
        )
        self.assertEqual(
            turn.parts,
            [
                Thinking("t", "s"),
                RedactedThinking("d"),
                Thinking("", "hidden"),
                Text("a"),
                Text("b", refusal=True),
                Text("c", refusal=True),
                ToolCall("x", "f", "{}", path="messages[0].tool_calls[0]"),
                ToolCall("y", "g", "", path="messages[0].tool_calls[1]"),
            ],
        )
        self.assertEqual(read({"role": "assistant"})[0].parts, [])
        self.assertFalse(read({"role": "assistant", "content": "a", "refusal": "b"})[0].plain)

    def test_arguments(self) -> None:
        """Arguments stay as the model wrote them, whatever they are."""
        for arguments in ("", "{", '{"a": 1.0}', "[1]", "é"):
            message = calls("a")
            message["tool_calls"][0]["function"]["arguments"] = arguments
            part = read(message)[0].parts[0]
            self.assertEqual(part.arguments if isinstance(part, ToolCall) else None, arguments)

    def test_results(self) -> None:
        """What a tool answered is a turn of its own; nothing is nothing."""
        picture = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
        turns = read(
            calls("a", "b", "c", "d"),
            {"role": "tool", "tool_call_id": "a", "content": "r"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "r"}]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
            {"role": "tool", "tool_call_id": "d", "content": [picture]},
        )[1:]
        self.assertEqual([turn.role for turn in turns], [Role.TOOL] * 4)
        image = Image(url="https://x.test/a.png", path="messages[4].content[0].image_url.url")
        places = [f"messages[{at}].tool_call_id" for at in range(1, 5)]
        self.assertEqual(
            [turn.parts for turn in turns],
            [
                [ToolResult("a", [Text("r")], plain=True, path=places[0])],
                [ToolResult("b", [Text("r")], path=places[1])],
                [ToolResult("c", [], plain=True, path=places[2])],
                [ToolResult("d", [image], path=places[3])],
            ],
        )

    def test_untranslatable(self) -> None:
        """What no other protocol has in a message of this role is refused with its place."""
        code = "untranslatable_request"
        audio = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
        picture = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
        text = {"type": "text", "text": "a"}
        for role, part in (
            ("user", audio),
            ("user", {"type": "video_url"}),
            ("user", {"type": "refusal", "refusal": "r"}),
            ("system", picture),
            ("developer", audio),
            ("assistant", picture),
            ("assistant", {"type": "thinking"}),
            ("tool", audio),
        ):
            message = {"role": role, "content": [text, part], "tool_call_id": "a"}
            self.refused("messages[1].content[1]", code, calls("a"), message)
        for part, place in (
            ({"type": "file", "file": {"file_id": "file-1"}}, "file.file_id"),
            ({"type": "file", "file": {"file_data": "QUJD"}}, "file.file_data"),
            ({"type": "image_url", "image_url": {"url": "file:///a"}}, "image_url.url"),
            ({"type": "image_url", "image_url": "ftp://a"}, "image_url"),
        ):
            message = {"role": "user", "content": [part]}
            self.refused(f"messages[0].content[0].{place}", code, message)
        self.refused(
            "messages[0].audio", code, {"role": "assistant", "content": None, "audio": {"id": "a"}}
        )
        custom = {"id": "a", "type": "custom", "custom": {"name": "c", "input": "x"}}
        self.refused(
            "messages[0].tool_calls[1]",
            code,
            {"role": "assistant", "tool_calls": [call("x"), custom]},
        )

    def test_malformed(self) -> None:
        """What is malformed is refused with its place."""
        code = "invalid_request"
        for message, place in (
            ({"content": "a"}, ".role"),
            ({"role": "root", "content": "a"}, ".role"),
            ({"role": "user", "content": 5}, ".content"),
            ({"role": "user", "content": [5]}, ".content[0]"),
            ({"role": "user", "content": [{"text": "a"}]}, ".content[0].type"),
            ({"role": "user", "content": [{"type": "text"}]}, ".content[0].text"),
            ({"role": "user", "content": [{"type": "image_url"}]}, ".content[0].image_url.url"),
            ({"role": "user", "content": [{"type": "file"}]}, ".content[0].file"),
            ({"role": "assistant", "content": [{"type": "refusal"}]}, ".content[0].refusal"),
            ({"role": "assistant", "tool_calls": [{"id": "a"}]}, ".tool_calls[0].function"),
            (
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]},
                ".tool_calls[0].function.name",
            ),
            ({"role": "assistant", "function_call": {}}, ".function_call.name"),
        ):
            self.refused(f"messages[0]{place}", code, message)


class NamelessCallTests(TurnCase):
    """Calls and results without ids are paired by their order, where that is sure."""

    def ids(self, *messages: Any) -> list[str]:
        """Return the ids of calls and results in their order."""
        found = []
        for turn in read(*messages):
            for part in turn.parts:
                if isinstance(part, ToolCall):
                    found.append(part.id)
                elif isinstance(part, ToolResult):
                    found.append(part.call_id)
        return found

    def test_by_order(self) -> None:
        """Ids are counted over all calls of the conversation."""
        self.assertEqual(
            self.ids(
                calls("", None),
                result(""),
                result(None),
                calls("known"),
                result("known"),
                calls(""),
                result(""),
            ),
            ["call_gw_0", "call_gw_1"] * 2 + ["known"] * 2 + ["call_gw_3"] * 2,
        )

    def test_some_have_ids(self) -> None:
        """Ids that are there stay; what is left over is paired by order."""
        self.assertEqual(self.ids(calls("a", ""), result(""), result("a"))[2:], ["call_gw_1", "a"])
        self.assertEqual(self.ids(calls("a", "b"), result(""), result(""))[2:], ["a", "b"])
        self.assertEqual(self.ids(calls("", "b"), result("x"), result("b"))[::2], ["call_gw_0"] * 2)
        # An id that fits no call stays: whoever writes the request refuses it.
        self.assertEqual(self.ids(calls("a"), result("b")), ["a", "b"])
        self.assertEqual(self.ids(calls("a", ""), result("x"), result(""))[2], "x")

    def test_old_functions(self) -> None:
        """Calls of the old kind have no ids."""
        said = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
        told = {"role": "function", "name": "f", "content": "6", "tool_call_id": "ignored"}
        turns = read(said, told, said, told)
        self.assertEqual(
            [part for turn in turns for part in turn.parts],
            [
                ToolCall("call_gw_0", "f", "{}", path="messages[0].function_call"),
                ToolResult("call_gw_0", [Text("6")], plain=True, path="messages[1]"),
                ToolCall("call_gw_1", "f", "{}", path="messages[2].function_call"),
                ToolResult("call_gw_1", [Text("6")], plain=True, path="messages[3]"),
            ],
        )

    def test_not_sure(self) -> None:
        """Where the numbers do not fit, or something stands between, nothing is guessed."""
        user = {"role": "user", "content": "u"}
        for place, messages in (
            ("messages[0].tool_calls[0]", [calls("")]),
            ("messages[0].tool_calls[1]", [calls("a", ""), result("a")]),
            ("messages[0].tool_calls[0]", [calls("", ""), result("")]),
            ("messages[0].tool_calls[0]", [calls(""), result(""), result("")]),
            ("messages[0].tool_calls[0]", [calls(""), user, result("")]),
            ("messages[0].tool_call_id", [result("")]),
            ("messages[2].tool_call_id", [calls("a"), user, result(None)]),
            ("messages[1].tool_call_id", [calls("a", "b"), result("")]),
            ("messages[1]", [user, {"role": "function", "name": "f", "content": "6"}]),
        ):
            self.refused(place, "untranslatable_request", *messages)

    @settings(max_examples=200)
    @given(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=4),
                st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=4),
            ),
            max_size=4,
        )
    )
    def test_never_nameless(self, rounds: list[tuple[list[str], list[str]]]) -> None:
        """After reading nothing is without an id, or the request is refused."""
        messages = []
        for called, answered in rounds:
            messages.append(calls(*called))
            messages += [result(one) for one in answered]
        try:
            ids = self.ids(*messages)
        except GatewayError as error:
            self.assertEqual(error.kind.code, "untranslatable_request")
        else:
            self.assertNotIn("", ids)


PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "a"},
    {"type": "text", "text": " "},
    {"type": "text", "text": "m", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "m", "prompt_cache_breakpoint": {"mode": "explicit"}},
]
SHOWN: list[dict[str, Any]] = [
    *PARTS,
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "QUJD"}},
    {"type": "file", "file": {"file_data": "data:text/plain;base64,QUJD"}},
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "t", "signature": "s"},
    {"type": "thinking", "thinking": "t", "signature": "omnigate.r1:x"},
    {"type": "redacted_thinking", "data": "d"},
]


def _content(parts: list[dict[str, Any]]) -> st.SearchStrategy[Any]:
    return st.sampled_from(["", " ", "a"]) | st.lists(st.sampled_from(parts), max_size=3)


def _message(role: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": st.just(role), **members})


_ids = st.sampled_from(["a", "b", "c:1", "", "i" * 60])
CONVERSATIONS = st.lists(
    st.one_of(
        _message("system", content=_content(PARTS)),
        _message("developer", content=_content(PARTS)),
        _message("user", content=_content(SHOWN)),
        _message(
            "assistant",
            content=_content(PARTS) | st.none(),
            refusal=st.none() | st.just("r"),
            thinking_blocks=st.lists(st.sampled_from(BLOCKS), max_size=2),
            tool_calls=st.lists(_ids.map(call), max_size=2),
        ),
        _message("tool", content=_content(SHOWN) | st.none(), tool_call_id=_ids),
    ),
    max_size=8,
)


class EveryUpstreamTests(SynchronousTestCase):
    """Whatever was said can be told to every upstream, or is refused."""

    @settings(max_examples=200, deadline=None)
    @given(CONVERSATIONS, st.booleans())
    def test_written(self, messages: list[dict[str, Any]], modern: bool) -> None:
        """Nothing fails, and no writer changes what another is to write."""
        try:
            request = read_request(json.dumps({"messages": messages}).encode())
        except GatewayError as error:
            self.assertEqual(error.kind.code, "untranslatable_request")
            return
        before = copy.deepcopy(request)
        caps = Capabilities(prefill=not modern, mid_system=modern)
        for write in (write_messages, write_chat, write_responses):
            try:
                json.loads(write(request, "m", caps, Quirk.NONE).body)
            except GatewayError as error:
                self.assertEqual(error.kind.code, "untranslatable_request")
                self.assertRegex(error.param or "", r"\Amessages(\[\d+\].*)?\Z")
            self.assertEqual(request, before)

"""The messages that a Chat upstream is sent."""

import copy
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.turns_writer import ShortNames, write_turns
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    Part,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.dialects.tool_ids import openai_id
from omnigate.errors import GatewayError

PNG = Image(media_type="image/png", data="QUJD", path="p.image")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
PDF = Document("application/pdf", data="QUJD", title="t.pdf", path="p.pdf")
PDF_PART: dict[str, Any] = {
    "type": "file",
    "file": {"filename": "t.pdf", "file_data": "data:application/pdf;base64,QUJD"},
}
SEE_BELOW = "[see the attachment in the next user message]"


def user(*parts: Part) -> Turn:
    """Make a turn of the user."""
    return Turn(Role.USER, [*parts], path="u")


def assistant(*parts: Part) -> Turn:
    """Make a turn of the assistant."""
    return Turn(Role.ASSISTANT, [*parts], path="a")


def tool(*results: ToolResult) -> Turn:
    """Make a turn of results."""
    return Turn(Role.TOOL, [*results], path="t")


def system(*parts: Part) -> Turn:
    """Make a turn of the system."""
    return Turn(Role.SYSTEM, [*parts], path="s")


def call(call_id: str, arguments: str = "{}") -> ToolCall:
    """Make a call."""
    return ToolCall(call_id, "f", arguments)


def result(call_id: str, *parts: Text | Image | Document, failed: bool = False) -> ToolResult:
    """Make a result."""
    return ToolResult(call_id, [*parts], is_error=failed)


def written(*turns: Turn, sign_calls: bool = False) -> list[dict[str, Any]]:
    """Write turns and return the messages as an upstream reads them."""
    before = copy.deepcopy(turns)
    messages = write_turns(turns, ShortNames(), sign_calls)
    assert turns == before  # a request may be written for several targets
    read: list[dict[str, Any]] = json.loads(msgspec.json.encode(messages))
    return read


def said(*turns: Turn) -> list[tuple[str, Any]]:
    """Write turns and return role and content of each message."""
    return [(message["role"], message["content"]) for message in written(*turns)]


def text(words: str) -> dict[str, str]:
    """Make a text part."""
    return {"type": "text", "text": words}


class UserTests(SynchronousTestCase):
    """What users and systems say."""

    def test_texts(self) -> None:
        """One text is a string, several are parts; the order of turns stays."""
        self.assertEqual(
            said(
                system(Text("a"), Text("b")),
                user(Text("c")),
                system(Text("d")),
                assistant(Text("e"), Text("f")),
                user(Text("g"), Text("h")),
                user(Text("")),
            ),
            [
                ("system", [text("a"), text("b")]),
                ("user", "c"),
                ("system", "d"),
                ("assistant", "ef"),
                ("user", [text("g"), text("h")]),
                ("user", ""),
            ],
        )

    def test_shown(self) -> None:
        """Pictures and documents."""
        self.assertEqual(
            said(
                user(
                    PNG,
                    Image(url="https://x.test/a.png", detail="high"),
                    PDF,
                    Document("application/pdf", data="QUJD"),
                    Document("text/plain", data="words", title="gone"),
                )
            ),
            [
                (
                    "user",
                    [
                        PNG_PART,
                        {
                            "type": "image_url",
                            "image_url": {"url": "https://x.test/a.png", "detail": "high"},
                        },
                        PDF_PART,
                        {**PDF_PART, "file": {**PDF_PART["file"], "filename": "document.pdf"}},
                        text("words"),
                    ],
                )
            ],
        )

    def test_cache_marks(self) -> None:
        """A mark in OpenAI's words stays, in Anthropic's it goes."""
        openai = CacheMark(b'{"mode":"explicit"}', openai=True)
        self.assertEqual(
            said(user(Text("a", openai)), user(Text("b", CacheMark(b"{}", openai=False)))),
            [
                ("user", [{**text("a"), "prompt_cache_breakpoint": {"mode": "explicit"}}]),
                ("user", "b"),
            ],
        )

    def test_refused(self) -> None:
        """What cannot stand where it does is refused with its place."""
        web = Document("application/pdf", url="https://x.test/a.pdf", path="p.web")
        for turn, place in (
            (user(web), "p.web"),
            (tool(result("a", web)), "p.web"),
            (system(PNG), "p.image"),
            (assistant(PNG), "p.image"),
            (assistant(PDF), "p.pdf"),
        ):
            error = self.assertRaises(GatewayError, written, turn)
            self.assertEqual((error.kind.code, error.param), ("untranslatable_request", place))


class AssistantTests(SynchronousTestCase):
    """What the assistant said and called."""

    def test_calls(self) -> None:
        """Calls go with the text, long ids are shortened, thinking is left out."""
        long_id = "i" * 60
        [message, answer] = written(
            assistant(
                Thinking("t", "s"),
                RedactedThinking("d"),
                Text("a"),
                call("x", '{"a": 1.0}'),
                call(long_id, ""),
            ),
            tool(result(long_id)),
        )
        self.assertEqual(
            message,
            {
                "role": "assistant",
                "content": "a",
                "tool_calls": [
                    {
                        "id": "x",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1.0}'},
                    },
                    {
                        "id": openai_id(long_id),
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                    },
                ],
            },
        )
        self.assertEqual(answer["tool_call_id"], openai_id(long_id))

    def test_nothing_said(self) -> None:
        """Beside calls no text is null; a turn of thinking alone is none."""
        for parts in ((call("x"),), (Text(""), call("x"))):
            self.assertEqual(said(assistant(*parts)), [("assistant", None)])
        self.assertEqual(said(assistant(Thinking("t", "s"))), [])
        self.assertEqual(said(assistant(Text(""))), [("assistant", "")])

    def test_refusal(self) -> None:
        """Words of a refusal are text."""
        self.assertEqual(said(assistant(Text("no", refusal=True))), [("assistant", "no")])

    def test_signatures(self) -> None:
        """Where the model demands it, every call of the past bears a signature."""
        messages = written(assistant(call("x"), call("y")), sign_calls=True)
        for one in messages[0]["tool_calls"]:
            self.assertEqual(
                one["extra_content"],
                {"google": {"thought_signature": "skip_thought_signature_validator"}},
            )

    def test_split_answers(self) -> None:
        """Calls in several turns are one message, so that the results follow directly."""
        for turns, sent in (
            ((assistant(Text("a")), assistant(Text("b"))), [("a", 0), ("b", 0)]),
            ((assistant(Text("a")), assistant(call("x"))), [("a", 1)]),
            ((assistant(call("x")), assistant(call("y"))), [(None, 2)]),
            ((assistant(call("x")), assistant(Text("b"))), [("b", 1)]),
            ((assistant(Text("a"), call("x")), assistant(Text("b"), call("y"))), [("a\n\nb", 2)]),
            ((assistant(Text("a")), assistant(Text("b"), call("x"))), [("a", 0), ("b", 1)]),
        ):
            messages = written(*turns)
            got = [(one["content"], len(one.get("tool_calls", ()))) for one in messages]
            self.assertEqual(got, sent)


class ResultTests(SynchronousTestCase):
    """What tools answered."""

    def test_texts(self) -> None:
        """Results are text in messages of their own; a failure is marked."""
        for given_, sent in (
            (result("a"), ""),
            (result("a", Text("r")), "r"),
            (result("a", Text("r"), Text("s")), [text("r"), text("s")]),
            (result("a", failed=True), "[tool error] "),
            (result("a", Text("r"), failed=True), "[tool error] r"),
            (
                result("a", Text("r"), Text("s"), failed=True),
                [text("[tool error] r"), text("s")],
            ),
        ):
            self.assertEqual(
                written(tool(given_)), [{"role": "tool", "tool_call_id": "a", "content": sent}]
            )

    def test_attachments(self) -> None:
        """What is no text moves into the next message of the user, each with its lead."""
        self.assertEqual(
            said(
                tool(result("a", PNG), result("b", Text("r"), PDF, PNG)),
                tool(result("c", PNG, failed=True)),
                user(Text("u")),
                user(Text("v")),
            ),
            [
                ("tool", SEE_BELOW),
                ("tool", "r"),
                ("tool", f"[tool error] {SEE_BELOW}"),
                (
                    "user",
                    [
                        text("[attachment of tool call a]"),
                        PNG_PART,
                        text("[attachment of tool call b]"),
                        PDF_PART,
                        PNG_PART,
                        text("[attachment of tool call c]"),
                        PNG_PART,
                        text("u"),
                    ],
                ),
                ("user", "v"),
            ],
        )

    def test_attachments_alone(self) -> None:
        """Where the user says nothing, the attachments are what the user says."""
        lead = text("[attachment of tool call a]")
        for behind in ((), (assistant(Text("b")),), (user(),)):
            messages = said(assistant(call("a")), tool(result("a", PNG)), *behind)
            self.assertEqual(messages[1:3], [("tool", SEE_BELOW), ("user", [lead, PNG_PART])])
        self.assertEqual(
            said(tool(result("a", PNG)), system(Text("s")))[1:],
            [("system", "s"), ("user", [lead, PNG_PART])],
        )

    def test_results_first(self) -> None:
        """Results stand right behind the calls, also where something was said in between."""
        self.assertEqual(
            said(
                assistant(call("a"), call("b")),
                user(Text("u"), result("a", Text("r"))),
                system(Text("s")),
                tool(result("b", Text("q"))),
                assistant(Text("done")),
            ),
            [
                ("assistant", None),
                ("tool", "r"),
                ("tool", "q"),
                ("user", "u"),
                ("system", "s"),
                ("assistant", "done"),
            ],
        )

    @settings(max_examples=200)
    @given(
        st.lists(
            st.one_of(
                st.builds(lambda words: user(Text(words)), st.text(max_size=3)),
                st.builds(lambda words: system(Text(words)), st.text(max_size=3)),
                st.builds(
                    lambda ids, words: assistant(Text(words), *(call(one) for one in ids)),
                    st.lists(st.sampled_from("abc"), max_size=2),
                    st.text(max_size=3),
                ),
                st.builds(
                    lambda ids, shown: tool(*(result(one, *shown) for one in ids)),
                    st.lists(st.sampled_from("abc"), max_size=2),
                    st.lists(st.sampled_from([Text("r"), PNG, PDF]), max_size=2),
                ),
            ),
            max_size=8,
        )
    )
    def test_order(self, turns: list[Turn]) -> None:
        """Results follow calls or each other, and nothing that was said is lost."""
        messages = written(*turns)
        between = False
        for message in messages:
            if message["role"] == "assistant":
                between = False
            elif message["role"] == "tool":
                self.assertFalse(between)
            else:
                between = True
        sent = json.dumps(messages)
        parts = [part for turn in turns for part in turn.parts]
        self.assertEqual(
            sent.count('"tool_call_id"'), sum(isinstance(part, ToolResult) for part in parts)
        )
        self.assertEqual(sent.count('"id": '), sum(isinstance(part, ToolCall) for part in parts))
        shown = [inner for part in parts if isinstance(part, ToolResult) for inner in part.parts]
        self.assertEqual(
            sent.count('"image_url": {'), sum(isinstance(part, Image) for part in shown)
        )

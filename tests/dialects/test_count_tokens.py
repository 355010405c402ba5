"""Token counts for clients of Messages at upstreams of OpenAI's protocol."""

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.count_tokens import (
    ESTIMATE_LINE,
    INPUT_TOKENS_PATH,
    TOKENS_PER_FRAME,
    count_answer,
    estimate_input_tokens,
    read_count,
)
from omnigate.dialects.shapes import (
    Document,
    Format,
    Image,
    Part,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)


def asked(*parts: Part, tools: list[Tool] | None = None, answer: Format | None = None) -> int:
    """The estimate for one message of these parts, without its frame."""
    request = Request(turns=[Turn(Role.USER, list(parts))], tools=tools or [], format=answer)
    return estimate_input_tokens(request) - TOKENS_PER_FRAME


class EstimateTests(SynchronousTestCase):
    """What is counted, and what is not."""

    def test_text(self) -> None:
        """Four bytes of UTF-8 are a token, and what is left over is one more."""
        for text, tokens in (("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöüß", 2), ("€€", 2)):
            self.assertEqual(asked(Text(text)), tokens, text)
        self.assertEqual(asked(Text("ab"), Text("cd")), 1)

    def test_every_message_and_tool_has_a_frame(self) -> None:
        turns = [Turn(role, [Text("abcd")]) for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT)]
        tools = [Tool("look"), Tool("find")]
        self.assertEqual(estimate_input_tokens(Request(turns=turns, tools=tools)), 5 + 5 * 4)
        self.assertEqual(estimate_input_tokens(Request(turns=[])), 0)

    def test_media_count_as_much_as_they_are_billed_at(self) -> None:
        """However long their base64 is, and also within the results of tools."""
        image = Image(media_type="image/png", data="x" * 100_000)
        pdf = Document("application/pdf", data="x" * 100_000, title="abcd")
        self.assertEqual(asked(image), 1600)
        self.assertEqual(asked(Image(url="https://example.net/a.png")), 1600)
        self.assertEqual(asked(pdf), 1601)
        self.assertEqual(asked(Document("text/plain", url="https://example.net/a.txt")), 1600)
        self.assertEqual(asked(ToolResult("call", [Text("abcd"), image, pdf])), 3202)

    def test_a_document_of_text_is_text(self) -> None:
        self.assertEqual(asked(Document("text/plain", data="x" * 400)), 100)

    def test_tools(self) -> None:
        """Names, descriptions, schemas without their blanks, and the arguments of calls."""
        schema = b'{ "type":  "object",\n "properties": {} }'
        compact = len(b'{"type":"object","properties":{}}')
        tool = Tool("look", description="abcd", schema=schema)
        self.assertEqual(asked(tools=[tool]), -(-(8 + compact) // 4) + TOKENS_PER_FRAME)
        self.assertEqual(asked(ToolCall("call-1", "look", '{"a":12}')), 3)
        self.assertEqual(asked(answer=Format(schema=schema)), -(-compact // 4))

    def test_thinking_stays_behind(self) -> None:
        self.assertEqual(asked(Thinking("x" * 400, "sig"), RedactedThinking("x" * 400)), 0)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=20))
    def test_more_text_is_never_less(self, texts: list[str], more: str) -> None:
        """A longer conversation has no lower count, whatever is in it."""
        parts: list[Part] = [Text(text) for text in texts]
        self.assertLessEqual(asked(*parts), asked(*parts, Text(more)))

    def test_the_longest_takes_milliseconds(self) -> None:
        """Eight megabytes that are no ASCII, and a hundred thousand parts."""
        for parts in ([Text("ä" * 4_000_000)], [Text("ä")] * 100_000):
            began = time.thread_time()
            asked(*parts)
            self.assertLess(time.thread_time() - began, 0.5)


class AnswerTests(SynchronousTestCase):
    """What the client is answered, and what an upstream answers."""

    def test_answer(self) -> None:
        self.assertEqual(json.loads(count_answer(17)), {"input_tokens": 17})

    def test_header(self) -> None:
        self.assertEqual(ESTIMATE_LINE, b"x-omnigate-estimate: input_tokens\r\n")
        self.assertEqual(INPUT_TOKENS_PATH, "/responses/input_tokens")

    def test_counts_of_a_responses_upstream(self) -> None:
        for body, tokens in (
            (b'{"object":"response.input_tokens","input_tokens":123}', 123),
            (b' {"input_tokens":0,"input_tokens_details":{"cached_tokens":1}}\n', 0),
            (b'{"input_tokens":-1}', None),
            (b'{"input_tokens":null}', None),
            (b'{"input_tokens":"12"}', None),
            (b'{"input_tokens":1.5}', None),
            (b'{"error":{"message":"no such path"}}', None),
            (b"<html>", None),
            (b"[12]", None),
            (b"12", None),
            (b"", None),
            (b"[" * 100_000, None),
        ):
            self.assertEqual(read_count(body), tokens, body[:60])
        whole = b'{"object":"response.input_tokens","input_tokens":123}'
        for length in range(len(whole)):
            self.assertIsNone(read_count(whole[:length]))

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes(self, body: bytes) -> None:
        """Junk is no count, and nothing worse."""
        read_count(body)

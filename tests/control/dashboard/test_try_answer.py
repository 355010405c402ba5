"""Answers of the data plane, as the page of a try reads them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.try_answer import (
    CUT,
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_RAW_BYTES,
    REFUSED,
    WHOLE,
    AnswerReader,
    Verdict,
)
from omnigate.control.dashboard.try_form import STYLES


def events(*data: Any) -> bytes:
    return b"".join(
        b"data: " + (item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n\n"
        for item in data
    )


def chat(text: str | None, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


STREAMS = {
    "chat": events(chat("Grü"), chat("ße"), chat(None, "stop"), {"choices": []}, b"[DONE]"),
    "messages": events(
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Grü"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ße"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ),
    "responses": events(
        {"type": "response.created", "response": {"error": None}},
        {"type": "response.output_text.delta", "delta": "Grü"},
        {"type": "response.output_text.delta", "delta": "ße"},
        {"type": "response.completed", "response": {"error": None}},
    ),
}
WHOLES: dict[str, Any] = {
    "chat": {"choices": [{"message": {"content": "Grüße"}}]},
    "messages": {"type": "message", "content": [{"type": "text", "text": "Grüße"}]},
    "responses": {
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "Grüße"}]},
        ],
        "error": None,
    },
}


def read(style: str, data: bytes, status: int = 200, is_stream: bool = True) -> tuple[str, Verdict]:
    reader = AnswerReader(style, status, is_stream)
    text = reader.feed(data)
    rest, verdict = reader.end()
    return text + rest, verdict


class ReaderTests(SynchronousTestCase):
    """One answer."""

    def test_whole_streams(self) -> None:
        for style, data in STREAMS.items():
            self.assertEqual(read(style, data), ("Grüße", Verdict(WHOLE)), style)

    def test_whole_answers(self) -> None:
        for style, answer in WHOLES.items():
            data = json.dumps(answer).encode()
            self.assertEqual(read(style, data, is_stream=False), ("Grüße", Verdict(WHOLE)), style)

    def test_a_chat_without_done(self) -> None:
        """A reason to finish closes a chat as well; not every provider says more."""
        _, verdict = read("chat", events(chat("Hi"), chat(None, "length")))
        self.assertEqual(verdict.outcome, WHOLE)

    def test_cut_streams(self) -> None:
        """An end in order, but without what closes a stream of this kind, is a cut."""
        for style, data in STREAMS.items():
            cut = data[: data.index(b"\n\n", data.index(b"\\u00df")) + 2]
            text, verdict = read(style, cut)
            self.assertEqual((text, verdict.outcome), ("Grüße", CUT), style)

    def test_no_mark_of_another_kind_closes(self) -> None:
        self.assertEqual(read("messages", events(b"[DONE]"))[1].outcome, CUT)

    def test_errors_amid_a_stream(self) -> None:
        """The words of the error are told, also where a closing mark follows."""
        for style, told in (
            ("chat", {"error": {"message": "no more", "code": "server_error"}}),
            ("messages", {"type": "error", "error": {"type": "api_error", "message": "no more"}}),
            ("responses", {"type": "error", "code": "server_error", "message": "no more"}),
            (
                "responses",
                {"type": "response.failed", "response": {"error": {"message": "no more"}}},
            ),
        ):
            _, verdict = read(style, events(told, b"[DONE]"))
            self.assertEqual(verdict.outcome, CUT, told)
            self.assertIn("no more", verdict.words)

    def test_lost(self) -> None:
        """Where the framing broke, it is cut, even behind a closing mark."""
        reader = AnswerReader("chat", 200, True)
        reader.feed(STREAMS["chat"])
        verdict = reader.lost("reset by peer")
        self.assertEqual(verdict, Verdict(CUT, "The answer broke off: reset by peer."))

    def test_refusals(self) -> None:
        """Status, words and code, in each shape of an error."""
        for body, words, code in (
            (
                {"error": {"message": "spent", "code": "budget_exceeded"}},
                "spent",
                "budget_exceeded",
            ),
            (
                {"type": "error", "error": {"type": "billing_error", "message": "spent"}},
                "spent",
                "billing_error",
            ),
            ({"error": "spent"}, "spent", ""),
            ({}, "The answer has status 402.", ""),
        ):
            _, verdict = read("chat", json.dumps(body).encode(), 402, is_stream=False)
            self.assertEqual(verdict, Verdict(REFUSED, words, code))
        _, verdict = read("chat", b"<h1>Bad gateway</h1>", 502, is_stream=False)
        self.assertEqual(verdict, Verdict(REFUSED, "The answer has status 502."))

    def test_no_answer_at_all(self) -> None:
        for body in (b"", b"[]", b"{", b"\xff"):
            self.assertEqual(read("chat", body, is_stream=False)[1].outcome, CUT)

    def test_bounds(self) -> None:
        """No more is kept than is meant to be, of a stream, an event without end, and a body."""
        for is_stream, piece, most in (
            (True, b"xx\n\n", MAX_ANSWER_BYTES),
            (True, b"xxxx", MAX_BODY_BYTES),
            (False, b"xxxx", MAX_BODY_BYTES),
        ):
            reader = AnswerReader("chat", 200, is_stream)
            for _ in range(4):
                reader.feed(piece * (most // 16))
                self.assertFalse(reader.is_full)
            reader.feed(b"x")
            self.assertTrue(reader.is_full)
            self.assertEqual(reader.most_bytes, most)

    def test_a_long_event(self) -> None:
        """It is not taken apart, also where its end comes with the piece that is too much."""
        reader = AnswerReader("chat", 200, True)
        reader.feed(b"data: " + b"[" * (MAX_BODY_BYTES - 6))
        self.assertFalse(reader.is_full)
        self.assertEqual(reader.feed(b"\n\n" + events(chat("a"))), "")
        self.assertTrue(reader.is_full)
        reader = AnswerReader("chat", 200, True)
        shown = "".join(reader.raw(b"x" * 1000) for _ in range(100))
        self.assertEqual(len(shown), MAX_RAW_BYTES)

    @given(st.sampled_from([*STREAMS]), st.lists(st.integers(1, 400), max_size=8))
    def test_however_it_is_cut(self, style: str, cuts: list[int]) -> None:
        """The same comes out, however the network cuts the bytes; also of the bytes as shown."""
        data = STREAMS[style]
        reader = AnswerReader(style, 200, True)
        text = raw = ""
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
            text += reader.feed(data[begin:end])
            raw += reader.raw(data[begin:end])
        self.assertEqual((text, reader.end()), ("Grüße", ("", Verdict(WHOLE))))
        self.assertEqual(raw, data.decode())

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "content", "type", "error", "message", "output"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )

    @given(st.sampled_from([*STYLES]), json_values, st.booleans(), st.sampled_from([200, 400]))
    def test_any_json(self, style: str, value: Any, is_stream: bool, status: int) -> None:
        """Nothing that is JSON breaks the reader."""
        data = events(value) if is_stream else json.dumps(value).encode()
        text, verdict = read(style, data, status, is_stream)
        self.assertIn(verdict.outcome, (WHOLE, CUT, REFUSED))
        self.assertIsInstance(text, str)

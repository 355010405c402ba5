"""What a request will likely come to, told from its bytes."""

import base64
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.expected_tokens import (
    MAX_FOUND,
    SEARCHED_BYTES,
    STEP_BYTES,
    expected_tokens,
    most_output_tokens,
)
from omnigate.dialects.meter import TOKENS_PER_MEDIA_PART

NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def body_of(*, behind: dict[str, Any] | None = None, **members: Any) -> bytes:
    """A body, with members before and behind its messages."""
    messages = members.pop("messages", [{"role": "user", "content": "hi"}])
    return json.dumps({"model": "m", **members, "messages": messages, **(behind or {})}).encode()


def picture(size: int, seed: int = 1) -> str:
    """So many bytes of a picture."""
    return base64.b64encode(bytes((n * seed * 7919) % 251 for n in range(size))).decode()


class OutputTests(SynchronousTestCase):
    """The longest answer that a request asks for."""

    def test_where_it_stands(self) -> None:
        """Before or behind the messages, in whatever spacing, however long they are."""
        for name in NAMES:
            for size in (10, 3 * SEARCHED_BYTES):
                messages = [{"role": "user", "content": "text " * size}]
                for members in ({name: 512}, {"behind": {name: 512}}):
                    body = body_of(messages=messages, **members)
                    self.assertEqual(most_output_tokens(body), 512, name)
                    close = body.replace(b": ", b":").replace(b":512", b" \n:\t512")
                    self.assertEqual(most_output_tokens(close), 512, name)

    def test_what_is_none(self) -> None:
        """Nothing, other values, other names, and what a text says of it."""
        self.assertEqual(most_output_tokens(body_of()), 0)
        values: tuple[Any, ...] = (None, "512", [], -1, True)
        for value in values:
            self.assertEqual(most_output_tokens(body_of(max_tokens=value)), 0, value)
        self.assertEqual(most_output_tokens(body_of(max_tokens_x=5, max_results=9)), 0)
        said = [{"role": "user", "content": '{"max_tokens": 512} and \\"max_tokens": 512'}]
        self.assertEqual(most_output_tokens(body_of(messages=said)), 0)
        self.assertEqual(most_output_tokens(b""), 0)

    def test_bounds(self) -> None:
        """A body full of such names is not read to its end, and no figure has ten digits."""
        many = [{"max_results": 1}] * MAX_FOUND
        self.assertEqual(most_output_tokens(body_of(tools=many, max_tokens=512)), 0)
        self.assertEqual(most_output_tokens(body_of(tools=many[1:], max_tokens=512)), 512)
        self.assertLess(most_output_tokens(body_of(max_tokens=10**30)), 10**9)

    @given(
        st.recursive(
            st.one_of(st.text(max_size=20), st.integers(), st.booleans()),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        st.integers(0, 10**9 - 1),
        st.sampled_from(NAMES),
        st.booleans(),
    )
    @settings(max_examples=200, deadline=None)
    def test_any_body(self, content: Any, most: int, name: str, behind: bool) -> None:
        """Whatever else stands in a body, the figure is found."""
        stated = {name: most}
        body = body_of(messages=content, **({"behind": stated} if behind else stated))
        self.assertEqual(most_output_tokens(body), most)
        self.assertEqual(expected_tokens(body), len(body) // 4 + most)


class InputTests(SynchronousTestCase):
    """The request itself."""

    def test_pictures(self) -> None:
        """Those in base64 count as the meter counts them, in whatever protocol."""
        size = 3 * STEP_BYTES
        for count in (1, 2, 3):
            parts = [
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{picture(size, n)}"},
                }
                for n in range(1, count + 1)
            ]
            parts += [{"type": "text", "text": 'what is "this"? ' * 1000}]
            bare = expected_tokens(body_of(messages=[{"content": parts[count:]}]))
            told = expected_tokens(body_of(messages=[{"content": parts}]))
            more = told - bare
            self.assertTrue(0 <= more - TOKENS_PER_MEDIA_PART * count < 30 * count, more)
        source = {"type": "base64", "media_type": "image/png", "data": picture(size)}
        told = expected_tokens(body_of(messages=[{"content": [{"source": source}]}]))
        self.assertTrue(0 <= told - TOKENS_PER_MEDIA_PART < 40, told)

    def test_prose_is_no_picture(self) -> None:
        """However long it is."""
        for text in ("some words, and so on. " * 5000, "日本語" * 9000, "x\\n" * 20_000):
            body = body_of(messages=[{"role": "user", "content": text}])
            self.assertEqual(expected_tokens(body), len(body) // 4)

    @given(st.lists(st.integers(0, 5 * STEP_BYTES), max_size=6))
    @settings(max_examples=60, deadline=None)
    def test_pictures_of_all_sizes(self, sizes: list[int]) -> None:
        """From twice the step on they are found; none is ever counted above its bytes."""
        parts = [{"data": picture(size)} for size in sizes]
        body = body_of(messages=parts)
        found = sum(1 for part in parts if len(part["data"]) >= 2 * STEP_BYTES)
        most = len(body) // 4 + 1
        large = sum(len(part["data"]) for part in parts if len(part["data"]) >= 2 * STEP_BYTES)
        self.assertLessEqual(
            expected_tokens(body), most - large // 4 + found * TOKENS_PER_MEDIA_PART
        )
        self.assertGreaterEqual(expected_tokens(body), min(most - 1, len(body) // 100))

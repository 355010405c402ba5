"""What the fake model says and counts."""

import base64
import struct

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_reply import WORDS, compose, count_input, cut_text, embeddings
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import chat, messages, post


class ComposeTests(SynchronousTestCase):
    """compose."""

    def test_words_are_counted(self) -> None:
        """One token a word, and the same words each time."""
        reply = compose(chat("fake-words-5"), scenario_of("fake-words-5"))
        self.assertEqual(reply.text, " ".join(WORDS[:5]))
        self.assertEqual((reply.usage.output, reply.finish), (5, "stop"))

    def test_the_clients_cap_cuts(self) -> None:
        """Whatever the protocol calls the cap, it ends the answer with length."""
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            reply = compose(post("/v1/x", model="m", **{name: 2}), scenario_of("fake-small"))
            self.assertEqual((len(reply.pieces), reply.finish), (2, "length"))

    def test_input_is_split_into_its_kinds(self) -> None:
        """Cached and written tokens come on top, or out of a given total."""
        name = "fake-cached-8-cache-write-3"
        usage = compose(chat(name), scenario_of(name)).usage
        self.assertEqual((usage.input, usage.cached, usage.cache_write), (6, 8, 3))
        name += "-input-10"
        usage = compose(chat(name), scenario_of(name)).usage
        self.assertEqual((usage.input, usage.cached, usage.cache_write), (0, 8, 2))
        self.assertEqual(usage.prompt, 10)

    def test_offered_tools_are_called_until_a_result_comes(self) -> None:
        """The names are the request's; after a result the model speaks."""
        scenario = scenario_of("fake-tools-2")
        tools = [{"type": "function", "function": {"name": "look"}}, {"name": "listen"}]
        reply = compose(chat("fake-tools-2", tools=tools), scenario)
        self.assertEqual([call.name for call in reply.calls], ["look", "listen"])
        self.assertEqual(reply.finish, "tool_calls")
        for turn in (
            {"role": "tool", "content": "3"},
            {"role": "user", "content": [{"type": "tool_result", "content": "3"}]},
            {"type": "function_call_output", "output": "3"},
        ):
            request = post("/v1/x", model="fake-tools-2", messages=[turn])
            self.assertEqual(compose(request, scenario).finish, "stop")

    def test_the_credential_can_be_echoed(self) -> None:
        """The first word is the key, for tests that it never gets out."""
        request = post("/v1/x", model="m", headers={"x-api-key": "sk-ant-1"})
        self.assertTrue(compose(request, scenario_of("fake-echo-key")).text.startswith("sk-ant-1 "))


class CountTests(SynchronousTestCase):
    """count_input, embeddings and cut_text."""

    def test_four_bytes_are_a_token(self) -> None:
        """All text of the prompt counts, wherever it stands; never less than one token."""
        self.assertEqual(count_input(post("/v1/x", input=["abcd", "e"])), 2)
        self.assertEqual(count_input(messages("m", system=[{"type": "text", "text": "abcd"}])), 8)
        self.assertEqual(count_input(post("/v1/x")), 1)

    def test_embeddings(self) -> None:
        """One vector an input; base64 holds the same numbers."""
        plain = embeddings(post("/v1/embeddings", input=["a", "b"], dimensions=3))
        packed = embeddings(
            post("/v1/embeddings", input=["a", "b"], dimensions=3, encoding_format="base64")
        )
        self.assertEqual(len(plain), 2)
        for vector, text in zip(plain, packed, strict=True):
            assert isinstance(text, str)
            self.assertEqual(vector, list(struct.unpack("<3f", base64.b64decode(text))))
        self.assertEqual(len(embeddings(post("/v1/embeddings", input=[1, 2, 3]))), 1)

    def test_cut_text_loses_nothing(self) -> None:
        """The pieces together are the text."""
        for text in ("", "a", "abcdefgh"):
            self.assertEqual("".join(cut_text(text, 3)), text)

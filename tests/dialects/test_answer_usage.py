"""The figures of an answer as its client is shown them."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.answer_usage import answer_usage, chat_usage, messages_usage
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import AnswerUsage
from omnigate.dialects.usage import Usage, read_usage

COUNTS = st.integers(0, 10**6)
USAGES = st.builds(AnswerUsage, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | COUNTS)


def metered(kind: str, usage: bytes) -> Meter:
    """Return a meter that has seen a usage object."""
    meter = Meter(kind, stream=True)
    read = read_usage(usage)
    assert isinstance(read, Usage)
    meter.merge_closing(read)
    return meter


class UsageTests(SynchronousTestCase):
    """Figures in two protocols, and back."""

    @settings(max_examples=200)
    @given(USAGES)
    def test_read_back(self, usage: AnswerUsage) -> None:
        """What a client is told means to a meter of its protocol what was metered."""
        for kind, told in (("chat", chat_usage(usage)), ("messages", messages_usage(usage))):
            self.assertEqual(answer_usage(metered(kind, told)), usage, kind)

    def test_chat(self) -> None:
        """The prompt holds all input; its details are there even if they are nothing."""
        told = json.loads(chat_usage(AnswerUsage(5, 3, 2, 7)))
        self.assertEqual(
            told,
            {
                "prompt_tokens": 10,
                "completion_tokens": 7,
                "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
            },
        )

    def test_messages(self) -> None:
        """The input is the uncached; the share that was thought is told where it is known."""
        told = json.loads(messages_usage(AnswerUsage(5, 3, 2, 7, 4)))
        self.assertEqual(
            told,
            {
                "input_tokens": 5,
                "output_tokens": 7,
                "cache_creation_input_tokens": 2,
                "cache_read_input_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 4},
            },
        )

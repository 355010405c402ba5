"""Why an answer ended, in each protocol's words."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.shapes import Stop
from omnigate.dialects.stops import CHAT_WORDS, MESSAGES_WORDS, chat_stop, messages_stop


class ChatStopTests(SynchronousTestCase):
    """A finish_reason."""

    def test_words(self) -> None:
        """OpenAI's own words mean what they say, whatever else the answer has."""
        for reason, stop in (
            ("length", Stop.LENGTH),
            ("tool_calls", Stop.TOOLS),
            ("function_call", Stop.TOOLS),
            ("content_filter", Stop.REFUSAL),
        ):
            for calls in (False, True):
                for refused in (False, True):
                    self.assertIs(chat_stop(reason, calls, refused), stop)

    def test_words_of_others(self) -> None:
        """Compatible servers write other protocols' words, in any case."""
        for reason, stop in (
            ("max_tokens", Stop.LENGTH),
            ("MAX_TOKENS", Stop.LENGTH),
            ("tool_use", Stop.TOOLS),
            ("refusal", Stop.REFUSAL),
            ("SAFETY", Stop.REFUSAL),
        ):
            self.assertIs(chat_stop(reason, False, False), stop)

    def test_end(self) -> None:
        """A forced call and a refusal end with ``stop``; a word that nobody knows is like it."""
        for reason in ("stop", "eos", "STOP"):
            self.assertIs(chat_stop(reason, False, False), Stop.END)
            self.assertIs(chat_stop(reason, True, False), Stop.TOOLS)
            self.assertIs(chat_stop(reason, False, True), Stop.REFUSAL)

    def test_failures(self) -> None:
        """A reason that tells of a failure is no stop."""
        for reason in ("error", "abort", "insufficient_system_resource"):
            self.assertIsNone(chat_stop(reason, False, False))


class MessagesStopTests(SynchronousTestCase):
    """A stop_reason."""

    def test_words(self) -> None:
        """Anthropic's words mean what they say, whatever else the answer has."""
        for reason, stop in (
            ("end_turn", Stop.END),
            ("stop_sequence", Stop.END),
            ("pause_turn", Stop.END),
            ("max_tokens", Stop.LENGTH),
            ("model_context_window_exceeded", Stop.LENGTH),
            ("tool_use", Stop.TOOLS),
            ("refusal", Stop.REFUSAL),
        ):
            self.assertIs(messages_stop(reason, False), stop)
            self.assertIs(messages_stop(reason, True), stop)

    def test_unknown(self) -> None:
        """None, and a word that nobody knows, is an end, with calls or without."""
        for reason in (None, "", "later"):
            self.assertIs(messages_stop(reason, False), Stop.END)
            self.assertIs(messages_stop(reason, True), Stop.TOOLS)


class WordTests(SynchronousTestCase):
    """What clients are told."""

    def test_every_stop_has_a_word(self) -> None:
        """Each is told, in a word that reads back as the same."""
        for stop in Stop:
            self.assertIs(chat_stop(CHAT_WORDS[stop], False, False), stop)
            self.assertIs(messages_stop(MESSAGES_WORDS[stop], False), stop)

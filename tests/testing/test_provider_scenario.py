"""Model names read as scenarios."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_scenario import (
    LARGE_WORDS,
    MAX_WORDS,
    PLAIN,
    Scenario,
    UnknownScenarioError,
    scenario_of,
    scenario_table,
)

NAMES = {
    "gpt-4o-mini": PLAIN,
    "fake-small": PLAIN,
    "fake-large": Scenario(words=LARGE_WORDS),
    "fake-slow-first-byte-500": Scenario(first_byte_ms=500),
    "fake-slow-first-event-40": Scenario(first_event_ms=40),
    "fake-paced-20": Scenario(gap_ms=20),
    "fake-cut-after-3": Scenario(stop_after=3, ending="fin"),
    "fake-reset-after-3": Scenario(stop_after=3, ending="rst"),
    "fake-429-retry-after-7": Scenario(status=429, retry_after=7),
    "fake-529": Scenario(status=529),
    "fake-500-times-2": Scenario(status=500, times=2),
    "fake-bad-chunk": Scenario(stop_after=1, ending="bad_chunk"),
    "fake-bad-chunk-after-4": Scenario(stop_after=4, ending="bad_chunk"),
    "fake-both-lengths": Scenario(framing="both_lengths"),
    "fake-no-usage": Scenario(usage="none"),
    "fake-tools": Scenario(tools=1),
    "fake-tools-3": Scenario(tools=3),
    "fake-loop": Scenario(strict=True, loop=True),
    "fake-strict-too-long": Scenario(strict=True, status=400, error_form="too_long"),
    "fake-html": Scenario(body_form="html"),
    "fake-error-event": Scenario(stop_after=0, ending="error_event"),
    "fake-error-event-after-2": Scenario(stop_after=2, ending="error_event"),
    "fake-empty-stream": Scenario(body_form="empty"),
    "fake-paced-20-words-40-cached-8-crlf": Scenario(
        gap_ms=20, words=40, cached_tokens=8, crlf=True
    ),
}


class ScenarioTests(SynchronousTestCase):
    """scenario_of."""

    def test_names(self) -> None:
        """Every phrase sets its fields, alone and with others."""
        for name, scenario in NAMES.items():
            self.assertEqual(scenario_of(name), scenario, name)

    def test_unknown_phrases_are_refused(self) -> None:
        """A phrase that is unknown, cut short or lacks its number is no scenario."""
        for name in ("fake-nonsense", "fake-paced", "fake-smaller", "fake-paced-x", "fake-600"):
            with self.assertRaises(UnknownScenarioError, msg=name):
                scenario_of(name)

    def test_numbers_are_bounded(self) -> None:
        """A model name cannot make the provider hold more than its bound."""
        self.assertEqual(scenario_of("fake-words-9999999999").words, MAX_WORDS)

    def test_every_phrase_of_the_table_is_read(self) -> None:
        """What --list shows can be asked for."""
        for phrase, meaning in scenario_table()[1:]:
            scenario_of("fake-" + phrase.replace("#", "5"))
            self.assertTrue(meaning)

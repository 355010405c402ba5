"""Every refusal that can be counted has words."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.refusal_words import WORDS, words_of
from omnigate.control.reports import OTHER_CODE
from omnigate.errors import CLIENT_GONE, ERRORS


class WordsTests(SynchronousTestCase):
    """One sentence and a remedy each."""

    def test_every_code_has_words(self) -> None:
        """A code that is new in the table needs words, and there are none for what is no code."""
        self.assertEqual(set(WORDS), {*ERRORS, CLIENT_GONE, OTHER_CODE})

    def test_they_are_sentences(self) -> None:
        """Each begins with a capital letter, ends with a full stop and fits a line or two."""
        for code, words in WORDS.items():
            for sentence in (words.meaning, words.remedy):
                self.assertRegex(sentence, r"\A[A-Z][^\n!]{10,150}\.\Z", code)

    def test_a_code_of_another_version(self) -> None:
        """It is told as what is not known."""
        self.assertIs(words_of("of_tomorrow"), WORDS[OTHER_CODE])

"""What is taken out of a config's text before it is kept."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.redaction import redacted
from omnigate.text import REDACTED
from tests.control.plane import APP_SHA, CONFIG

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = st.one_of(
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.tuples(
        st.sampled_from(["sk-", "sk-ant-api03-", "AIza", "xai-", "gsk_", "hf_", "ogk_", "oga_"]),
        st.text(LETTERS, min_size=24, max_size=60),
    ).map("".join),
)


class RedactionTests(SynchronousTestCase):
    def test_config(self) -> None:
        """The hash of a key is taken out, and all else stays as it is."""
        self.assertEqual(redacted(CONFIG), CONFIG.replace(APP_SHA, REDACTED))

    def test_words_of_people(self) -> None:
        """Passwords in addresses and behind their names go; names of variables stay."""
        for text, kept in (
            (
                'proxy = "http://joe:secret@10.0.0.1:3128"',
                f'proxy = "http://{REDACTED}@10.0.0.1:3128"',
            ),
            ("# password: hunter22", f"# password: {REDACTED}"),
            ('# api_key = "abcdef"', f'# api_key = "{REDACTED}"'),
            ("# Authorization: Bearer abcdef.ghi", f"# Authorization: Bearer {REDACTED}"),
            ("# export MISTRAL_API_KEY=AbCd0123", f"# export MISTRAL_API_KEY={REDACTED}"),
            ("# DB_PASSWORD='a b', pwd=abcdef", f"# DB_PASSWORD='{REDACTED}', pwd={REDACTED}"),
            ("# x-api-key: abcdef", f"# x-api-key: {REDACTED}"),
            ('# client_secret = "it is long"', f'# client_secret = "{REDACTED}"'),
            ("# Authorization: Basic dXNlcjpw", f"# Authorization: Basic {REDACTED}"),
            ("# the token:\n[[upstreams]]", "# the token:\n[[upstreams]]"),
            ("# the secret: none", "# the secret: none"),
            ('api_key_env = "OPENAI_API_KEY"', 'api_key_env = "OPENAI_API_KEY"'),
            ("model = 'gpt-4o-mini' # task-specific", "model = 'gpt-4o-mini' # task-specific"),
            ("default_max_tokens = 123456", "default_max_tokens = 123456"),
        ):
            self.assertEqual(redacted(text), kept)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.text("abc \n=#\"'", max_size=40), min_size=1, max_size=8),
        SECRETS,
        st.sampled_from(['"', "'", " ", "\n", "= ", ","]),
    )
    def test_wherever_it_stands(self, around: list[str], secret: str, between: str) -> None:
        """A secret is taken out wherever it stands, and the lines keep their numbers."""
        text = (between + secret + between).join(["", *around])
        kept = redacted(text)
        self.assertNotIn(secret[-20:], kept)
        self.assertEqual(kept.count("\n"), text.count("\n"))

    def test_long_texts(self) -> None:
        """A text of megabytes is searched in pieces, none of which holds the others up."""
        secret = "sk-" + "a" * 40
        text = ("x" * 1000 + "\n") * 500 + secret + "\n" + "y" * 100_000
        self.assertEqual(redacted(text), text.replace(secret, REDACTED))
        began = time.process_time()
        for hostile in (
            "sk-" * 200_000,
            "://" * 200_000,
            "a" * 600_000,
            "token=" * 100_000,
            'token="' * 100_000,
            "_key" * 150_000,
            "token " * 100_000,
            "authorization: a" * 40_000,
        ):
            redacted(hostile)
        self.assertLess(time.process_time() - began, 5)

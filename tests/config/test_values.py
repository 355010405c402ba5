"""Tests for the checks of single values."""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Callable
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import values
from omnigate.config.values import BadValueError
from tests.ledger.zones import write_zone

Check = Callable[[object], object]


class CheckTests(SynchronousTestCase):
    """Each check lets its own through and says what is wrong with the rest."""

    def assert_passes(self, check: Check, *good: object) -> None:
        for value in good:
            self.assertEqual(check(value), value)

    def assert_refused(self, check: Check, *bad: object) -> None:
        for value in bad:
            try:
                check(value)
            except BadValueError:
                continue
            self.fail(f"{value!r} was let through")

    def test_names(self) -> None:
        self.assert_passes(values.name, "a", "team-1.app_x", "A" * 64)
        self.assert_refused(
            values.name, "", "-a", "a b", "é", "a\n", "a/b", "A" * 65, 3, None, ["a"]
        )

    def test_model_ids(self) -> None:
        self.assert_passes(values.model_id, "gpt-4o", "meta/llama-3:free", "@cf/x", "a" * 256)
        self.assert_refused(values.model_id, "", "a b", "a*", 'a"', "a%2f", "/a", "a" * 257, 1)

    def test_model_patterns(self) -> None:
        self.assert_passes(values.model_pattern, "fast", "claude-*", "*")
        self.assert_refused(values.model_pattern, "", "a*b", "**", "*a", " *", 1)

    def test_upstream_models_may_be_any_printable_text(self) -> None:
        self.assert_passes(values.upstream_model, "Qwen 3 (Q4).gguf", "модель", "a*")
        self.assert_refused(values.upstream_model, "", "a\nb", "a" * 257, True)

    def test_hashes_are_lowered(self) -> None:
        self.assertEqual(values.sha256_hex("AB" * 32), "ab" * 32)
        self.assert_refused(values.sha256_hex, "ab" * 31, "g" * 64, "ab" * 32 + "\n", 0)

    def test_integers(self) -> None:
        self.assert_passes(values.whole(0, 9), 0, 9)
        self.assert_refused(values.whole(0, 9), -1, 10, True, Decimal(1), 1.0, "1")

    def test_dollars_are_exact(self) -> None:
        check = values.usd(Decimal(100))
        self.assertEqual(check(0.1), Decimal("0.1"))
        self.assertEqual(check(Decimal("0.1500000000")), Decimal("0.15"))
        self.assert_passes(check, 0, 100, Decimal("0.000000001"))
        self.assert_refused(
            check,
            -1,
            101,
            True,
            "1",
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            Decimal("1e-10"),
            Decimal("1e-99999"),
            Decimal("1e99999"),
            float("nan"),
        )

    def test_base_urls(self) -> None:
        self.assert_passes(
            values.base_url,
            "https://api.openai.com/v1",
            "http://127.0.0.1:8000/v1",
            "http://localhost/openai/v1",
            "https://[::1]:8443/v1",
            "https://host_name.example:1/a/b-c/v1",
        )
        self.assert_refused(
            values.base_url,
            "",
            "api.openai.com/v1",
            "ftp://a/v1",
            "https:///v1",
            "https://a",
            "https://a/",
            "https://a/v1/",
            "https://a/v2",
            "https://a/xv1",
            "https://a//v1",
            "https://a/../v1",
            "https://a/%2e/v1",
            "https://a/v1?x=/v1",
            "https://a/v1#/v1",
            "https://u:p@a/v1",
            "https://a:0/v1",
            "https://a:65536/v1",
            "https://a:x/v1",
            "https://a\n/v1",
            "https://a /v1",
            "https://a..b/v1",
            "https://-a/v1",
            "https://1.2.3/v1",
            "https://1.2.3.256/v1",
            "https://[::1/v1",
            "https://[x]/v1",
            "https://[fe80::1%25eth0]/v1",
            "https://münchen.example/v1",
            "https://a/" + "b" * 600 + "/v1",
            7,
        )

    def test_a_base_url_without_v1_is_told_what_was_meant(self) -> None:
        for url in ("https://api.anthropic.com", "https://api.anthropic.com/"):
            with self.assertRaises(BadValueError) as caught:
                values.base_url(url)
            self.assertIn('"https://api.anthropic.com/v1"', str(caught.exception))

    def test_addresses_of_servers(self) -> None:
        """Paths are put behind them, so that they end without a slash; an origin has no path."""
        self.assert_passes(
            values.service_url,
            "https://api.example.com",
            "http://127.0.0.1:9000/gemini/v1",
            "https://[::1]:8443",
        )
        self.assertEqual(values.service_url("https://h.example/a/"), "https://h.example/a")
        self.assertEqual(values.origin_url("https://h.example:1/"), "https://h.example:1")
        for bad in ("h.example", "ftp://h", "https://h/a//b", "https://h/../b", "https://h/%2e"):
            self.assert_refused(values.service_url, bad)
            self.assert_refused(values.origin_url, bad)
        self.assert_refused(values.service_url, "https://h/?a", "https://u:p@h", "https://", 1)
        self.assert_refused(values.origin_url, "https://h/a", "https://h:1/a/")

    def test_proxies(self) -> None:
        self.assertEqual(values.proxy_url("http://proxy:3128/"), "http://proxy:3128")
        self.assert_refused(
            values.proxy_url, "https://proxy", "proxy:3128", "http://p/x", "http://u:p@proxy", 1
        )

    def test_no_message_repeats_a_secret(self) -> None:
        """A key or a password in the wrong place is not carried into a log by its own fault."""
        secret = "sk-very-secret"
        for check, value in (
            (values.env_name, secret),
            (values.sha256_hex, secret),
            (values.base_url, f"https://user:{secret}@host/v1"),
            (values.base_url, f"https://host/v1?key={secret}"),
            (values.proxy_url, f"http://user:{secret}@proxy:1"),
            (values.name, f"{secret} "),
            (values.header_token, f"{secret} "),
        ):
            with self.assertRaises(BadValueError) as caught:
                check(value)
            self.assertNotIn(secret, str(caught.exception))

    def test_time_zones(self) -> None:
        """A zone that this machine knows, or its name with what to do about it."""
        for name in ("UTC", "Europe/Stockholm", "America/Argentina/Buenos_Aires", "Etc/GMT+5"):
            self.assertEqual(values.time_zone(name), name)
        for name in ("Europe/Stokholm", "Europe", "localtime"):
            with self.assertRaises(BadValueError) as caught:
                values.time_zone(name)
            self.assertIn(f'"{name}"', str(caught.exception))
            self.assertIn("tzdata", str(caught.exception))
        for word in ("", "/etc/passwd", "../UTC", "Europe/\nx", "é", "x" * 65, 1, None):
            with self.assertRaises(BadValueError):
                values.time_zone(word)

    def test_a_time_zone_that_is_installed_meanwhile(self) -> None:
        """Whoever does what the message says has no need to restart anything."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        zoneinfo.reset_tzpath([folder])
        self.addCleanup(zoneinfo.reset_tzpath)
        with self.assertRaises(BadValueError):
            values.time_zone("Installed")
        write_zone(os.path.join(folder, "Installed"))
        self.assertEqual(values.time_zone("Installed"), "Installed")

    def test_an_amount_of_a_megabyte_of_digits(self) -> None:
        """It is judged at once; to make a decimal of it would take half a minute."""
        for amount in (1 << 4_000_000, -(1 << 4_000_000)):
            with self.assertRaises(BadValueError):
                values.budget(amount)

    def test_a_closed_list_suggests_the_nearest_word(self) -> None:
        with self.assertRaises(BadValueError) as caught:
            values.one_of("failover", "weighted")("weigthed")
        self.assertIn('did you mean "weighted"?', str(caught.exception))

    def test_quoted_words_stay_on_one_line(self) -> None:
        self.assertEqual(values.quoted('a"\n\x1b'), '"a???"')
        self.assertLess(len(values.quoted("x" * 500)), 90)

    @settings(max_examples=100, deadline=None)
    @given(st.text(max_size=60).map(lambda text: f"https://{text}/v1") | st.text(max_size=60))
    def test_any_text_is_judged(self, text: str) -> None:
        """Whatever the text, an address passes unchanged or raises BadValueError."""
        try:
            self.assertEqual(values.base_url(text), text)
        except BadValueError:
            pass

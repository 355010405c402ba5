"""Tests for the values of a key's limits."""

from __future__ import annotations

import datetime
import ipaddress
import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import key_values
from omnigate.config.values import BadValueError
from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.periods import END_MS, rfc3339


class ValueCase(SynchronousTestCase):
    """One check, and what it makes of values."""

    def assert_bad(self, check: object, value: object, part: str) -> None:
        """Assert that a value is refused, and how."""
        assert callable(check)
        with self.assertRaises(BadValueError) as caught:
            check(value)
        self.assertIn(part, str(caught.exception))


class NetworkTests(ValueCase):
    """Addresses and networks."""

    def test_each_has_one_spelling(self) -> None:
        for word, spelled in (
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8:0:0::/32", "2001:db8::/32"),
            ("2001:db8::1/128", "2001:db8::1"),
            ("::1", "::1"),
            ("::/0", "::/0"),
        ):
            self.assertEqual(key_values.network(word), spelled)
            self.assertEqual(key_values.network(spelled), spelled)

    def test_a_fault_names_the_network_that_was_meant(self) -> None:
        for word, part in (
            ("10.1.2.3/8", 'write "10.0.0.0/8", or "10.1.2.3" for the one address'),
            ("2001:db8::1/32", 'write "2001:db8::/32", or "2001:db8::1"'),
            ("::ffff:10.0.0.0/104", 'write IPv4 networks as such: "10.0.0.0/8"'),
            ("::ffff:10.1.2.3", 'write IPv4 networks as such: "10.1.2.3"'),
        ):
            self.assert_bad(key_values.network, word, part)

    def test_what_is_no_network(self) -> None:
        for word in (
            "",
            "localhost",
            "10.0.0.0/33",
            "10.0.0.0/255.0.0.0",
            "10.0.0/8",
            "010.0.0.1",
            "fe80::1%eth0",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/8/8",
            " 10.0.0.1",
            "10.0.0.1\n",
            "1" * 100_000,
        ):
            self.assert_bad(key_values.network, word, "is no address")
        for value in (7, None, True, ["10.0.0.1"], 10.5):
            self.assert_bad(key_values.network, value, "must be a string")

    @settings(max_examples=200, deadline=None)
    @given(st.ip_addresses(), st.integers(0, 128))
    def test_any_network(self, address: object, prefix: int) -> None:
        """A network is kept as it is, or refused with a spelling that is taken."""
        word = f"{address}/{prefix}"
        try:
            kept = key_values.network(word)
        except BadValueError as fault:
            meant = [part for part in str(fault).split('"')[3::2] if part]
            for spelled in meant:
                self.assertEqual(key_values.network(spelled), spelled)
            self.assertTrue(meant or prefix > 32)
        else:
            self.assertEqual(ipaddress.ip_network(kept), ipaddress.ip_network(word))

    @settings(max_examples=200, deadline=None)
    @given(st.text("0123456789abcdef:./% ", max_size=50) | st.text(max_size=20))
    def test_any_text(self, word: str) -> None:
        """What is kept is kept again; nothing but a fault comes of the rest."""
        try:
            kept = key_values.network(word)
        except BadValueError:
            return
        self.assertEqual(key_values.network(kept), kept)


class EndpointKindTests(ValueCase):
    """Names of endpoints."""

    def test_they_are_those_of_the_public_port(self) -> None:
        kinds = {endpoint.kind for endpoint in ENDPOINTS.values()}
        self.assertEqual({*key_values.ENDPOINT_KINDS}, {*kinds, "models", "jobs"})
        for kind in key_values.ENDPOINT_KINDS:
            self.assertEqual(key_values.endpoint_kind(kind), kind)

    def test_others_are_refused(self) -> None:
        self.assert_bad(key_values.endpoint_kind, "chats", 'did you mean "chat"?')
        self.assert_bad(key_values.endpoint_kind, "CHAT", "is none of")
        self.assert_bad(key_values.endpoint_kind, None, "must be a string")


class InstantTests(ValueCase):
    """Dates and times."""

    def test_each_has_one_spelling(self) -> None:
        for word, spelled in (
            ("2027-01-31T00:00:00Z", "2027-01-31T00:00:00.000Z"),
            ("2027-01-31 00:00:00z", "2027-01-31T00:00:00.000Z"),
            ("2027-01-31t01:30:00+01:30", "2027-01-31T00:00:00.000Z"),
            ("2027-01-30T19:00:00.123456789-05:00", "2027-01-31T00:00:00.123Z"),
            ("2024-02-29T23:59:59.9+00:00", "2024-02-29T23:59:59.900Z"),
            ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.001Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ):
            self.assertEqual(key_values.instant(word), spelled)

    def test_the_file_may_hold_it_without_quotes(self) -> None:
        found = tomllib.loads("at = 2027-01-31T01:00:00.25+01:00")["at"]
        self.assertEqual(key_values.instant(found), "2027-01-31T00:00:00.250Z")
        for text, part in (
            ("2027-01-31T01:00:00", "lacks its offset"),
            ("2027-01-31", "must be a date and time with its offset"),
            ("01:00:00", "must be a date and time with its offset"),
            ("7", "must be a date and time with its offset"),
        ):
            self.assert_bad(key_values.instant, tomllib.loads(f"at = {text}")["at"], part)

    def test_what_is_no_instant(self) -> None:
        for word, part in (
            ("", "with its offset"),
            ("2027-01-31", "with its offset"),
            ("2027-01-31T00:00:00", "with its offset"),
            ("2027-01-31T00:00Z", "with its offset"),
            ("2027-01-31T00:00:00.Z", "with its offset"),
            ("2027-01-31T00:00:00.1234567890Z", "with its offset"),
            ("20270131T000000Z", "with its offset"),
            ("٢٠27-01-31T00:00:00Z", "with its offset"),
            ("2027-01-31T00:00:00Z\n", "with its offset"),
            ("2027-02-29T00:00:00Z", "that there is"),
            ("2027-01-31T24:00:00Z", "that there is"),
            ("2027-01-31T00:00:00+14:60", "with its offset"),
            ("2027-01-31T00:00:60Z", "that there is"),
            ("2027-01-31T00:00:00+24:00", "that there is"),
            ("0000-01-01T00:00:00Z", "that there is"),
            ("0001-01-01T00:00:00+23:59", "after 1970"),
            ("1970-01-01T00:00:00Z", "after 1970"),
            ("9999-12-31T23:59:59-00:01", "before the year 10000"),
        ):
            self.assert_bad(key_values.instant_ms, word, part)
        values: tuple[object, ...] = (None, True, 1_800_000_000, 1.5, [], {})
        for value in values:
            self.assert_bad(key_values.instant_ms, value, "must be a date and time")

    @settings(max_examples=200, deadline=None)
    @given(st.integers(1, END_MS - 1), st.integers(-1439, 1439))
    def test_any_instant(self, ms: int, offset: int) -> None:
        """It is the same instant, wherever the clock hung that it was read from."""
        self.assertEqual(key_values.instant_ms(rfc3339(ms)), ms)
        zone = datetime.timezone(datetime.timedelta(minutes=offset))
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        moment = epoch + datetime.timedelta(milliseconds=ms)
        try:
            there = moment.astimezone(zone)
        except OverflowError:  # its calendar ends with the year 9999
            return
        self.assertEqual(key_values.instant_ms(there.isoformat()), ms)
        self.assertEqual(key_values.instant_ms(there), ms)

    @settings(max_examples=200, deadline=None)
    @given(st.text("0123456789-:.TZ+ ", max_size=45))
    def test_any_text(self, word: str) -> None:
        try:
            kept = key_values.instant(word)
        except BadValueError:
            return
        self.assertEqual(key_values.instant(kept), kept)

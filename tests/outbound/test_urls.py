"""URLs: the golden cases, redirects, and text that nobody would write by accident."""

import ipaddress
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.urls import MAX_URL_BYTES, UrlError, origin_of, parse_url, redirected
from tests.outbound.test_addresses import CASES, packed

#: What URLs are made of, and what is put into them to deceive.
PIECE_WORDS = """
    https:// http:// / // \\ @ : [ ] . % # ? a b.c 127.0.0.1 2130706433 0x7f 017 ::1 1 443 65536
    localhost xn--a _ - %2f ftp: file: javascript: é ①
"""
PIECES = st.sampled_from([*PIECE_WORDS.split(), *"\t\n "])


def why(text: str) -> str:
    """Say why a URL is not used; empty where it is."""
    try:
        parse_url(text)
    except UrlError as error:
        return str(error)
    return ""


class UrlTests(SynchronousTestCase):
    def test_golden_cases(self) -> None:
        """Text, host and addresses together allow what they must, and no more."""
        guard = AddressGuard()
        for case in CASES["urls"]:
            try:
                url = parse_url(case["url"])
            except UrlError:
                allowed = False
            else:
                numbers = (
                    [url.packed] if url.packed else [*map(packed, case["dns"].get(url.host, ()))]
                )
                allowed = bool(numbers) and all(map(guard.allowed, numbers))
            self.assertEqual(allowed, case["allowed"], case)

    def test_parts(self) -> None:
        """What a request needs of it."""
        url = parse_url("HTTPS://CDN.Example.com.:8443/a//b;c?d=[e]&f#g")
        self.assertEqual((url.scheme, url.host, url.port), ("https", "cdn.example.com", 8443))
        self.assertEqual(url.target, "/a//b;c?d=[e]&f")
        self.assertEqual(url.authority, "cdn.example.com:8443")
        self.assertEqual(str(url), "https://cdn.example.com:8443/a//b;c?d=[e]&f")
        self.assertEqual(parse_url("http://a?b").target, "/?b")

    def test_origins(self) -> None:
        """All ways to write an origin are one."""
        for text in ("https://a.example", "https://A.example.:443/x", "HTTPS://a.example#y"):
            self.assertEqual(origin_of(text), "https://a.example")
        self.assertEqual(origin_of("http://[2606:4700:0:0::1]:80/"), "http://[2606:4700::1]")
        self.assertEqual(origin_of("http://a.example:443"), "http://a.example:443")
        self.assertEqual(origin_of("ftp://a.example"), "")
        self.assertEqual(origin_of(""), "")

    def test_reasons(self) -> None:
        """Each fault is told in words that say what to mend, and repeat nothing."""
        for text, words in (
            ("", "empty"),
            ("a/b", "no scheme"),
            ("https:a", "no host"),
            ("https://" + "a" * MAX_URL_BYTES, "longer than 2048 bytes"),
            ("mailto:a@b", "neither https nor http"),
            ("https://me:secret@a/", "user part"),
            ("https://a:/", "port"),
            ("https://a:080/", "port"),
            ("https://a:+1/", "port"),
            ("https://a:1:2/", "cannot be read"),
            ("https://[::1", "cannot be read"),
            ("https://[::1]x/", "cannot be read"),
            ("https://[1.2.3.4]/", "no IPv6 address"),
            ("https://[fe80::1%eth0]/", "zone"),
            ("https://a%2eb/", "no name"),
            ("https://" + ".".join(["a" * 63] * 4) + "/", "no name"),
            ("https://" + "a" * 64 + "/", "no name"),
            ("https://a.0X7F/", "number"),
            ("https://1.2.3/", "number"),
            ("https://1.2.3.256/", "number"),
            ("https://1.2.3.04/", "number"),
            ("https://1.2.3.4.5/", "number"),
        ):
            self.assertIn(words, why(text), text)
            self.assertNotIn("secret", why(text))
        self.assertEqual(why("https://" + ".".join(["a" * 62] * 4) + "/"), "")

    @given(st.lists(PIECES, min_size=1, max_size=8).map("".join))
    def test_no_other_reader_differs(self, text: str) -> None:
        """What passes is read by the standard library in the same way, written anew or not."""
        try:
            url = parse_url(text)
        except UrlError:
            return
        parts = urlsplit(text)
        host = (parts.hostname or "").removesuffix(".")
        if ":" in host:
            host = str(ipaddress.IPv6Address(host))
        self.assertEqual(host, str(ipaddress.ip_address(url.host)) if url.packed else url.host)
        self.assertEqual(parts.port or (443 if url.secure else 80), url.port)
        self.assertIsNone(parts.username)
        self.assertEqual(parse_url(str(url)), url)


class RedirectTests(SynchronousTestCase):
    base = parse_url("https://a.example:8443/b/c?d")

    def test_resolved_against_the_url_that_gave_it(self) -> None:
        """Every form of reference leads where it leads in browsers."""
        for location, target in (
            ("https://x.example/y", "https://x.example/y"),
            ("//x.example/y", "https://x.example/y"),
            ("/y?z", "https://a.example:8443/y?z"),
            ("y", "https://a.example:8443/b/y"),
            ("../../../y", "https://a.example:8443/y"),
            ("?z", "https://a.example:8443/b/c?z"),
            ("http://[::1]/", "http://[::1]/"),
        ):
            self.assertEqual(str(redirected(self.base, location)), target)

    def test_checked_whole(self) -> None:
        """A target is held to what every URL is held to."""
        for location in (
            "",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "//me@x.example/",
            "/a b",
            "/a\r\nb",
            "\\\\x.example\\y",
            "//2130706433/",
            "//x.example:0/",
            "//[::1/",
            "/é",
            "/" + "a" * MAX_URL_BYTES,
        ):
            self.assertRaises(UrlError, redirected, self.base, location)

    @given(st.lists(PIECES, max_size=6).map("".join))
    def test_nothing_but_urls_comes_of_it(self, location: str) -> None:
        """Whatever a server says, it is a URL that passes by itself, or refused."""
        try:
            url = redirected(self.base, location)
        except UrlError:
            return
        self.assertEqual(parse_url(str(url)), url)

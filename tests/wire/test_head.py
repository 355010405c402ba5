"""Tests of omnigate.wire.head."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.head import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    HeadError,
    ResponseHeadError,
    find_head_end,
    head_too_long,
    parse_request_head,
    parse_response_head,
)
from tests.corpus import head_attacks

CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\n"
    b"Host: gateway.example.net:8080\r\n"
    b"Authorization: Bearer ogk_abc \r\n"
    b"Content-Type: application/json\r\n"
    b"X-Empty:\r\n"
    b"X-Text: caf\xc3\xa9\tau lait\r\n"
    b"CONTENT-LENGTH: 12\r\n"
    b"\r\n"
)


class FindTests(SynchronousTestCase):
    """Finding the end of a head."""

    def test_three_ways(self) -> None:
        """The end is found at once, or when the last byte comes, and not sooner."""
        buffer = CHAT + b'{"a":"\n\n"}\r\n\r\n'
        for size in range(len(buffer) + 1):
            want = len(CHAT) if size >= len(CHAT) else -1
            self.assertEqual(find_head_end(buffer[:size]), want)
            if size:
                self.assertEqual(find_head_end(buffer[:size], min(size - 1, len(CHAT) - 1)), want)

    def test_bare_line_feeds_end_a_head_too(self) -> None:
        """A head without CRs is found, so that it is refused at once."""
        self.assertEqual(find_head_end(b"GET / HTTP/1.1\nHost: a\n\nx"), 24)
        self.assertEqual(find_head_end(b"GET / HTTP/1.1\r\nHost: a\n\r\nx"), 26)


class RequestTests(SynchronousTestCase):
    """Request heads."""

    def test_plain(self) -> None:
        """A request of an SDK is read with lower-case names and bare values."""
        head = parse_request_head(CHAT)
        self.assertEqual((head.method, head.target), (b"POST", b"/v1/chat/completions"))
        self.assertEqual(
            head.headers,
            {
                b"host": b"gateway.example.net:8080",
                b"authorization": b"Bearer ogk_abc",
                b"content-type": b"application/json",
                b"x-empty": b"",
                b"x-text": b"caf\xc3\xa9\tau lait",
            },
        )
        self.assertEqual(
            (head.content_length, head.keep_alive, head.expect_continue), (12, True, False)
        )
        self.assertFalse(head.http10)

    def test_attacks_are_refused(self) -> None:
        """Every hostile head of the corpus is refused with its status."""
        for name, (block, status) in head_attacks.HEADS.items():
            with self.subTest(name):
                error = self.assertRaises(HeadError, parse_request_head, block)
                self.assertEqual(error.status, status, name)
                self.assertTrue(error.message.isascii() and error.message.endswith("."))

    def test_refused_twice_the_same(self) -> None:
        """A line once judged good does not make another pass; refusals repeat."""
        for _ in range(3):
            parse_request_head(CHAT)
            for block, status in head_attacks.HEADS.values():
                error = self.assertRaises(HeadError, parse_request_head, block)
                self.assertEqual(error.status, status)

    def test_codes(self) -> None:
        """Each status has its code."""
        for name, code in (
            ("no_length", "length_required"),
            ("chunked", "length_required"),
            ("expect_other", "expectation_failed"),
            ("absolute_target", "invalid_path"),
            ("target_not_ascii", "invalid_path"),
            ("two_lengths", "invalid_request"),
        ):
            error = self.assertRaises(HeadError, parse_request_head, head_attacks.HEADS[name][0])
            self.assertEqual(error.code, code, name)

    def test_hosts(self) -> None:
        """A name or an address, with or without a port, or nothing; else 400 (RFC 9112, 3.2)."""
        head = b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n"
        for host in (
            b"",
            b"a",
            b"gateway.example.net",
            b"gateway.example.net:",
            b"gateway.example.net:65535",
            b"my_service:8080",
            b"a%2Db",
            b"127.0.0.1:80",
            b"[::1]",
            b"[fe80::1%25eth0]:8080",
            b"a" * 255 + b":80",
        ):
            self.assertEqual(parse_request_head(head % host).headers[b"host"], host)
        parse_request_head(b"GET / HTTP/1.0\r\n\r\n")
        for host in (
            b"a:b",
            b"a:1:2",
            b"::1",
            b"[::1",
            b"::1]",
            b"[::1]x",
            b"a[::1]",
            b"[]",
            b"a,b",
            b"a:123456",
            b"http://a",
            b'"a"',
            b"a" * 256,
        ):
            error = self.assertRaises(HeadError, parse_request_head, head % host)
            self.assertEqual((error.status, error.code), (400, "invalid_request"), host)

    def test_too_long(self) -> None:
        """A head that is too long is 400; where its target is what makes it so, 414."""
        for line, status in (
            (b"GET /", 414),
            (b"POST /v1/messages?", 414),
            (b"GET / HTTP/1.1\r\nX: ", 400),
            (b"", 400),
        ):
            cut = line + b"a" * MAX_HEAD_BYTES
            self.assertEqual(head_too_long(cut).status, status, line)
            if line:
                end = b"\r\n\r\n" if b"HTTP" in line else b" HTTP/1.1\r\nHost: a\r\n\r\n"
                error = self.assertRaises(HeadError, parse_request_head, cut + end)
                self.assertEqual(error.status, status, line)

    def test_bodies(self) -> None:
        """A length of 0 is borne where no body may be; it is no body."""
        for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"POST"):
            head = parse_request_head(
                method + b" / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            )
            self.assertEqual(head.content_length, 0)
        bare = parse_request_head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(bare.content_length, 0)

    def test_a_cancel_needs_no_length(self) -> None:
        """``curl -X POST`` sends none where there is no body; the body of all else has one."""
        head = b"POST %b HTTP/1.1\r\nHost: a\r\n\r\n"
        self.assertEqual(parse_request_head(head % b"/v1/jobs/job_01/cancel").content_length, 0)
        for other in (b"/v1/jobs", b"/v1/jobs/job_01", b"/v1/jobs/cancel", b"/v1/x/y/cancel"):
            error = self.assertRaises(HeadError, parse_request_head, head % other)
            self.assertEqual(error.code, "length_required")

    def test_keep_alive(self) -> None:
        """HTTP/1.1 stays open unless told, HTTP/1.0 closes unless told."""
        for version, connection, keep in (
            (b"1.1", b"", True),
            (b"1.1", b"Connection: close\r\n", False),
            (b"1.1", b"Connection: Keep-Alive, Close\r\n", False),
            (b"1.1", b"Connection: keep-alive\r\n", True),
            (b"1.1", b"Connection: Upgrade\r\nConnection: close\r\n", False),
            (b"1.1", b"Connection: Upgrade, HTTP2-Settings\r\n", True),
            (b"1.1", b"Connection:\r\n", True),
            (b"1.0", b"", False),
            (b"1.0", b"Connection: keep-alive\r\n", True),
            (b"1.0", b"Connection: Keep-Alive\r\n", True),
            (b"1.0", b"Connection: keep-alive, close\r\n", False),
        ):
            block = b"GET / HTTP/%b\r\nHost: a\r\n%b\r\n" % (version, connection)
            self.assertEqual(parse_request_head(block).keep_alive, keep, block)

    def test_expect(self) -> None:
        """100-continue is wanted only where a body follows and the client can read it."""
        line = b"Host: a\r\nExpect: 100-Continue\r\n"
        for first, length, wanted in (
            (b"POST / HTTP/1.1\r\n", b"Content-Length: 1\r\n", True),
            (b"POST / HTTP/1.1\r\n", b"Content-Length: 0\r\n", False),
            (b"GET / HTTP/1.1\r\n", b"", False),
            (b"POST / HTTP/1.0\r\n", b"Content-Length: 1\r\n", False),
        ):
            head = parse_request_head(first + line + length + b"\r\n")
            self.assertEqual(head.expect_continue, wanted)
        empty = b"POST / HTTP/1.1\r\nHost: a\r\nExpect:\r\nContent-Length: 1\r\n\r\n"
        self.assertFalse(parse_request_head(empty).expect_continue)

    def test_betas(self) -> None:
        """Lists of betas pass, also with blanks behind the commas; repeated lines join."""
        first = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
        for lines, value in (
            (b"anthropic-beta: a-1,b-2\r\n", b"a-1,b-2"),
            (b"anthropic-beta: a-1, b-2\r\n", b"a-1, b-2"),
            (b"anthropic-beta: a-1\r\nAnthropic-Beta: b-2\r\n", b"a-1, b-2"),
            (b"anthropic-beta:\r\n", b""),
        ):
            head = parse_request_head(first + lines + b"anthropic-version: 2026-10-21\r\n\r\n")
            self.assertEqual(head.headers[b"anthropic-beta"], value)

    def test_many_made_up_lines(self) -> None:
        """Lines that differ in every request are read like any other, and none is mixed up."""
        for number in range(3000):
            block = b"GET / HTTP/1.1\r\nHost: h%d\r\nUser-Agent: a/%d\r\n\r\n" % (number, number)
            head = parse_request_head(block)
            self.assertEqual(
                head.headers, {b"host": b"h%d" % number, b"user-agent": b"a/%d" % number}
            )

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_one_byte_changed(self, data: st.DataObject) -> None:
        """A head with any byte changed is read or refused, never anything else."""
        place = data.draw(st.integers(0, len(CHAT) - 1))
        byte = data.draw(st.binary(max_size=2))
        block = CHAT[:place] + byte + CHAT[place + 1 :]
        try:
            head = parse_request_head(block)
        except HeadError as error:
            self.assertIn(error.status, (400, 411, 417, 505))
        else:
            for value in head.headers.values():
                self.assertFalse(set(value) & set(b"\r\n\0"))

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=200))
    def test_anything(self, junk: bytes) -> None:
        """Any bytes are read or refused, by both readers."""
        for block in (junk, junk + b"\r\n\r\n", b"GET / HTTP/1.1\r\n" + junk + b"\r\n\r\n"):
            try:
                parse_request_head(block)
            except HeadError:
                pass
        for block in (junk, b"HTTP/1.1 200 OK\r\n" + junk + b"\r\n\r\n"):
            try:
                parse_response_head(block)
            except ResponseHeadError:
                pass


class ResponseTests(SynchronousTestCase):
    """Answers' heads and their framing."""

    def test_plain(self) -> None:
        """An answer's head is read; empty values and a missing reason pass."""
        head = parse_response_head(
            b"HTTP/1.1 200\r\nServer: llama.cpp\r\nAccess-Control-Allow-Origin:\r\n"
            b"Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 5\r\n\r\n"
        )
        self.assertEqual(head.status, 200)
        self.assertEqual(head.headers, {b"content-length": b"5"})
        self.assertEqual((head.framing, head.content_length), ("length", 5))
        self.assertTrue(head.keep_alive)

    def test_acted_on(self) -> None:
        """Of an answer's headers those are read that are acted on, however they are written."""
        names = (
            b"content-type",
            b"content-encoding",
            b"connection",
            b"request-id",
            b"x-request-id",
            b"retry-after",
            b"retry-after-ms",
            b"x-should-retry",
            b"etag",
        )
        for spelled in (bytes.lower, bytes.upper, bytes.title):
            for before, behind in ((b"", b""), (b" ", b""), (b"\t ", b" \t")):
                lines = [
                    b"%b:%bV %d%b\r\n" % (spelled(name), before, number, behind)
                    for number, name in enumerate(names)
                ]
                # Near them, and none of them.
                lines += [b"x-%b: 1\r\n" % spelled(name) for name in names[:3]]
                lines += [b"%bs: 1\r\n" % spelled(name) for name in names]
                lines += [b"s-%b: 1\r\n" % spelled(name) for name in names]
                block = b"HTTP/1.1 200 content-type: x\r\n%b\r\n" % b"".join(lines)
                head = parse_response_head(block)
                self.assertEqual(
                    {name: b"V %d" % number for number, name in enumerate(names)}, head.headers
                )
                self.assertEqual(block, head.block)

    def test_repeated(self) -> None:
        """A header that is given twice is the list of its values (RFC 9110, 5.3)."""
        head = parse_response_head(
            b"HTTP/1.1 200 OK\r\nConnection: a\r\ncontent-length: 0\r\nCONNECTION: close\r\n\r\n"
        )
        self.assertEqual({b"connection": b"a, close", b"content-length": b"0"}, head.headers)
        self.assertFalse(head.keep_alive)

    def test_many_lines(self) -> None:
        """So many lines are read and no more, be they as short as can be."""
        for line in (b"a:\r\n", b"a-longer-name: and a value that is longer, too\r\n"):
            first = b"HTTP/1.1 200\r\n"
            parse_response_head(b"%b%b\r\n" % (first, line * MAX_HEAD_LINES))
            for many in (MAX_HEAD_LINES + 1, 2 * MAX_HEAD_LINES):
                block = b"%b%b\r\n" % (first, line * many)
                self.assertRaises(ResponseHeadError, parse_response_head, block)

    def test_framing(self) -> None:
        """Length, chunks or the connection's end; none where no body can be."""
        for first, lines, method, framing, length, keep in (
            (b"1.1 200 OK", b"Content-Length: 0", b"POST", "length", 0, True),
            (b"1.1 200 OK", b"Content-Length: 5\r\ncontent-length: 5", b"POST", "length", 5, True),
            (b"1.1 200 OK", b"Content-Length: 5, 5", b"POST", "length", 5, True),
            (b"1.1 200 OK", b"Transfer-Encoding: Chunked", b"POST", "chunked", 0, True),
            (b"1.1 200 OK", b"X: y", b"POST", "close", 0, False),
            (b"1.1 200 OK", b"Connection: close\r\nContent-Length: 1", b"POST", "length", 1, False),
            (b"1.0 200 OK", b"Content-Length: 5", b"POST", "length", 5, False),
            (
                b"1.0 200 OK",
                b"Connection: keep-alive\r\nContent-Length: 5",
                b"POST",
                "length",
                5,
                True,
            ),
            (b"1.1 204 No Content", b"X: y", b"POST", "none", 0, True),
            (b"1.1 204 No Content", b"Content-Length: 5", b"POST", "none", 0, False),
            (b"1.1 204 No Content", b"Transfer-Encoding: chunked", b"POST", "none", 0, False),
            (b"1.1 304 Not Modified", b"Content-Length: 5", b"GET", "none", 0, True),
            (b"1.1 100 Continue", b"X: y", b"POST", "none", 0, True),
            (b"1.1 103 Early Hints", b"Link: a", b"POST", "none", 0, True),
            (b"1.1 200 OK", b"Content-Length: 5", b"HEAD", "none", 0, True),
            (b"1.1 200 OK", b"Transfer-Encoding: chunked", b"HEAD", "none", 0, True),
            (b"1.1 529 ", b"Content-Length: 5", b"POST", "length", 5, True),
        ):
            block = b"HTTP/" + first + b"\r\n" + lines + b"\r\n\r\n"
            head = parse_response_head(block, method)
            self.assertEqual(
                (head.framing, head.content_length, head.keep_alive), (framing, length, keep), block
            )

    def test_attacks_are_refused(self) -> None:
        """Doubt about the framing is an error with every status and method."""
        for name, lines in head_attacks.ANSWERS.items():
            for first in (b"200 OK", b"500 Oh", b"204 No Content", b"304 Not Modified"):
                with self.subTest(name):
                    block = b"HTTP/1.1 " + first + b"\r\n" + lines + b"\r\n"
                    self.assertRaises(ResponseHeadError, parse_response_head, block)
                    self.assertRaises(ResponseHeadError, parse_response_head, block, b"HEAD")

    def test_status_lines_refused(self) -> None:
        """What is no status line of HTTP/1 is an error, and so is an unasked switch."""
        for first in (
            b"",
            b"hello",
            b"HTTP/2 200",
            b"HTTP/1.1 20 OK",
            b"HTTP/1.1 2000 OK",
            b"HTTP/1.1 099 OK",
            b"HTTP/1.1 600 OK",
            b"HTTP/1.1  200 OK",
            b"HTTP/1.1 +20 OK",
            b"HTTP/1.1 200 O\x00K",
            b"ICY 200 OK",
            b"HTTP/1.1 101 Switching Protocols",
        ):
            block = first + b"\r\nContent-Length: 0\r\n\r\n"
            self.assertRaises(ResponseHeadError, parse_response_head, block)
        chunked_in_old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.assertRaises(ResponseHeadError, parse_response_head, chunked_in_old)

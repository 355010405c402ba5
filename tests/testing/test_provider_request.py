"""Requests as the fake provider reads them."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_request import BadRequestError, RequestReader, SeenRequest

BODY = b'{"model":"fake-small","stream":true,"stream_options":{"include_usage":true}}'
WHOLE = (
    b"POST /prefix/v1/chat/completions?beta=true HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer sk-1\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: %d\r\n\r\n"
) % len(BODY) + BODY


def read(data: bytes) -> SeenRequest | None:
    """The first request in some bytes."""
    reader = RequestReader(1)
    reader.feed(data)
    return reader.next_request(7)


class RequestReaderTests(SynchronousTestCase):
    """RequestReader."""

    def check(self, request: SeenRequest | None) -> None:
        """The facts of the request above."""
        assert request is not None
        self.assertEqual((request.number, request.connection, request.ordinal), (7, 1, 1))
        self.assertEqual((request.method, request.endpoint), ("POST", "/chat/completions"))
        self.assertEqual((request.query, request.body), ("beta=true", BODY))
        self.assertEqual(request.headers["x-twice"], "a, b")
        self.assertEqual((request.model, request.credential), ("fake-small", "sk-1"))
        self.assertTrue(request.stream and request.include_usage)
        self.assertFalse(request.anthropic or request.wants_close)

    def test_whole(self) -> None:
        """A request in one read."""
        self.check(read(WHOLE))

    def test_byte_by_byte(self) -> None:
        """A request in reads of one byte each is not there before its last."""
        reader = RequestReader(1)
        for place in range(len(WHOLE) - 1):
            reader.feed(WHOLE[place : place + 1])
            self.assertIsNone(reader.next_request(7))
        reader.feed(WHOLE[-1:])
        self.check(reader.next_request(7))

    def test_trailing_bytes_are_the_next_request(self) -> None:
        """What stands behind a request belongs to the next one."""
        reader = RequestReader(1)
        reader.feed(WHOLE + WHOLE + b"GE")
        self.check(reader.next_request(7))
        second = reader.next_request(8)
        assert second is not None
        self.assertEqual(second.ordinal, 2)
        self.assertIsNone(reader.next_request(9))

    def test_doubtful_requests_are_refused(self) -> None:
        """Framing that large providers refuse is refused here too."""
        post = b"POST /v1/messages HTTP/1.1\r\n"
        cases = {
            b"GET  / HTTP/1.1\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n": 400,
            post + b"\r\n": 411,
            post + b"transfer-encoding: chunked\r\n\r\n": 411,
            post + b"transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n": 400,
            post + b"content-length: 1\r\ncontent-length: 1\r\n\r\n": 400,
            post + b"content-length: +1\r\n\r\n": 400,
            post + b"content-length: 999999999\r\n\r\n": 413,
            b"x" * 70_000: 431,
        }
        for data, status in cases.items():
            with self.assertRaises(BadRequestError, msg=data[:80]) as caught:
                read(data)
            self.assertEqual(caught.exception.status, status, data[:80])

    def test_protocol_and_credential(self) -> None:
        """Path or version header make it Anthropic; both credential headers are read."""
        head = b"GET /v1/models HTTP/1.0\r\nanthropic-version: 2026-10-21\r\nx-api-key: k\r\n\r\n"
        request = read(head)
        assert request is not None
        self.assertTrue(request.anthropic and request.wants_close)
        self.assertEqual(request.credential, "k")

    def test_a_body_that_is_no_object_has_no_fields(self) -> None:
        """Junk as a body is kept, but names no model."""
        request = read(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]")
        assert request is not None
        self.assertEqual((request.fields, request.model, request.body), ({}, "", b"[]"))

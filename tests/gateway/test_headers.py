"""Which headers cross, and in what form."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.headers import answer_lines, id_lines, request_lines
from omnigate.wire.head import RequestHead, ResponseHead, parse_response_head

SECRET = b"sk-upstream-credential-42"
ID = b"0123456789abcdef"


def request_head(**headers: bytes) -> RequestHead:
    """A head with these headers; underscores are hyphens."""
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return RequestHead(b"POST", b"/v1/x", False, named, 2, True, False)


def answer_head(**headers: bytes) -> ResponseHead:
    """The same of an answer, as it is read."""
    named = ((name.replace("_", "-").encode(), value) for name, value in headers.items())
    lines = b"".join(b"%b: %b\r\n" % pair for pair in named)
    return parse_response_head(b"HTTP/1.1 200 OK\r\n%b\r\n" % lines)


def pairs(lines: bytes) -> list[tuple[bytes, bytes]]:
    """Header lines taken apart."""
    assert lines == b"" or lines.endswith(b"\r\n")
    return [
        (name, value)
        for name, _, value in (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])
    ]


class RequestTests(SynchronousTestCase):
    def test_allowed(self) -> None:
        """Of a client's headers only those cross that the protocol needs."""
        head = request_head(
            authorization=b"Bearer k",
            x_api_key=b"k",
            cookie=b"c",
            user_agent=b"u",
            accept_encoding=b"gzip",
            x_forwarded_for=b"1",
            host=b"gateway",
            openai_beta=b"assistants=v2",
            openai_organization=b"o",
            anthropic_version=b"2023-06-01",
            anthropic_beta=b"a,b",
        )
        self.assertEqual(
            [(b"openai-beta", b"assistants=v2")],
            pairs(request_lines(head, "openai", None, frozenset())),
        )
        self.assertEqual(
            [(b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"a,b")],
            pairs(request_lines(head, "anthropic", None, frozenset())),
        )

    def test_nothing(self) -> None:
        """A client that sent none of them has none sent for it."""
        for protocol in ("openai", "anthropic"):
            self.assertEqual(b"", request_lines(request_head(), protocol, None, frozenset()))

    def test_version(self) -> None:
        """The upstream's version is sent where the client sent none."""
        for sent, wanted in ((None, b"2026-10-21"), (b"2023-06-01", b"2023-06-01")):
            head = request_head(anthropic_version=sent) if sent else request_head()
            self.assertEqual(
                [(b"anthropic-version", wanted)],
                pairs(request_lines(head, "anthropic", "2026-10-21", frozenset())),
            )

    def test_dropped_betas(self) -> None:
        """Named betas are taken out; without any left the header goes."""
        cases = (
            (b"a", b""),
            (b"a,b", b"b"),
            (b"b, a", b"b"),
            (b"b, a, c", b"b, c"),
            (b"a, a", b""),
            (b"ab", b"ab"),
        )
        for sent, left in cases:
            lines = request_lines(
                request_head(anthropic_beta=sent), "anthropic", None, frozenset({b"a"})
            )
            wanted = [(b"anthropic-beta", left)] if left else []
            self.assertEqual(wanted, pairs(lines), sent)


class AnswerTests(SynchronousTestCase):
    def test_allowed(self) -> None:
        """Of a provider's headers only hints, counters and ids cross."""
        head = answer_head(
            content_type=b"application/json; charset=utf-8",
            content_length=b"2",
            connection=b"close",
            server=b"s",
            set_cookie=b"c",
            location=b"l",
            x_foo=b"f",
            openai_organization=b"o",
            retry_after=b"7",
            retry_after_ms=b"7000",
            x_should_retry=b"false",
            x_ratelimit_remaining_requests=b"9",
            anthropic_ratelimit_tokens_limit=b"8",
            x_request_id=b"r1",
            request_id=b"r2",
        )
        self.assertEqual(
            [
                (b"content-type", b"application/json; charset=utf-8"),
                (b"x-request-id", b"r1"),
                (b"request-id", b"r2"),
                (b"retry-after", b"7"),
                (b"retry-after-ms", b"7000"),
                (b"x-should-retry", b"false"),
                (b"x-ratelimit-remaining-requests", b"9"),
                (b"anthropic-ratelimit-tokens-limit", b"8"),
                (b"x-omnigate-request-id", ID),
                (b"x-debug", b"d"),
            ],
            pairs(answer_lines(head, ID, b"x-debug: d\r\n", SECRET)),
        )

    def test_ids(self) -> None:
        """Each of the three names is there, with the provider's value where it sent one."""
        for sent in ({}, {"x_request_id": b""}, {"request_id": b"r2"}):
            given = dict(pairs(answer_lines(answer_head(**sent), ID, b"", SECRET)))
            self.assertEqual(ID, given[b"x-omnigate-request-id"])
            self.assertEqual(ID, given[b"x-request-id"])
            self.assertEqual(sent.get("request_id") or ID, given[b"request-id"])

    def test_content_type(self) -> None:
        """JSON is what an answer without a type is, and what an error is whatever it was called."""
        for head, as_json in ((answer_head(), False), (answer_head(content_type=b"text/x"), True)):
            given = dict(pairs(answer_lines(head, ID, b"", SECRET, as_json=as_json)))
            self.assertEqual(b"application/json", given[b"content-type"])

    def test_credential(self) -> None:
        """The credential is struck out of every header; the header stays."""
        for name in ("content_type", "x_request_id", "retry_after", "x_ratelimit_reset"):
            head = answer_head(**{name: b"a" + SECRET + b"b"})
            lines = answer_lines(head, ID, b"", SECRET)
            self.assertNotIn(SECRET, lines)
            self.assertIn(name.replace("_", "-").encode() + b": a", lines)

    def test_as_they_stand(self) -> None:
        """Hints and counters cross as they were written, each of them; one without a value not."""
        names = (
            b"retry-after",
            b"retry-after-ms",
            b"x-should-retry",
            b"x-ratelimit-limit-tokens",
            b"anthropic-ratelimit-input-tokens-reset",
            b"x-ratelimit-",
        )
        for spelled in (bytes.lower, bytes.upper, bytes.title):
            for form in (b"%b: %d", b"%b:%d", b"%b: \t%d \t"):
                sent = [form % (spelled(name), number) for number, name in enumerate(names)]
                empty = [b"%b:" % spelled(name) for name in names] + [b"%b: \t" % names[0]]
                near = [b"x-%b: 1" % spelled(name) for name in names]
                lines = b"\r\n".join((*sent, *empty, *sent, *near))
                head = parse_response_head(b"HTTP/1.1 200 retry-after: 1\r\n%b\r\n\r\n" % lines)
                got = answer_lines(head, ID, b"", SECRET).split(b"\r\n")
                self.assertEqual([*sent, *sent], got[3:-2])

    def test_credential_like_a_name(self) -> None:
        """A credential that is part of a header's name strikes nothing out of names."""
        head = answer_head(x_ratelimit_reset_tokens=b"a ratelimit-reset-tokens b")
        given = pairs(answer_lines(head, ID, b"", b"ratelimit-reset-tokens"))
        self.assertIn((b"x-ratelimit-reset-tokens", b"a [redacted] b"), given)

    def test_no_credential(self) -> None:
        """An upstream without a credential has nothing struck out."""
        head = answer_head(x_request_id=b"r")
        self.assertIn(b"x-request-id: r\r\n", answer_lines(head, ID, b"", b""))

    def test_own_ids(self) -> None:
        """Answers of our own carry the id under all three names."""
        self.assertEqual(
            [(b"x-omnigate-request-id", ID), (b"x-request-id", ID), (b"request-id", ID)],
            pairs(id_lines(ID)),
        )

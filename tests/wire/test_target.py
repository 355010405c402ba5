"""Tests of omnigate.wire.target."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.target import Target, TargetError, parse_target


class TargetTests(SynchronousTestCase):
    """One spelling of each path."""

    def test_plain(self) -> None:
        """Plain paths and queries pass as they are."""
        for target, path, query in (
            (b"/", "/", b""),
            (b"/healthz", "/healthz", b""),
            (b"/v1/chat/completions", "/v1/chat/completions", b""),
            (b"/v1/messages?beta=true", "/v1/messages", b"beta=true"),
            (b"/v1/models", "/v1/models", b""),
            (b"/v1/models?limit=1000&after_id=a_b-c", "/v1/models", b"limit=1000&after_id=a_b-c"),
            (b"/v1/jobs/job_1/cancel", "/v1/jobs/job_1/cancel", b""),
            (b"/v1/files/job_1/0?exp=1&sig=ab-_", "/v1/files/job_1/0", b"exp=1&sig=ab-_"),
            (b"/v1/embeddings?api-version=2024-10-21", "/v1/embeddings", b"api-version=2024-10-21"),
            (b"/v1/responses?", "/v1/responses", b""),
        ):
            self.assertEqual(parse_target(target), Target(path, query, None))

    def test_model_ids(self) -> None:
        """A model id is decoded once and may hold slashes and blanks."""
        for target, model in (
            (b"/v1/models/gpt-4o", "gpt-4o"),
            (b"/v1/models/org/name", "org/name"),
            (b"/v1/models/org%2Fmodel%20name:free", "org/model name:free"),
            (b"/v1/models/a%2fb", "a/b"),
            (b"/v1/models/a%2541", "a%41"),
            (b"/v1/models/claude-3.5@20240620", "claude-3.5@20240620"),
        ):
            self.assertEqual(parse_target(target), Target("/v1/models/" + model, b"", model))

    def test_refused(self) -> None:
        """Every other spelling is 400 invalid_path."""
        for target in (
            b"",
            b"v1/messages",
            b"*",
            b"http://example.net/v1/messages",
            b"/v1/messages/",
            b"/v1//messages",
            b"/v1/./messages",
            b"/v1/../messages",
            b"/..",
            b"/v1/messages/..",
            b"/v1/%6dessages",
            b"/v1/messages%3Fbeta=true",
            b"/v1/messages%00",
            b"/v1/mess\\ages",
            b"/v1/messages;x",
            b"/v1/messages#top",
            b"/v1/messages?a=%41",
            b'/v1/messages?a="b"',
            b"/v1/messages?a=<b>",
            b"/v1/messages?a#b",
            b"/v1/messages?a=\xff",
            b"/v1/m\xc3\xa9ssages",
            b"/v1/models/",
            b"/v1/models/a%",
            b"/v1/models/a%2",
            b"/v1/models/a%zz",
            b"/v1/models/a%00",
            b"/v1/models/a%0a",
            b"/v1/models/a%C3%A9",
            b"/v1/models/%2e%2e",
            b"/v1/models/..%2fx",
            b"/v1/models/a%2f%2fb",
            b"/v1/models/a/",
            b"/v1/models/" + b"a" * 257,
        ):
            with self.subTest(target):
                self.assertEqual(
                    self.assertRaises(TargetError, parse_target, target).code, "invalid_path"
                )

    def test_too_long(self) -> None:
        """A target longer than any that is read is 414, and the longest is read (RFC 9112, 3)."""
        for path, query in ((b"/" + b"a" * 1023, b"b" * 2048), (b"/v1/messages", b"b" * 2048)):
            self.assertEqual(parse_target(path + b"?" + query).query, query)
        for target in (
            b"/" + b"a" * 1024,
            b"/" + b"%41" * 1024,
            b"/v1/models/" + b"a" * 1014,
            b"/v1/messages?" + b"b" * 2049,
            b"/v1/messages?" + b'"' * 2049,
        ):
            error = self.assertRaises(TargetError, parse_target, target)
            self.assertEqual((error.code, error.status), ("invalid_path", 414))

    def test_nearly_right(self) -> None:
        """A doubled start or a missing /v1 is a 404 that names the right path."""
        for target, right in (
            (b"//v1/messages", "/v1/messages"),
            (b"//v1/messages?beta=true", "/v1/messages"),
            (b"/v1/v1/messages", "/v1/messages"),
            (b"/chat/completions", "/v1/chat/completions"),
            (b"//chat/completions", "/v1/chat/completions"),
            (b"/messages/count_tokens", "/v1/messages/count_tokens"),
            (b"/models/gpt-4o", "/v1/models/gpt-4o"),
        ):
            error = self.assertRaises(TargetError, parse_target, target)
            self.assertEqual(error.code, "not_found")
            self.assertIn(f"did you mean {right}?", error.message)

    @settings(max_examples=200, deadline=None)
    @given(st.one_of(st.binary(max_size=60), st.text("/v1.models%2e?=#\\ ").map(str.encode)))
    def test_anything(self, target: bytes) -> None:
        """Any bytes are read or refused, never anything else; a path read has one spelling."""
        try:
            read = parse_target(b"/" + target)
        except TargetError:
            return
        path = (b"/" + target).partition(b"?")[0]
        if read.model_id is None:
            self.assertEqual(read.path.encode(), path)
        self.assertNotIn("//", read.path)
        self.assertNotIn("/../", read.path + "/")

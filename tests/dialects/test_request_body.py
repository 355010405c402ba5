"""Bodies decoded to be translated."""

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.request_body import (
    ABSENT,
    MAX_PIECES,
    check_pieces,
    decode_request,
    is_given,
    malformed,
    member_text,
    missing,
)
from omnigate.errors import GatewayError


class Inner(msgspec.Struct):
    """A message, say."""

    content: str | list[str] | None = None


class Outer(msgspec.Struct):
    """A body."""

    messages: list[Inner] | None = None
    schema: msgspec.Raw = ABSENT


decode = msgspec.json.Decoder(Outer).decode


class DecodeTests(SynchronousTestCase):
    """A body that does not fit is refused with its place."""

    def test_whole(self) -> None:
        """A body that fits is decoded; null is absent, what is unknown is not looked at."""
        body = b'{"messages":[{"content":"a"},{"content":null}],"schema":null,"x":{"y":[1]}}'
        decoded = decode_request(decode, body)
        self.assertEqual(decoded.messages, [Inner("a"), Inner()])
        self.assertEqual(member_text(decoded.schema, "schema"), b"")
        self.assertEqual(member_text(decode_request(decode, b"{}").schema, "schema"), b"")

    def test_wrong_types(self) -> None:
        """The member of the wrong type is named."""
        for body, place in (
            (b'{"messages":1}', "messages"),
            (b'{"messages":[{"content":1}]}', "messages[0].content"),
            (b'{"messages":[{},{"content":["a",{}]}]}', "messages[1].content[1]"),
            (b'{"messages":["a"]}', "messages[0]"),
            (b"[]", None),
        ):
            error = self.assertRaises(GatewayError, decode_request, decode, body)
            self.assertEqual((error.kind.code, error.param), ("invalid_request", place))
            self.assertIn(place or "the body", error.message)
            self.assertNotIn("$", error.message)

    def test_types_in_words(self) -> None:
        """Types have the names of JSON, and what was there has the name of what it was."""
        for body, told in (
            (
                b'{"messages":1}',
                "messages has the wrong type: expected an array, got a whole number",
            ),
            (
                b'{"messages":[{"content":true}]}',
                "messages[0].content has the wrong type: expected a string or an array,"
                " got true or false",
            ),
            (b'"x"', "the body has the wrong type: expected an object, got a string"),
            (b"1.5", "the body has the wrong type: expected an object, got a number"),
            (b"null", "the body has the wrong type: expected an object, got null"),
        ):
            error = self.assertRaises(GatewayError, decode_request, decode, body)
            self.assertEqual(error.message, told)

    def test_no_json(self) -> None:
        """Half a surrogate pair, bad UTF-8, a huge depth and plain junk are no JSON."""
        for body in (
            b'{"messages":[{"content":"\\ud800"}]}',
            b'{"x":"\\ud800"}',
            b'{"messages":[{"content":"\xff"}]}',
            b'{"x":' + b"[" * 100_000,
            b'{"schema":' + b"[" * 100_000,
            b"",
            b"{",
            b"{} x",
        ):
            error = self.assertRaises(GatewayError, decode_request, decode, body)
            self.assertEqual((error.kind.code, error.param), ("invalid_json", None), body[:40])

    def test_raw(self) -> None:
        """An object stays as it was written; what is none is refused."""
        raw = decode_request(decode, b'{"schema":{ "a" : 1.0 }}').schema
        self.assertEqual(member_text(raw, "p"), b'{ "a" : 1.0 }')
        for other in (b"[]", b"1", b'"a"', b"true"):
            error = self.assertRaises(GatewayError, member_text, msgspec.Raw(other), "p")
            self.assertEqual((error.kind.code, error.param), ("invalid_request", "p"))
        for text, given in (
            (b"", 0),
            (b"null", 0),
            (b"{ \n}", 0),
            (b"[]", 1),
            (b"{}", 0),
            (b"0", 1),
        ):
            self.assertEqual(is_given(msgspec.Raw(text), b"{}"), bool(given), text)
        self.assertTrue(is_given(msgspec.Raw(b"{}")))
        self.assertEqual(missing("p").param, "p")

    def test_pieces(self) -> None:
        """A request of too many pieces is refused."""
        check_pieces(MAX_PIECES)
        error = self.assertRaises(GatewayError, check_pieces, MAX_PIECES + 1)
        self.assertEqual((error.kind.code, error.kind.status), ("request_too_complex", 400))

    def test_within(self) -> None:
        """A value that was kept raw is told by its place in the whole body."""
        error = self.assertRaises(
            GatewayError, decode_request, decode, b'{"messages":[{"content":1}]}', "input[3]"
        )
        self.assertEqual(error.param, "input[3].messages[0].content")
        error = self.assertRaises(GatewayError, decode_request, decode, b"1", "input[3]")
        self.assertEqual(error.param, "input[3]")
        self.assertEqual(malformed("p", "p is odd").param, "p")

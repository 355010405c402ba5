"""A head known again is what a full reading makes of it, for every head that may come second."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.head import HeadError, RequestHead, find_head_end, parse_request_head
from omnigate.wire.known_head import MAX_KEPT_BYTES, MAX_KEPT_LINES, KnownHead, keep_head
from omnigate.wire.target import Target, TargetError, parse_target
from tests.corpus import head_attacks

LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
HOST = b"Host: gateway\r\n"
LENGTH = b"Content-Length: 12\r\n"

#: Heads that pass; each is kept, and has its digits where ``12`` stands behind its length's name.
KEPT = {
    "last": LINE + HOST + LENGTH + b"\r\n",
    "first": LINE + LENGTH + HOST + b"\r\n",
    "in_the_middle": LINE + HOST + LENGTH + b"Accept: */*\r\n\r\n",
    "capitals": LINE + HOST + b"CONTENT-LENGTH: 12\r\nX-A: b\r\n\r\n",
    "no_blank": LINE + HOST + b"content-length:12\r\n\r\n",
    "blanks": LINE + HOST + b"content-length: \t 12 \t\r\nX-A: 12\r\n\r\n",
    "blanks_before_the_end": LINE + HOST + b"content-length:\t12  \r\n\r\n",
    "in_another_value": LINE + HOST + b"X-A: content-length: 12\r\n" + LENGTH + b"\r\n",
    "in_a_later_value": LINE + HOST + LENGTH + b"X-A: \tcontent-length: 12\r\n\r\n",
    "end_of_another_name": LINE + HOST + b"X-Content-Length: 12\r\n" + LENGTH + b"\r\n",
    "begin_of_another_name": LINE + HOST + b"Content-Length-X: 12\r\n" + LENGTH + b"\r\n",
    "in_the_target": b"POST /v1/x?content-length:12 HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n",
    "bytes_beyond_ascii": LINE + HOST + b"X-A: \xc3\x84\xff\r\n" + LENGTH + b"\r\n",
    "repeated_line": LINE + HOST + b"X-A: b\r\n" + LENGTH + b"x-a: c\r\n\r\n",
    "to_be_closed": LINE + HOST + LENGTH + b"Connection: close\r\n\r\n",
    "http10": b"POST /v1/messages HTTP/1.0\r\n" + LENGTH + b"\r\n",
    "two_credentials": LINE
    + HOST
    + b"Authorization: Bearer a\r\nX-Api-Key: b\r\n"
    + LENGTH
    + b"\r\n",
    "model_id": b"POST /v1/models/a%2Fb HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n",
}

#: Heads that pass and are not kept.
NOT_KEPT = {
    "no_body": b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n",
    "empty_body_of_a_get": b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n",
    "other_method": b"PUT /v1/models HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n",
    "expects": LINE + HOST + LENGTH + b"Expect: 100-continue\r\n\r\n",
    "expects_nothing": LINE + HOST + LENGTH + b"expect:\r\n\r\n",
    "eight_digits": LINE + HOST + b"Content-Length: 12345678\r\n\r\n",
    "fifteen_digits": LINE + HOST + b"Content-Length: 123456789012345\r\n\r\n",
    "long": LINE + HOST + b"X-A: " + b"b" * MAX_KEPT_BYTES + b"\r\n" + LENGTH + b"\r\n",
    "many_lines": LINE
    + HOST
    + b"".join(b"X-%d: b\r\n" % number for number in range(MAX_KEPT_LINES))
    + LENGTH
    + b"\r\n",
}

#: What may stand where the digits stood.
LENGTHS = (
    *(b"0", b"1", b"7", b"12", b"13", b"120", b"9999999", b"1000000"),
    *(b"", b"00", b"05", b"012", b"+5", b"-5", b"1_0", b"0x10", b"5.0", b"5e1", b"1 2", b"1\t2"),
    *(b"10000000", b"99999999", b"999999999999999", b"9999999999999999", b"9" * 3000),
    *(b"5 ", b" 5", b"5\t", b"5\x0b", b"\x0c5", b"5\x00", b"5,", b"5, 5", b"12, 12", b"5;"),
    *(b"5\r\nContent-Length: 5", b"5\r\ncontent-length: 6", b"5\r\nTransfer-Encoding: chunked"),
    *(b"5\r\nExpect: 100-continue", b"5\r\nX-A: b", b"5\r\n 6", b"5\r\n\t", b"5\r\n\r\n", b"5\n"),
    *(b"5\n\n", b"5\n\r\n", b"5\r", b"5\r\r", b"\r\n5", b"5\r\nHost: b", b"5\r\nConnection: close"),
    *("٥".encode(), "１".encode(), b"\xb2", b"a", b"twelve", b"5\x7f"),
)

#: What may follow a head in the same read.
BODIES = (b"", b"x" * 12, b"\r\n", b"\r\n\r\n", b"\n\n", b"5\r\n\r\n", KEPT["last"])

Reading = tuple[RequestHead, Target, int] | tuple[object, ...] | None


def read(buffer: bytes) -> Reading:
    """What a connection that keeps nothing makes of the front of a buffer."""
    end = find_head_end(buffer)
    if end < 0:
        return None
    try:
        head = parse_request_head(buffer[:end])
        return head, parse_target(head.target), end
    except HeadError as error:
        return error.status, error.code, error.message
    except TargetError as error:
        return error.status, error.code, error.message


def kept(block: bytes) -> KnownHead:
    """A head that passes and is kept."""
    head = parse_request_head(block)
    known = keep_head(block, head, parse_target(head.target))
    assert known is not None, block
    return known


class KnownHeadTests(SynchronousTestCase):
    def assert_same(self, known: KnownHead, buffer: bytes) -> bool:
        """Where a head is known again, a full reading says the same; tells whether it is."""
        head = known.again(buffer)
        if head is None:
            return False
        self.assertEqual(read(buffer), (head, known.target, known.end), buffer)
        return True

    def test_what_is_kept(self) -> None:
        """Heads with one plain length are, whatever else is in them; the others are not."""
        for name, block in KEPT.items():
            with self.subTest(name):
                self.assertTrue(self.assert_same(kept(block), block))
        for name, block in NOT_KEPT.items():
            with self.subTest(name):
                head = parse_request_head(block)
                self.assertIsNone(keep_head(block, head, parse_target(head.target)))

    def test_bounds_of_what_is_kept(self) -> None:
        """The longest head and the most lines are kept still."""
        room = MAX_KEPT_BYTES - len(KEPT["last"]) - len(b"X-A: \r\n")
        kept(LINE + HOST + b"X-A: " + b"b" * room + b"\r\n" + LENGTH + b"\r\n")
        lines = b"".join(b"X-%d: b\r\n" % number for number in range(MAX_KEPT_LINES - 1))
        kept(LINE + HOST + lines + LENGTH + b"\r\n")

    def test_any_length(self) -> None:
        """Up to seven plain digits are known again, in any order and whatever follows."""
        for name, block in KEPT.items():
            known = kept(block)
            at = block.lower().index(b"\r\ncontent-length:")
            place = block.index(b"12", at)
            for length in (b"0", b"1", b"12", b"1234567", b"9999999", b"12", b"10", b"0", b"0"):
                again = block[:place] + length + block[place + 2 :]
                for body in BODIES:
                    with self.subTest(name):
                        self.assertTrue(self.assert_same(known, again + body), again)

    def test_other_lengths(self) -> None:
        """Whatever stands where a length stood is known again only if it reads as one."""
        for block in KEPT.values():
            known = kept(block)
            at = block.lower().index(b"\r\ncontent-length:")
            place = block.index(b"12", at)
            for length in LENGTHS:
                for body in BODIES:
                    self.assert_same(known, block[:place] + length + block[place + 2 :] + body)

    def test_every_pair(self) -> None:
        """Whatever head comes second, good or hostile, is never taken for what it is not."""
        seconds = [
            *KEPT.values(),
            *NOT_KEPT.values(),
            *(block for block, _ in head_attacks.HEADS.values()),
        ]
        for first in KEPT.values():
            known = kept(first)
            for second in seconds:
                self.assert_same(known, second)
                self.assert_same(known, second + b"x" * 12)
                # What begins as the first did, and ends as the second.
                for size in range(0, len(first), 5):
                    self.assert_same(known, first[:size] + second[size:])
                    self.assert_same(known, first[:size] + second)

    def test_cut_anywhere(self) -> None:
        """What is not there whole is not known yet."""
        for block in KEPT.values():
            known = kept(block)
            for size in range(len(block)):
                self.assertIsNone(known.again(block[:size]))

    def test_one_byte_changed(self) -> None:
        """A head with any one byte changed, taken out or put in is read as it is."""
        for block in (KEPT["last"], KEPT["blanks"], KEPT["in_another_value"]):
            known = kept(block)
            for place in range(len(block)):
                for byte in (b"", b"0", b"5", b" ", b"\r", b"\n", b"\r\n", b":", b"c", b"\x00"):
                    self.assert_same(known, block[:place] + byte + block[place + 1 :])
                    self.assert_same(known, block[:place] + byte + block[place:])

    def test_what_was_made_of_the_credentials(self) -> None:
        """It goes along to the same head with another length, and to no other."""
        block = KEPT["last"]
        known = kept(block)
        head = known.again(block)
        assert head is not None
        head.credentials = (b"digest",)
        longer = known.again(block.replace(b"12", b"13"))
        assert longer is not None
        self.assertEqual((13, (b"digest",)), (longer.content_length, longer.credentials))
        self.assertEqual(12, head.content_length)
        self.assertIsNone(parse_request_head(block).credentials)
        self.assertNotIn("digest", repr(longer))

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_any_two_heads(self, data: st.DataObject) -> None:
        """Of two heads made of the same few lines the second is never taken for the first."""
        lines = st.sampled_from(
            (
                *(LENGTH, b"content-length: 7\r\n", b"Content-Length: 0\r\n"),
                *(
                    b"Content-Length:12 \r\n",
                    b"Content-Length: 012\r\n",
                    b"X-A: content-length: 1\r\n",
                ),
                *(b"Expect: 100-continue\r\n", b"Expect:\r\n", b" folded: 1\r\n", b"X-A: b\r\n"),
                *(b"Transfer-Encoding: chunked\r\n", b"Authorization: Bearer a\r\n", b"\r\n"),
                *(b"Connection: close\r\n", b"Host: b\r\n", b"X-Content-Length: 1\r\n"),
            )
        )
        first_lines = st.sampled_from(
            (LINE, LINE, LINE.replace(b"1.1", b"1.0"), LINE.replace(b"POST", b"GET"))
        )
        draw = data.draw
        blocks = [
            draw(first_lines)
            + HOST * draw(st.booleans())
            + b"".join(draw(st.lists(lines, max_size=6)))
            for _ in range(2)
        ]
        if draw(st.booleans()):
            # The second as the first was, but for what stands at one place.
            place = draw(st.integers(0, len(blocks[0])))
            put = draw(st.sampled_from((b"", b"0", b"1", b"\r\n", b" ", b"9" * 8)))
            blocks[1] = blocks[0][:place] + put + blocks[0][place + draw(st.integers(0, 3)) :]
        first, second = (block + b"\r\n" for block in blocks)
        reading = read(first)
        if reading is None or not isinstance(reading[0], RequestHead):
            return
        head, target, end = reading
        known = keep_head(first[:end], head, target)  # type: ignore[arg-type, index]
        if known is not None:
            self.assert_same(known, second)
            self.assertTrue(self.assert_same(known, first))

"""Tests of omnigate.wire.content_coding."""

import gzip
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.body import CloseReader, FramingError, LengthReader, TruncatedBody, reader_for
from omnigate.wire.content_coding import (
    SLICE_BYTES,
    PackedReader,
    coding_of,
    is_readable,
    packed_reader,
)
from omnigate.wire.head import ResponseHead, parse_response_head
from tests.wire.cuts import cut, every_cut, places

TEXT = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n' * 3


def zlib_pack(data: bytes) -> bytes:
    """Deflate as the standard has it."""
    return zlib.compress(data)


def raw_pack(data: bytes, level: int = 6) -> bytes:
    """Deflate without its wrapping."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def gzip_pack(data: bytes) -> bytes:
    """One member of gzip."""
    return gzip.compress(data, mtime=0)


PACKERS = ((True, gzip_pack), (False, zlib_pack), (False, raw_pack))


def head(*fields: bytes, status: bytes = b"200 OK") -> ResponseHead:
    """An answer's head."""
    lines = b"".join(b"%b\r\n" % field for field in fields)
    return parse_response_head(b"HTTP/1.1 %b\r\n%b\r\n" % (status, lines))


def slices(reader: PackedReader, data: bytes) -> list[bytes]:
    """Feed one read, and then nothing as long as there is more."""
    got = [reader.feed(data)]
    while reader.more:
        got.append(reader.feed(b""))
    return got


def read(pieces: list[bytes], *, is_gzip: bool) -> bytes | str:
    """Read a body that ends with its framing: what is in it, or what is wrong with it."""
    reader = PackedReader(LengthReader(sum(map(len, pieces))), is_gzip=is_gzip)
    payload = b""
    try:
        for piece in pieces:
            payload += b"".join(slices(reader, piece))
        assert reader.ended
        reader.finish()
    except FramingError:
        return "framing"
    except TruncatedBody:
        return "truncated"
    return payload


class UnpackingTests(SynchronousTestCase):
    """What was packed comes out, however it is cut; and nothing else does."""

    def test_every_cut(self) -> None:
        """Whole, byte by byte, and cut in two anywhere."""
        for is_gzip, pack in PACKERS:
            for pieces in every_cut(pack(TEXT)):
                self.assertEqual(TEXT, read(pieces, is_gzip=is_gzip))

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(PACKERS), st.binary(max_size=3000), st.integers(1, 80), places())
    def test_any_payload(
        self, packer: tuple[bool, object], unit: bytes, times: int, where: list[int]
    ) -> None:
        """Any payload, also one that packs well, in any cut."""
        is_gzip, pack = packer
        assert callable(pack)
        self.assertEqual(unit * times, read(cut(pack(unit * times), where), is_gzip=is_gzip))

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.binary(max_size=100), min_size=1, max_size=8), places())
    def test_members(self, parts: list[bytes], where: list[int]) -> None:
        """Members of gzip one after the other are one body."""
        packed = b"".join(map(gzip_pack, parts))
        self.assertEqual(b"".join(parts), read(cut(packed, where), is_gzip=True))

    def test_raw_deflate_of_any_kind(self) -> None:
        """Bodies of stored, fixed and dynamic blocks are told from zlib's by their first bytes."""
        for level in range(10):
            for size in (0, 1, 8, 120, 2000, 70_000):
                text = bytes(range(256)) * (size // 256 + 1)
                packed = raw_pack(text[:size], level)
                self.assertEqual(text[:size], read([packed], is_gzip=False))

    def test_event_by_event(self) -> None:
        """What was flushed at the packer comes out at once."""
        for is_gzip, bits in ((True, 31), (False, 15), (False, -15)):
            packer = zlib.compressobj(6, zlib.DEFLATED, bits)
            reader = PackedReader(CloseReader(), is_gzip=is_gzip)
            for number in range(50):
                event = b'data: {"n":%d}\n\n' % number
                sent = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
                self.assertEqual(event, reader.feed(sent))
                self.assertFalse(reader.more)
            reader.feed(packer.flush())
            reader.finish()
            self.assertTrue(reader.ended)

    def test_slices(self) -> None:
        """What packs a thousand to one comes in slices, and nothing is lost at their edges."""
        for is_gzip, pack in PACKERS:
            for size in (SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3_000_000):
                packed = pack(bytes(size))
                reader = PackedReader(LengthReader(len(packed)), is_gzip=is_gzip)
                got = slices(reader, packed)
                self.assertLessEqual(max(map(len, got)), SLICE_BYTES)
                self.assertEqual(bytes(size), b"".join(got))
                self.assertTrue(reader.ended)
                reader.finish()

    def test_slices_of_members(self) -> None:
        """A slice may end where a member does, and more be on its way meanwhile."""
        member = gzip_pack(bytes(SLICE_BYTES))
        packed = member * 3
        reader = PackedReader(LengthReader(2 * len(packed)), is_gzip=True)
        got = reader.feed(packed)
        self.assertTrue(reader.more)
        got += b"".join(slices(reader, packed))
        self.assertEqual(bytes(6 * SLICE_BYTES), got)
        self.assertTrue(reader.ended)

    def test_many_empty_members(self) -> None:
        """A read full of empty members gives nothing, and is over."""
        packed = gzip_pack(b"") * 3000
        self.assertEqual(b"", read([packed], is_gzip=True))

    def test_empty(self) -> None:
        """A body of no bytes is empty, whatever coding was named."""
        for is_gzip in (True, False):
            self.assertEqual(b"", read([], is_gzip=is_gzip))
            reader = PackedReader(CloseReader(), is_gzip=is_gzip)
            reader.finish()
            self.assertTrue(reader.ended)

    def test_what_follows(self) -> None:
        """What comes behind the framing is kept, and is none of the body's."""
        packed = gzip_pack(TEXT)
        reader = PackedReader(LengthReader(len(packed)), is_gzip=True)
        self.assertEqual([TEXT], slices(reader, packed + b"HTTP/1.1 "))
        self.assertEqual((True, b"HTTP/1.1 "), (reader.ended, reader.rest))


class RefusalTests(SynchronousTestCase):
    """What the coding does not allow is refused."""

    def test_cut_short(self) -> None:
        """A body whose framing ends at any byte before its coding does is truncated."""
        for is_gzip, pack in PACKERS:
            packed = pack(TEXT)
            for size in range(1, len(packed)):
                self.assertEqual("truncated", read([packed[:size]], is_gzip=is_gzip), size)

    def test_cut_by_the_connection(self) -> None:
        """So is one whose connection ends, inside the framing or inside the coding."""
        packed = gzip_pack(TEXT)
        for framing in (LengthReader(len(packed)), CloseReader()):
            reader = PackedReader(framing, is_gzip=True)
            reader.feed(packed[:-1])
            self.assertRaises(TruncatedBody, reader.finish)

    def test_behind_the_end(self) -> None:
        """Bytes behind the last member are no body."""
        for is_gzip, pack in PACKERS:
            for more in (b"more than a head of ten bytes", b"\0" * 20, b"x"):
                found = read([pack(TEXT) + more], is_gzip=is_gzip)
                self.assertIn(found, ("framing", "truncated") if is_gzip else ("framing",))

    def test_wrong_sums(self) -> None:
        """A sum or a length that does not fit is refused."""
        for is_gzip, pack, trailer in ((True, gzip_pack, 8), (False, zlib_pack, 4)):
            packed = pack(TEXT)
            for back in range(1, trailer + 1):
                wrong = bytearray(packed)
                wrong[-back] ^= 0x55
                self.assertEqual("framing", read([bytes(wrong)], is_gzip=is_gzip))

    def test_not_what_it_is_called(self) -> None:
        """Plain text, another coding and a dictionary of one's own are refused."""
        packer = zlib.compressobj(zdict=TEXT)
        with_dictionary = packer.compress(TEXT) + packer.flush()
        for body in (TEXT, b"{}", b"<html>", with_dictionary, zlib_pack(TEXT)):
            self.assertIn(read([body], is_gzip=True), ("framing", "truncated"))
        for body in (TEXT, gzip_pack(TEXT), with_dictionary):
            self.assertEqual("framing", read([body], is_gzip=False))

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(PACKERS), st.data(), places())
    def test_damage(
        self, packer: tuple[bool, object], data: st.DataObject, where: list[int]
    ) -> None:
        """A damaged body is read or refused alike in every cut, and never breaks the reader."""
        is_gzip, pack = packer
        assert callable(pack)
        packed = bytearray(pack(TEXT))
        for _ in range(data.draw(st.integers(1, 3))):
            packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        whole = read([bytes(packed)], is_gzip=is_gzip)
        self.assertEqual(whole, read(cut(bytes(packed), where), is_gzip=is_gzip))
        if pack is not raw_pack:
            # The sums vouch for it.
            self.assertIn(whole, (TEXT, "framing", "truncated"))


class ChoiceTests(SynchronousTestCase):
    """What the head says of the coding."""

    def test_codings(self) -> None:
        """One coding that is known is unpacked, in any case; others are named, and are not."""
        for name in (b"gzip", b"x-gzip", b"deflate", b"GZip", b" gzip "):
            found = head(b"content-encoding: " + name, b"content-length: 5")
            self.assertTrue(is_readable(found))
            self.assertIsInstance(packed_reader(found, reader_for(found)), PackedReader)
        for fields in (
            (b"content-encoding: br",),
            (b"content-encoding: zstd",),
            (b"content-encoding: compress",),
            (b"content-encoding: gzip, gzip",),
            (b"content-encoding: gzip", b"content-encoding: br"),
            (b"content-encoding: gzip;q=1",),
        ):
            found = head(*fields)
            self.assertFalse(is_readable(found))
            self.assertIsNone(packed_reader(found, reader_for(found)))

    def test_none(self) -> None:
        """No coding, an empty one and ``identity`` are none."""
        for fields in ((), (b"content-encoding:",), (b"content-encoding: Identity",)):
            found = head(*fields)
            self.assertTrue(is_readable(found))
            self.assertEqual(b"", coding_of(found))
            self.assertIsNone(packed_reader(found, reader_for(found)))

    def test_no_body(self) -> None:
        """Where there is no body, nothing is unpacked."""
        for status in (b"204 None", b"304 Not Modified"):
            found = head(b"content-encoding: gzip", status=status)
            self.assertTrue(is_readable(found))
            self.assertIsNone(packed_reader(found, reader_for(found)))

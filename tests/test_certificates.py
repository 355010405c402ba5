"""Pairs of certificate and key: what is one, and what is not."""

import datetime
import ssl
import time

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.certificates import MAX_CHAIN, Pair, PairError, day, read_pair
from tests.certificates import key_pem
from tests.protocols.test_connector import DAY, Identity, issue

AUTHORITY = issue("authority")
SERVER = issue("gateway.test", by=AUTHORITY)
OTHER = issue("other.test", by=AUTHORITY)


def rsa_key() -> bytes:
    """A key of another kind, as PEM."""
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


class ReadTests(SynchronousTestCase):
    """Reading a pair."""

    def refused(self, certificate: bytes, key: bytes) -> PairError:
        """The fault of what is no pair."""
        fault: PairError = self.assertRaises(PairError, read_pair, certificate, key)
        return fault

    def test_a_pair(self) -> None:
        """With and without a chain, in one text, and with words around the blocks."""
        whole = SERVER.pem + AUTHORITY.pem
        for certificate, length in (
            (SERVER.pem, 1),
            (whole, 2),
            (b"subject=CN = gateway.test\n" + whole + b"\n\n", 2),
            (whole.replace(b"\n", b"\r\n"), 2),
        ):
            pair = read_pair(certificate, key_pem(SERVER))
            self.assertEqual((len(pair.chain), pair.names), (length, "gateway.test"))
            left = pair.expires_at - time.time()
            self.assertTrue(DAY.total_seconds() - 600 < left <= DAY.total_seconds())
            self.assertIsNone(pair.warning(time.time()))
        both = key_pem(SERVER) + SERVER.pem
        self.assertEqual(read_pair(both, both).names, "gateway.test")

    def test_what_is_lacking_or_broken(self) -> None:
        """Each file that is not what it should be is told by what it is not."""
        good, key = SERVER.pem + AUTHORITY.pem, key_pem(SERVER)
        middle = len(SERVER.pem) // 2
        for certificate, words in (
            (b"", "holds no PEM certificate"),
            (key, "holds no PEM certificate"),
            (b"\x00\xff" * 100, "holds no PEM certificate"),
            (good[:-40], "ends within a certificate"),
            (good[: len(SERVER.pem)] + AUTHORITY.pem[:60], "ends within a certificate"),
            (good[:middle] + b"!" + good[middle + 1 :], "certificate 1 in it cannot be read"),
            (SERVER.pem * (MAX_CHAIN + 1), f"more than {MAX_CHAIN} certificates"),
        ):
            fault = self.refused(certificate, key)
            self.assertEqual((words in str(fault), fault.of_key), (True, False), str(fault))
        for text, words in (
            (b"", "holds no PEM private key"),
            (SERVER.pem, "holds no PEM private key"),
            (key[:60] + key[80:], "cannot be read"),
            (key_pem(OTHER), "is not the key of the certificate"),
            (rsa_key(), "is not the key of the certificate"),
        ):
            fault = self.refused(good, text)
            self.assertEqual((words in str(fault), fault.of_key), (True, True), str(fault))

    def test_a_key_with_a_passphrase(self) -> None:
        """Nobody is asked for it."""
        encrypted = SERVER.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
        self.assertIn("encrypted", str(self.refused(SERVER.pem, encrypted)))

    def test_warnings(self) -> None:
        """What clients will not like is told, and is no fault."""
        past = datetime.timedelta(days=-2), datetime.timedelta(days=-1)
        coming = datetime.timedelta(days=1), datetime.timedelta(days=2)
        expired, early = (issue("x", not_before=a, not_after=b) for a, b in (past, coming))
        now = time.time()
        pair = self.pair(expired)
        self.assertEqual(pair.warning(now), f"has expired on {day(pair.expires_at)}")
        self.assertIn("is not valid before", self.pair(early).warning(now) or "")
        wrong = read_pair(SERVER.pem + OTHER.pem, key_pem(SERVER))
        self.assertIn("has not issued it", wrong.warning(now) or "")

    def pair(self, identity: Identity) -> Pair:
        """The pair of an identity without a chain."""
        return read_pair(identity.pem, key_pem(identity))

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_whatever_was_written(self, data: st.DataObject) -> None:
        """Bytes that were cut, lost or changed are a pair of this key, or a fault of ours."""
        certificate, key = (
            self.changed(data, text) for text in (SERVER.pem + AUTHORITY.pem, key_pem(SERVER))
        )
        try:
            pair = read_pair(certificate, key)
        except PairError as fault:
            self.assertNotIn("Traceback", str(fault))
            return
        self.assertEqual(pair.names, "gateway.test")

    @settings(max_examples=200, deadline=None)
    @given(
        which=st.integers(0, 1),
        changes=st.lists(
            st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
            min_size=1,
            max_size=3,
        ),
    )
    def test_whatever_was_encoded(self, which: int, changes: list[tuple[float, int]]) -> None:
        """A certificate whose bytes were changed, in a PEM block that is whole, is served or not.

        Nor does anything break that is asked of a pair later.
        """
        blocks = [SERVER.pem, AUTHORITY.pem]
        encoded = bytearray(ssl.PEM_cert_to_DER_cert(blocks[which].decode()))
        for place, value in changes:
            encoded[int(place * len(encoded))] = value
        blocks[which] = ssl.DER_cert_to_PEM_cert(bytes(encoded)).encode()
        try:
            pair = read_pair(b"".join(blocks), key_pem(SERVER))
        except PairError as fault:
            self.assertTrue(str(fault))
            return
        pair.options()
        for now in (pair.begins_at - 1, pair.begins_at, pair.expires_at):
            self.assertIsNot(pair.warning(now), "")

    @staticmethod
    def changed(data: st.DataObject, text: bytes) -> bytes:
        """A text with a piece of it replaced, or as it was."""
        start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
        if data.draw(st.booleans()):
            return text
        return text[:start] + data.draw(st.binary(max_size=8)) + text[end:]

"""URLs that open one file for a while, and nothing else."""

import os
from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.signed_urls import FileSigner, FilesKeyError, load_files_key
from omnigate.testing.memory_disk import MemoryDisk

SIGNER = FileSigner(bytes(range(32)))
JOB = "job_01jd0000000000000000000000"
NOW = 1_800_000_000.0
LATER = 1_800_000_060


class SigningTest(SynchronousTestCase):
    """Whose signature it is, and what for."""

    def setUp(self) -> None:
        self.signature = SIGNER.signature(JOB, 3, LATER)

    def test_it_opens_the_file_until_its_end(self) -> None:
        for now, opens in ((NOW, True), (LATER - 0.001, True), (LATER, False), (LATER + 1, False)):
            self.assertEqual(SIGNER.opens(JOB, 3, str(LATER), self.signature, now), opens)

    def test_a_golden_signature(self) -> None:
        # Signatures that were handed out hold over versions.
        self.assertEqual(self.signature, "gwviQOA66FRuEr49Pax8oO8G7piev3Autdz_yCvIsRg")

    def test_nothing_else(self) -> None:
        for job, n, expires in (
            (JOB[:-1] + "1", 3, LATER),
            (JOB, 4, LATER),
            (JOB, 3, LATER + 1),
        ):
            self.assertFalse(SIGNER.opens(job, n, str(expires), self.signature, NOW))

    def test_another_secret(self) -> None:
        self.assertFalse(FileSigner(bytes(32)).opens(JOB, 3, str(LATER), self.signature, NOW))

    def test_job_and_number_cannot_run_into_one_another(self) -> None:
        self.assertNotEqual(
            SIGNER.signature("job_1", 23, LATER), SIGNER.signature("job_12", 3, LATER)
        )

    @given(st.integers(0, 42), st.integers(0, 7))
    def test_any_bit_that_is_changed(self, place: int, bit: int) -> None:
        changed = bytearray(self.signature.encode())
        changed[place] ^= 1 << bit
        text = changed.decode("latin-1")
        self.assertFalse(SIGNER.opens(JOB, 3, str(LATER), text, NOW))

    @given(st.text(max_size=60))
    def test_anything(self, text: str) -> None:
        self.assertFalse(SIGNER.opens(JOB, 3, str(LATER), text, NOW))
        if text != str(LATER):
            self.assertFalse(SIGNER.opens(JOB, 3, text, self.signature, NOW))

    def test_one_spelling(self) -> None:
        for expires in (f"0{LATER}", f"+{LATER}", f" {LATER}", f"{LATER}.0", "1" * 30, "-1", ""):
            self.assertFalse(SIGNER.opens(JOB, 3, expires, self.signature, NOW))
        for signature in (self.signature + "=", self.signature + "A", ""):
            self.assertFalse(SIGNER.opens(JOB, 3, str(LATER), signature, NOW))

    def test_a_path_with_its_query(self) -> None:
        url = urlsplit(SIGNER.until(LATER)(f"/v1/files/{JOB}/3"))
        self.assertEqual(url.path, f"/v1/files/{JOB}/3")
        self.assertEqual(
            parse_qs(url.query), {"expires": [str(LATER)], "signature": [self.signature]}
        )

    def test_the_secret_does_not_show(self) -> None:
        self.assertEqual(repr(SIGNER), "FileSigner()")


class SecretTest(SynchronousTestCase):
    """The file with the secret."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state")

    def test_it_is_made_once(self) -> None:
        self.patch(files, "os", self.disk)
        made = load_files_key("/state")
        self.assertEqual(len(made), 32)
        self.disk.crash()
        self.assertEqual(load_files_key("/state"), made)

    def test_a_disk_that_refuses(self) -> None:
        self.patch(files, "os", self.disk)
        self.disk.fail("fsync")
        with self.assertRaises(FilesKeyError) as caught:
            load_files_key("/state")
        self.assertIn("/state/files.key: ", str(caught.exception))

    def test_a_file_that_is_no_secret(self) -> None:
        self.patch(files, "os", self.disk)
        for content in (b"", b"short", bytes(33), bytes(100)):
            self.disk.put("/state/files.key", content)
            with self.assertRaises(FilesKeyError):
                load_files_key("/state")
            self.assertEqual(self.disk.contents()["/state/files.key"], content)

    def test_it_is_private(self) -> None:
        folder = self.mktemp()
        os.makedirs(folder)
        first = load_files_key(folder)
        self.assertEqual(os.stat(os.path.join(folder, "files.key")).st_mode & 0o777, 0o600)
        self.assertNotEqual(first, bytes(32))

"""Files for recipients of age: what is written here, others read."""

import base64
import errno
import hashlib
import json
import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs import age_files
from omnigate.jobs.adapters.base import InlineSource
from omnigate.jobs.age_files import AgeFault, encrypt_file, fault_of
from omnigate.jobs.output_faults import OutputFault
from omnigate.testing.memory_disk import MemoryDisk
from tests.jobs.outputs_case import JOB, PNG, OutputsTestCase

VECTORS = json.loads((Path(__file__).parent / "vectors" / "age.json").read_text())
RECIPIENTS = VECTORS["recipients"]


def pyrage() -> Any:
    """Return what reads such files, or skip the test."""
    try:
        return import_module("pyrage")
    except ImportError:
        raise SkipTest("pyrage is not installed (the extras age and dev have it)") from None


def opened(data: bytes, identity: int = 0) -> bytes:
    """Return the content of an encrypted file."""
    module = pyrage()
    key = module.x25519.Identity.from_str(VECTORS["identities"][identity])
    content: bytes = module.decrypt(data, [key])
    return content


class EncryptingTest(SynchronousTestCase):
    """A file into another."""

    def setUp(self) -> None:
        pyrage()
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.source = os.path.join(self.folder, "clear")
        self.target = os.path.join(self.folder, "closed")

    def encrypted(self, content: bytes, recipients: list[str]) -> bytes:
        """Return what becomes of a content."""
        with open(self.source, "wb") as file:
            file.write(content)
        made = encrypt_file(self.source, self.target, recipients)
        with open(self.target, "rb") as file:
            data = file.read()
        os.unlink(self.target)
        self.assertEqual(made.size, len(data))
        self.assertEqual(made.sha256, hashlib.sha256(data).hexdigest())
        return data

    def test_read_by_every_recipient(self) -> None:
        for size in (0, 1, 65_535, 65_536, 65_537, 131_072, 1_000_003):
            content = os.urandom(size)
            data = self.encrypted(content, RECIPIENTS)
            for identity in range(len(RECIPIENTS)):
                self.assertEqual(opened(data, identity), content)

    def test_nobody_else_reads_it(self) -> None:
        data = self.encrypted(b"content", RECIPIENTS[:1])
        self.assertNotIn(b"content", data)
        with self.assertRaises(pyrage().DecryptError):
            opened(data, 1)

    def test_read_by_the_program_age(self) -> None:
        program = shutil.which("age")
        if program is None:
            raise SkipTest("the program age is not installed (Debian: age)")
        content = os.urandom(200_000)
        data = self.encrypted(content, RECIPIENTS)
        identities = os.path.join(self.folder, "identity")
        with open(identities, "w") as file:
            file.write(VECTORS["identities"][1] + "\n")
        read = subprocess.run(
            [program, "-d", "-i", identities], input=data, capture_output=True, check=True
        )
        self.assertEqual(read.stdout, content)

    def test_a_full_disk(self) -> None:
        disk = MemoryDisk("/state", contents={"/state/clear": bytes(300_000)})
        self.patch(files, "os", disk)
        disk.free_bytes["/state"] = 100_000
        with self.assertRaises(OSError) as caught:
            encrypt_file("/state/clear", "/state/closed", RECIPIENTS)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertEqual(list(disk.contents()), ["/state/clear"])

    def test_a_file_that_is_not_there(self) -> None:
        with self.assertRaises(OSError):
            encrypt_file(self.source, self.target, RECIPIENTS)
        self.assertFalse(os.path.exists(self.target))


class GoldenCasesTest(SynchronousTestCase):
    """The files of the reference are read, so what reads ours is what others read with."""

    def test_each(self) -> None:
        for case in VECTORS["files"]:
            content = opened(base64.b64decode(case["ciphertext_base64"]))
            self.assertEqual(len(content), case["plaintext_bytes"])
            self.assertEqual(hashlib.sha256(content).hexdigest(), case["plaintext_sha256"])


class FaultsTest(SynchronousTestCase):
    """What keeps files from being encrypted at all."""

    def test_no_recipients_need_nothing(self) -> None:
        self.patch(age_files, "import_module", self.no_module)
        self.assertEqual(fault_of(()), "")

    def no_module(self, name: str) -> Any:
        """Stand in for an installation without the extra."""
        raise ImportError(name)

    def test_without_the_extra(self) -> None:
        self.patch(age_files, "import_module", self.no_module)
        self.assertIn("pip install 'omnigate[age]'", fault_of(RECIPIENTS))
        with self.assertRaises(AgeFault):
            encrypt_file("/nowhere", "/nowhere", RECIPIENTS)

    def test_recipients(self) -> None:
        pyrage()
        self.assertEqual(fault_of(RECIPIENTS), "")
        wrong = RECIPIENTS[0][:-1] + ("q" if RECIPIENTS[0][-1] != "q" else "p")
        self.assertIn("recipient 2 of age is none", fault_of([RECIPIENTS[0], wrong]))


class OutputsForAgeTest(OutputsTestCase):
    """Outputs that only their recipients read."""

    def test_what_is_stored_and_what_the_job_says(self) -> None:
        pyrage()
        source = InlineSource(PNG, "image/png")
        (output,) = self.successResultOf(self.storing(source, recipients=RECIPIENTS))
        ((name, data),) = self.left().items()
        self.assertEqual(opened(data), PNG)
        self.assertEqual((name, output.name), (f"{JOB}/0.png.age",) * 2)
        self.assertEqual(output.content_type, "image/png")
        self.assertEqual((output.size, output.sha256), (len(PNG), hashlib.sha256(PNG).hexdigest()))
        self.assertTrue(output.encrypted)
        self.assertEqual(output.stored_size, len(data))
        self.assertEqual(output.stored_sha256, hashlib.sha256(data).hexdigest())

    def test_the_clear_file_is_gone_at_once(self) -> None:
        pyrage()
        self.worker.holding = True
        done = self.storing(InlineSource(PNG), recipients=RECIPIENTS)
        self.assertEqual(list(self.left().values()), [PNG])
        self.writer.holding = True
        self.worker.run()
        self.assertNoResult(done)
        self.assertNotIn(PNG, self.left().values())
        self.writer.run()
        self.successResultOf(done)

    def test_a_recipient_that_is_none(self) -> None:
        pyrage()
        fault = self.failureResultOf(
            self.storing(InlineSource(PNG), recipients=["age1x"]), OutputFault
        ).value
        self.assertTrue(fault.is_ours)
        self.assertEqual(fault.error.code, "storage_failed")

    def test_a_full_disk(self) -> None:
        pyrage()
        self.worker.holding = True
        done = self.storing(InlineSource(PNG), recipients=RECIPIENTS)
        self.disk.free_bytes["/state"] = 100
        self.worker.run()
        fault = self.failureResultOf(done, OutputFault).value
        self.assertTrue(fault.is_ours)
        self.assertEqual(self.left(), {})

    def test_ended_while_it_is_encrypted(self) -> None:
        pyrage()
        self.worker.holding = True
        done: Deferred[Any] = self.storing(InlineSource(PNG), recipients=RECIPIENTS)
        done.cancel()
        self.failureResultOf(done)
        self.worker.run()
        self.assertEqual(self.left(), {})

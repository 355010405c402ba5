"""The certificate of a port, while its two files are replaced in every way there is."""

import datetime
import os
import resource
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs, formatEvent
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from omnigate import certificate_files
from omnigate.certificate_files import LOOK_SECONDS, MAX_FILE_BYTES, CertificateFiles
from omnigate.tls_endpoint import CertificateError
from tests.certificates import PairOnDisk, key_pem
from tests.protocols.test_connector import Identity, issue

FIRST, SECOND, THIRD = (issue(name) for name in ("first.test", "second.test", "third.test"))


class FilesCase(SynchronousTestCase):
    """Two files in a folder, and a clock."""

    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory(prefix="omnigate-test-certificates-")
        self.addCleanup(held.cleanup)
        self.disk = PairOnDisk(Path(held.name))
        self.disk.write(FIRST)
        self.clock = Clock()
        captured = capturedLogs()
        self.log, self.seen = captured.__enter__(), 0
        self.addCleanup(captured.__exit__, None, None, None)

    def served(self) -> CertificateFiles:
        """What a port serves, looked at from now on."""
        served = CertificateFiles(str(self.disk.certificate), str(self.disk.key), self.clock)
        served.start()
        self.addCleanup(served.stop)
        return served

    def shown(self, served: CertificateFiles) -> bytes:
        """The certificate that a client is shown now."""
        options: Any = TLSMemoryBIOFactory(
            served, False, Factory.forProtocol(Protocol), clock=Clock()
        )
        server = options.buildProtocol(None)
        transport: Any = StringTransport()
        server.makeConnection(transport)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        arrived, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(arrived, sent)
        for _ in range(4):
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                server.dataReceived(sent.read())
                arrived.write(transport.value())
                transport.clear()
        found = client.getpeercert(binary_form=True)
        assert found is not None
        return ssl.DER_cert_to_PEM_cert(found).encode()

    def shows(self, served: CertificateFiles, identity: Identity) -> None:
        """Hold the certificate in force to one of ours."""
        self.assertEqual(self.shown(served), identity.pem)

    def looks(self, count: int) -> None:
        """Let the files be looked at so often."""
        self.clock.pump([LOOK_SECONDS] * count)

    def told(self) -> list[str]:
        """What was logged since the last call, with its level."""
        events, self.seen = self.log[self.seen :], len(self.log)
        return [
            f"{event['log_level'].name}: {formatEvent(event)}"
            for event in events
            if event.get("log_namespace") == "omnigate.tls"
        ]


class RenewalTests(FilesCase):
    """New pairs."""

    def test_by_itself(self) -> None:
        """A pair that stood still between two looks is in force, within a minute of its change."""
        served = self.served()
        self.shows(served, FIRST)
        self.disk.write(SECOND)
        self.looks(1)
        self.shows(served, FIRST)
        self.looks(1)
        self.shows(served, SECOND)
        self.assertLess(2 * LOOK_SECONDS, 60)
        (told,) = self.told()
        self.assertIn("info: the certificate of second.test until ", told)
        self.looks(5)
        self.assertEqual((self.told(), served.failures), ([], 0))

    def test_by_signal(self) -> None:
        """SIGHUP waits for no look, and says nothing where nothing is new."""
        served = self.served()
        self.disk.write(SECOND)
        served.reread()
        self.shows(served, SECOND)
        self.assertEqual(len(self.told()), 1)
        served.reread()
        self.looks(3)
        self.assertEqual((self.told(), served.failures), ([], 0))

    def test_written_slowly(self) -> None:
        """As long as something changes at every look nothing is read, and no half of a pair."""
        served = self.served()
        for content in (SECOND.pem[:100], SECOND.pem[:300], SECOND.pem):
            self.disk.certificate.write_bytes(content)
            self.looks(1)
        self.disk.replace(self.disk.key, key_pem(SECOND))
        self.looks(1)
        self.shows(served, FIRST)
        self.looks(1)
        self.shows(served, SECOND)
        self.assertEqual(served.failures, 0)

    def test_links_that_are_moved(self) -> None:
        """Both names may be links to files of another folder, which are exchanged."""
        for identity in (FIRST, SECOND):
            folder = self.disk.folder / str(id(identity))
            folder.mkdir()
            PairOnDisk(folder).write(identity)
            beside = self.disk.folder / "link"
            beside.symlink_to(folder.name)
            os.replace(beside, self.disk.folder / "live")
            if identity is FIRST:
                self.disk = PairOnDisk(self.disk.folder / "live")
                served = self.served()
                self.shows(served, FIRST)
                self.disk = PairOnDisk(self.disk.folder.parent)
        self.looks(2)
        self.shows(served, SECOND)

    def test_after_the_end(self) -> None:
        """A port that is closed looks no more."""
        served = self.served()
        served.stop()
        self.disk.write(SECOND)
        self.looks(3)
        self.shows(served, FIRST)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FaultTests(FilesCase):
    """What is no pair never gets in."""

    def test_one_file_only(self) -> None:
        """A certificate without its key is told once, and is served when the key follows."""
        served = self.served()
        self.disk.replace(self.disk.certificate, SECOND.pem)
        self.looks(4)
        self.shows(served, FIRST)
        self.assertEqual(served.failures, 1)
        (told,) = self.told()
        self.assertIn(f"error: {self.disk.key}: is not the key of the certificate", told)
        self.assertIn("of first.test until ", told)
        self.disk.replace(self.disk.key, key_pem(SECOND))
        self.looks(2)
        self.shows(served, SECOND)
        self.assertEqual(served.failures, 1)

    def test_every_fault(self) -> None:
        """Lost, empty, cut, garbage, too long, a folder, a pipe: counted, told, and not served."""
        served = self.served()
        writes = (
            (self.disk.certificate, b""),
            (self.disk.certificate, FIRST.pem[:-30]),
            (self.disk.certificate, SECOND.pem),
            (self.disk.certificate, b"\x00" * 1000),
            (self.disk.certificate, FIRST.pem + b"\n" * MAX_FILE_BYTES),
            (self.disk.key, b"no key"),
            (self.disk.key, key_pem(THIRD)),
        )
        for number, (path, content) in enumerate(writes, 1):
            kept = path.read_bytes()
            self.disk.replace(path, content)
            self.looks(2)
            self.shows(served, FIRST)
            self.assertEqual(served.failures, number)
            self.assertIn(str(path if content != SECOND.pem else self.disk.key), self.told()[0])
            self.disk.replace(path, kept)
            self.looks(2)
        failures = served.failures
        for path in (self.disk.certificate, self.disk.key):
            kept = path.read_bytes()
            path.unlink()
            self.looks(2)
            path.mkdir()
            self.looks(2)
            path.rmdir()
            os.mkfifo(path)
            self.looks(2)
            path.unlink()
            self.disk.replace(path, kept)
            self.looks(2)
            self.shows(served, FIRST)
        self.assertEqual(served.failures, failures + 6)
        self.disk.write(SECOND)
        self.looks(2)
        self.shows(served, SECOND)

    def test_a_fault_of_ours(self) -> None:
        """Whatever breaks at a look or at SIGHUP, it is counted and told, and all goes on."""
        served = self.served()

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        patch = self.patch(certificate_files, "read_pair", broken)
        self.disk.write(SECOND)
        self.looks(2)
        served.reread()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual(served.failures, 2)
        patch.restore()
        self.shows(served, FIRST)
        self.disk.write(THIRD)
        self.looks(2)
        self.shows(served, THIRD)

    def test_what_passes(self) -> None:
        """A pair that could not be read for want of open files is read once there are some."""
        served = self.served()
        self.disk.write(SECOND)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            self.looks(3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        self.assertEqual(served.failures, 2)
        self.assertIn("Too many open files; that may pass", self.told()[-1])
        self.looks(1)
        self.shows(served, SECOND)
        self.looks(3)
        self.assertEqual(served.failures, 2)

    def test_an_expired_one(self) -> None:
        """It does not take the place of one that is valid; where all have expired it may."""
        days = [datetime.timedelta(days=number) for number in (-3, -2, -1)]
        old, older = (issue(f"old{n}", not_before=days[0], not_after=days[n]) for n in (2, 1))
        served = self.served()
        self.disk.write(old)
        served.reread()
        self.shows(served, FIRST)
        self.assertIn("has expired on", self.told()[0])
        self.assertEqual(served.failures, 1)
        served = self.served()
        self.assertIn("warn: ", self.told()[0])
        self.disk.write(older)
        served.reread()
        self.shows(served, older)
        self.assertLess(served.expires_at, time.time())

    def test_a_start(self) -> None:
        """A start without a pair fails, with the file and the remedy."""
        for content in (b"", SECOND.pem):
            self.disk.replace(self.disk.certificate, content)
            error = self.assertRaises(CertificateError, self.served)
            self.assertIn("cert= names the file", str(error))
        self.disk.certificate.unlink()
        error = self.assertRaises(CertificateError, self.served)
        self.assertIn(f"{self.disk.certificate}: No such file", str(error))

    def test_a_key_of_another_user(self) -> None:
        """A file that may not be read is told with what would let it be."""
        for path in (self.disk.certificate, self.disk.key):
            path.chmod(0)
        if os.geteuid() == 0:
            # Root may read everything, and nobody may not.
            os.seteuid(65534)
            self.addCleanup(os.seteuid, 0)
        error = self.assertRaises(CertificateError, self.served)
        self.assertIn("chmod 640", str(error))

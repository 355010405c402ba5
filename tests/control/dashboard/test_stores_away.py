"""Pages while the stores load, have crashed, or cannot write."""

from __future__ import annotations

from twisted.internet.defer import fail
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate.control.config_file import SIGNAL, Cause
from omnigate.control.dashboard.door import REFRESH_SECONDS, cookie_name
from omnigate.control.dashboard.front import SIGNED_IN, SIGNED_OUT
from omnigate.control.sessions import SessionKeys
from omnigate.testing.writer import SynchronousWriter
from tests.control.conversation import ADMIN_TOKEN, Reply, read_reply, request_bytes
from tests.control.dashboard.test_door import made_key
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import Plane


class AwayTestCase(SynchronousTestCase):
    """A control plane, and what its audit log says."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)

    @property
    def audit_writer(self) -> SynchronousWriter:
        """What does the disk work of the audit log."""
        writer = self.plane.generation.writers[0]
        assert isinstance(writer, SynchronousWriter)
        return writer

    def lines(self) -> list[tuple[str, str, str, dict[str, object]]]:
        """Sign-ins and sign-outs, the newest first."""
        return [
            (line.action, line.actor, line.address, line.detail)
            for line in self.plane.audit.entries(100)
            if line.action in (SIGNED_IN, SIGNED_OUT)
        ]

    def crash(self) -> None:
        """Have a store crash; those that are opened anew wait for their writer."""
        self.plane.slow_starts = True
        self.plane.generation.crashed("ledger", Failure(ZeroDivisionError()))
        self.plane.clock.advance(0)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def recover(self) -> None:
        """Let the stores be opened."""
        self.plane.slow_starts = self.plane.writer.holding = False
        self.plane.writer.run()
        assert self.plane.guard.current is not None
        self.plane.take(self.plane.guard.current)

    def assert_waits(self, reply: Reply, words: str) -> None:
        """Check that a page says why there is none, and asks again by itself."""
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, "1"))
        self.assertEqual(reply.headers["refresh"], str(REFRESH_SECONDS))
        page = Page(reply)
        self.assertIn(words, page.one("p", role="alert").text)
        self.assertIn("tries again by itself", page.text)


class PageTests(AwayTestCase):
    """What is shown."""

    def test_after_a_crash(self) -> None:
        """Whoever has signed in reads why there is no page, and it comes back by itself."""
        self.visitor.sign_in()
        self.crash()
        reply = self.visitor.get("/")
        self.assert_waits(reply, "restarted")
        self.assertIn("admin-token", Page(reply).text)
        live = self.visitor.get("/live/nothing")
        self.assertEqual(live.headers["content-type"].partition(";")[0], "text/plain")
        self.recover()
        self.visitor.page("/")

    def test_what_is_sent_is_not_sent_again(self) -> None:
        """A form that found no store says so once."""
        self.visitor.sign_in()
        self.visitor.page("/")
        self.crash()
        reply = self.visitor.send("/admin-keys/new", {"name": "bob", "scope": "full"})
        self.assertEqual(reply.status, 503)
        self.assertNotIn("refresh", reply.headers)

    def test_an_admin_key(self) -> None:
        """Its page waits until the keys are loaded, too."""
        secret = made_key(self.plane)
        self.visitor.sign_in(secret)
        self.crash()
        self.assert_waits(self.visitor.get("/"), "admin keys are being loaded")
        self.recover()
        self.visitor.page("/")

    def test_signing_in(self) -> None:
        """The token gets in, since its line is written; a key does once the keys are loaded."""
        secret = made_key(self.plane)
        self.crash()
        self.visitor.page("/sign-in")
        reply = self.visitor.sign_in(secret)
        self.assertEqual(reply.status, 503)
        self.assertEqual(len(Page(reply).all("input", name="token")), 1)
        self.assertEqual(self.visitor.cookies, {})
        self.assertEqual(self.visitor.sign_in().status, 303)
        self.assert_waits(self.visitor.get("/"), "restarted")
        self.recover()
        self.assertEqual(self.visitor.sign_in(secret).status, 303)
        self.assertEqual([line[1] for line in self.lines()], ["admin-key:ann", "admin-token"])

    def test_before_the_first_start_is_over(self) -> None:
        """Nobody begins a session before the audit log is open; those of before read why."""
        self.plane.close()
        plane = Plane(self.mktemp(), open_ledger=False)
        visitor = Visitor(plane.talk)
        reply = visitor.sign_in()
        self.assertEqual((reply.status, visitor.cookies), (503, {}))
        self.assertIn("audit log is not open", Page(reply).one("p", role="alert").text)
        keys = SessionKeys(ADMIN_TOKEN)
        cookie = keys.seal(keys.begin("", plane.now_ms()))
        visitor.cookies[cookie_name(keys, is_secure=False)] = cookie
        self.assert_waits(visitor.get("/"), "ledger is being loaded")
        plane.open_ledger()
        visitor.page("/")

    def test_signing_out(self) -> None:
        """It is never kept from anybody."""
        self.visitor.sign_in()
        self.visitor.page("/")
        self.crash()
        self.assertEqual(self.visitor.send("/sign-out", {}).status, 303)
        self.assertEqual(self.visitor.cookies, {})
        self.assertEqual(len(self.flushLoggedErrors()), 0)

    def test_the_strip_on_top(self) -> None:
        """A config file with faults is told on every page, to those who have signed in."""
        self.visitor.sign_in()
        self.assertEqual(self.visitor.page("/admin-keys").all("p", role="status"), [])
        self.plane.write_config("[[keys]]\n")
        self.plane.config_file.reload(Cause(SIGNAL))
        strip = self.visitor.page("/models").one("p", role="status")
        self.assertIn("the last good config is in force", strip.text)
        self.assertNotIn("last good config", Visitor(self.plane.talk).page("/sign-in").text)


class AuditTests(AwayTestCase):
    """Sign-ins and sign-outs in the audit log."""

    def test_their_lines(self) -> None:
        """Who, from where, and with what scope; for the request that did it."""
        secret = made_key(self.plane, "read_only")
        self.visitor.sign_in()
        other = Visitor(self.plane.talk)
        reply = other.sign_in(secret)
        self.assertEqual(
            self.plane.audit.entries(1)[0].request_id, reply.headers["x-omnigate-request-id"]
        )
        other.page("/")
        other.send("/sign-out", {})
        key, token = "admin-key:ann", "admin-token"
        self.assertEqual(
            self.lines(),
            [
                (SIGNED_OUT, key, "192.168.1.1", {"scope": "read_only"}),
                (SIGNED_IN, key, "192.168.1.1", {"scope": "read_only"}),
                (SIGNED_IN, token, "192.168.1.1", {"scope": "full"}),
            ],
        )

    def test_a_wrong_one_is_no_sign_in(self) -> None:
        """It has its own line, as for the admin API."""
        self.visitor.sign_in("wrong")
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.plane.audit.entries(1)[0].action, "sign_in.failed")

    def test_the_line_comes_first(self) -> None:
        """Nobody has a cookie before it is on the disk."""
        self.audit_writer.holding = True
        channel, transport = self.plane.talk.connect()
        body = f"token={ADMIN_TOKEN}".encode()
        channel.dataReceived(request_bytes("POST", "/sign-in", body=body))
        self.assertEqual(transport.value(), b"")
        self.audit_writer.run()
        reply, _ = read_reply(transport.value())
        self.assertIn("set-cookie", reply.headers)
        self.assertEqual([line[0] for line in self.lines()], [SIGNED_IN])

    def test_a_disk_that_is_full(self) -> None:
        """People get in to see what is wrong, and change nothing; the plane's log says who."""
        full = OSError(28, "No space left on device")
        self.audit_writer.submit = lambda job: fail(full)  # type: ignore[method-assign]
        told: list[str] = []

        @implementer(ILogObserver)
        def note(event: LogEvent) -> None:
            told.append(formatEvent(event))

        globalLogPublisher.addObserver(note)
        self.addCleanup(globalLogPublisher.removeObserver, note)
        self.assertEqual(self.visitor.sign_in().status, 303)
        self.visitor.page("/")
        self.assertEqual(self.visitor.send("/sign-out", {}).status, 303)
        self.assertEqual(self.visitor.cookies, {})
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.plane.audit.failed_writes, 2)
        told = [text for text in told if "not in the audit log" in text]
        self.assertEqual(
            [text.partition(" is not")[0] for text in told],
            ["sign_in of admin-token from 192.168.1.1", "sign_out of admin-token from 192.168.1.1"],
        )

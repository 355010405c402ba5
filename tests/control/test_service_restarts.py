"""A whole control plane whose stores crash: what it answers, what it tells, what it keeps."""

from __future__ import annotations

import gc
import json
import os
import weakref
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import config_history
from omnigate.control.config_watch import POLL_SECONDS
from omnigate.control.guard import PAUSING, RESTARTING
from omnigate.control.keys import KeyBook
from omnigate.control.service import ControlParts, ControlService
from omnigate.ledger.books import Books
from omnigate.ledger.service import Ledger
from omnigate.reactor_lag import ReactorLag
from tests.control.conversation import INTERNAL, read_reply, request_bytes
from tests.control.plane import CONFIG, Plane, event
from tests.control.test_service import Endings, Endpoint, Port


class BrokenError(Exception):
    """What nobody expects."""


def breaks(*arguments: Any, **options: Any) -> None:
    raise BrokenError


def batch(*names: str) -> bytes:
    """A batch of usage events."""
    return json.dumps({"events": [event(id=name) for name in names]}).encode()


class RestartCase(SynchronousTestCase):
    """A service over a plane in memory, under a service manager."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.plane = Plane(self.folder, open_ledger=False)
        self.port, self.ending = Port(), Endings()
        self.told: list[str] = []
        #: What was said to stay in memory, and to go.
        self.memory: list[str] = []
        endpoint: Any = Endpoint(succeed(self.port))
        plane = self.plane
        parts = ControlParts(
            endpoint=endpoint,
            factory=plane.talk.factory,
            guard=plane.guard,
            config_file=plane.config_file,
            record=plane.record,
            metrics=plane.metrics,
            lag=ReactorLag(plane.clock),
            writers=(plane.scrape_writer,),
            release_state=lambda: None,
            stays=lambda: self.memory.append("stays"),
            goes=lambda: self.memory.append("goes"),
            end_streams=lambda: self.memory.append("streams end"),
        )
        environ = {"WATCHDOG_USEC": "10000000"}
        self.service = ControlService(parts, plane.clock, environ, self.ending, str)
        self.service.manager = self.told.append

    def start(self) -> None:
        self.service.privilegedStartService()
        self.service.startService()

    def crash(self) -> Any:
        """Let the ledger crash with a batch; its answer, and a place for those that come later."""
        broken = self.patch(Books, "enter", breaks)
        reply = self.plane.internal("POST", "/internal/usage/batch", batch("e2"))
        broken.restore()
        self.flushLoggedErrors(BrokenError)
        self.plane.clock.advance(0)
        generation = self.plane.guard.latest
        if generation is not None:
            self.plane.take(generation)
        return reply

    def open(self) -> None:
        """Do what stores wait for that are opened anew."""
        self.plane.slow_starts = self.plane.writer.holding = False
        while self.plane.writer.run():
            pass

    def reason(self) -> str:
        reply = self.plane.talk.ask("GET", "/readyz")
        self.assertEqual(reply.status, 503)
        return str(reply.json()["detail"])


class RestartTests(RestartCase):
    """Down, and up again."""

    def test_a_crash(self) -> None:
        """The batch is refused, counts once when it is sent again, and the bill is right."""
        self.start()
        self.plane.internal("POST", "/internal/usage/batch", batch("e1"))
        before = self.plane.admin("GET", "/admin/usage").json()["total"]
        reply = self.crash()
        self.assertEqual((reply.status, reply.json()["error"]["code"]), (503, "not_ready"))
        self.assertEqual(self.plane.talk.ask("GET", "/readyz").status, 200)
        again = self.plane.internal("POST", "/internal/usage/batch", batch("e1", "e2", "e3"))
        self.assertEqual((again.json()["recorded"], again.json()["duplicates"]), (1, 2))
        after = self.plane.admin("GET", "/admin/usage").json()["total"]
        self.assertEqual(after["requests"], 3 * before["requests"])
        self.assertTrue(self.port.listening)

    def test_while_down(self) -> None:
        """What needs stores says so and why; all else answers; keys and config wait."""
        self.start()
        body = b'{"name":"x","scope":"read_only"}'
        secret = self.plane.admin("POST", "/admin/admin-keys", body).json()["secret"]
        self.plane.slow_starts = True
        self.crash()
        self.assertEqual(self.reason(), RESTARTING)
        for target in ("/healthz", "/livez"):
            self.assertEqual(self.plane.talk.ask("GET", target).status, 200)
        reply = self.plane.internal("GET", "/internal/config")
        self.assertEqual((reply.status, reply.json()["error"]["code"]), (503, "not_ready"))
        for method, target in (
            ("GET", "/admin/keys"),
            ("GET", "/admin/usage"),
            ("GET", "/admin/audit"),
            ("GET", "/admin/requests"),
            ("DELETE", "/admin/keys/app"),
            ("POST", "/admin/reload"),
        ):
            reply = self.plane.admin(method, target)
            self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"), target)
        self.assertEqual(self.plane.admin("GET", "/admin/openapi.json").status, 200)
        self.assertIn(b"omnigate_stores_up 0.0\n", self.plane.scrape())
        bearer = ((b"authorization", b"Bearer " + secret.encode()),)
        self.assertEqual(self.plane.talk.ask("GET", "/metrics", bearer).status, 503)
        self.open()
        self.assertIn(b"omnigate_stores_up 1.0\n", self.plane.scrape())
        self.assertIn(b"omnigate_store_restarts_total 1.0\n", self.plane.scrape())
        self.assertEqual(self.plane.talk.ask("GET", "/metrics", bearer).status, 200)
        self.assertEqual(self.plane.internal("GET", "/internal/config").status, 200)

    def test_the_manager_is_told(self) -> None:
        """Ready once; then its status, down and up; and all the time that it is alive."""
        self.start()
        self.assertEqual(self.told[0], "READY=1\nSTATUS=ready: 1 keys, 1 upstreams, 1 routes")
        self.plane.slow_starts = True
        self.told.clear()
        self.crash()
        self.assertEqual(self.told, [f"STATUS=not ready: {RESTARTING}"])
        self.plane.clock.pump([1.0] * 10)
        self.assertEqual(self.told[1:], ["WATCHDOG=1"] * 2)
        self.told.clear()
        self.open()
        self.assertEqual(self.told, ["STATUS=ready: 1 keys, 1 upstreams, 1 routes"])
        # Twice at the start; then what was loaded goes, and what is loaded anew stays.
        self.assertEqual(self.memory, ["stays", "stays", "streams end", "goes", "stays"])

    def test_the_manager_is_told_of_configs(self) -> None:
        """Of each that was read, whoever had it read; faults last until the file is good."""
        good, bad = "STATUS=ready: 1 keys, 1 upstreams, 1 routes", "STATUS=ready: config file has 1"
        waits: tuple[Callable[[], object], ...] = (
            lambda: self.ending.hangup(),
            lambda: self.plane.admin("POST", "/admin/reload"),
            lambda: self.plane.clock.pump([0.1] * int(20 * POLL_SECONDS)),
        )
        self.start()
        for wait in waits:
            for text, words in ((CONFIG + "x = 1\n", bad), (CONFIG + "# \n", good)):
                self.told.clear()
                self.plane.write_config(text)
                wait()
                status = [told for told in self.told if told.startswith("STATUS")]
                self.assertEqual([told.startswith(words) for told in status], [True], self.told)
        self.plane.write_config("x = 1\n")
        self.ending.hangup()
        self.crash()
        self.assertTrue(self.told[-1].startswith(bad), self.told)
        self.service.stopService()
        self.ending.hangup()
        self.assertEqual(self.told[-1], "STOPPING=1")

    def test_memory_comes_back_at_once(self) -> None:
        """Nothing large waits for the collector, which leaves alone what was loaded before."""
        self.start()
        self.plane.internal("POST", "/internal/usage/batch", batch("e1"))
        self.plane.internal("GET", "/internal/config")
        self.plane.admin("GET", "/admin/usage")
        plane = self.plane
        assert plane.ledger._recording is not None
        # An observer of the log may keep the ledger itself, which is empty by then.
        parts = (plane.ledger._recording.books, plane.watch, plane.book, plane.store)
        gone = [weakref.ref(part) for part in (*parts, plane.snapshots)]
        del parts
        gc.disable()
        self.addCleanup(gc.enable)
        plane.ledger._crashed(Failure(BrokenError()))
        self.flushLoggedErrors(BrokenError)
        plane.clock.advance(0)
        generation = plane.guard.current
        assert generation is not None
        plane.take(generation)
        left = [found for found in (reference() for reference in gone) if found is not None]
        self.assertEqual(left, [])

    def test_a_config_that_changes_meanwhile(self) -> None:
        """Found by itself or by SIGHUP, it is in force soon after the stores are up again."""
        for asked in (False, True):
            self.setUp()
            self.start()
            self.plane.slow_starts = True
            self.crash()
            self.plane.write_config(CONFIG.replace('"app"', '"website"'))
            if asked:
                self.ending.hangup()
            self.plane.clock.pump([0.1] * 50)
            self.assertFalse(any("STATUS=ready" in words for words in self.told[1:]))
            self.open()
            self.plane.clock.pump([0.1] * int(20 * POLL_SECONDS))
            self.flushLoggedErrors()
            reply = self.plane.admin("GET", "/admin/keys/website")
            self.assertEqual(reply.status, 200, asked)

    def test_what_kills_left_behind(self) -> None:
        """Half-written files are removed at a start, those of the operator are not."""
        names = ("keys.json", "admin_keys.json", "config_history.json")
        for name in names:
            for end in ("0123abcd.tmp", "bak"):
                with open(f"{self.folder}/{name}.{end}", "wb") as file:
                    file.write(b"{")
        self.start()
        left = [name for name in os.listdir(self.folder) if name.startswith(names)]
        self.assertEqual([name for name in left if name.endswith(".tmp")], [])
        self.assertEqual(len([name for name in left if name.endswith(".bak")]), 3)

    def test_a_config_that_breaks_something(self) -> None:
        """Stores that cannot take a config over are made anew, with that config; no key is left."""
        for home, name in ((KeyBook, "take"), (KeyBook, "clashes"), (Ledger, "keep")):
            self.setUp()
            self.start()
            self.plane.write_config(CONFIG.replace('"app"', '"website"'))
            broken = self.patch(home, name, breaks)
            self.ending.hangup()
            broken.restore()
            self.flushLoggedErrors(BrokenError)
            self.plane.clock.advance(0)
            generation = self.plane.guard.current
            assert generation is not None
            self.plane.take(generation)
            self.assertEqual(self.plane.guard.restarts, name != "clashes", name)
            self.assertEqual(self.plane.admin("GET", "/admin/keys/website").status, 200, name)
            self.assertEqual(self.plane.admin("GET", "/admin/keys/app").status, 404, name)

    def test_a_config_that_the_history_lacks(self) -> None:
        """It is added once more, and if that is what broke, no more."""
        for times in (1, 2):
            self.setUp()
            self.start()
            breaking = iter(range(times))
            added = config_history._add

            def add(*arguments: Any, left: Any = breaking, added: Any = added) -> Any:
                if next(left, None) is not None:
                    raise BrokenError
                return added(*arguments)

            patched = self.patch(config_history, "_add", add)
            self.plane.write_config(CONFIG.replace("600", "700"))
            self.ending.hangup()
            self.plane.clock.pump([0.0] * 5)
            patched.restore()
            self.assertEqual(len(self.flushLoggedErrors(BrokenError)), times)
            generation = self.plane.guard.current
            assert generation is not None
            self.plane.take(generation)
            self.assertEqual(self.plane.guard.restarts, times)
            entries = self.plane.admin("GET", "/admin/config/history").json()["entries"]
            actors = [entry["actor"] for entry in entries]
            self.assertEqual(actors, ["signal", "start"] if times == 1 else ["start"])

    def test_a_request_under_way(self) -> None:
        """A batch that waits behind one that crashes everything is answered 503, too."""
        self.start()
        self.plane.writer.holding = True
        channel, transport = self.plane.talk.connect()
        body = batch("e9")
        channel.dataReceived(request_bytes("POST", "/internal/usage/batch", INTERNAL, body))
        self.assertEqual(transport.value(), b"")
        self.plane.ledger._crashed(Failure(BrokenError()))
        self.flushLoggedErrors(BrokenError)
        self.plane.clock.advance(0)
        self.assertEqual(read_reply(transport.value())[0].status, 503)


class EndTests(RestartCase):
    """The process's end."""

    def test_stopped_while_down(self) -> None:
        """In order, and at once; no timer is left."""
        for slow in (True, False):
            self.setUp()
            self.start()
            self.plane.slow_starts = slow
            if slow:
                self.crash()
            else:
                os.mkdir(f"{self.folder}/keys.json")
                self.crash()
                self.assertEqual(self.reason(), PAUSING)
            self.successResultOf(self.service.stopService())
            self.assertEqual(self.ending.events, ["watch", "stopped"])
            self.assertFalse(self.port.listening)
            self.assertEqual(self.plane.clock.getDelayedCalls(), [])
            self.flushLoggedErrors()

    def test_a_first_start_that_fails(self) -> None:
        """Whichever store it is, one line says why, and nothing is tried again."""
        for name in ("audit.jsonl", "config_history.json", "ledger.jsonl"):
            self.setUp()
            os.mkdir(f"{self.folder}/{name}")
            self.start()
            self.plane.clock.advance(100)
            self.assertEqual(len(self.ending.events), 2, self.ending.events)
            line = self.ending.events[1]
            self.assertIn(name, line)
            self.assertNotIn("\n", line)
            self.assertEqual(self.plane.guard.restarts, 0)
            self.successResultOf(self.service.stopService())

    def test_a_crash_in_the_close(self) -> None:
        """The process ends, and does not say that it stopped in order."""
        self.start()
        self.plane.writer.holding = True
        stopping = self.service.stopService()
        self.plane.ledger._crashed(Failure(BrokenError()))
        self.flushLoggedErrors(BrokenError)
        self.plane.clock.advance(0)
        self.failureResultOf(stopping, BrokenError)
        self.assertEqual(self.ending.events, ["watch"])

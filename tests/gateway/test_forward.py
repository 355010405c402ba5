"""The jobs API on its way to the control plane and back."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.forward import HEAD_SECONDS, IDLE_SECONDS
from omnigate.gateway.forwards import MAX_FORWARDS, MAX_FORWARDS_OF_KEY, Forwards
from omnigate.gateway.job_paths import JOBS, MAX_JOB_BODY_BYTES, job_path
from omnigate.protocols.pool import UpstreamPool
from tests.planes.memory import (
    KEY,
    Connecting,
    FakeClient,
    FakeConnection,
    MemoryDataPlane,
    digest_of,
    get,
    key,
    reply,
    request,
)

TOKEN = "internal-token-0123456789"
JOB = b'{"model":"flux","input":{"prompt":"a red boat"}}'
MADE = b'{"id":"job_1","status":"queued"}'
CONTROL = "control"


class ForwardTests(SynchronousTestCase):
    """Requests to ``/v1/jobs`` and ``/v1/files``."""

    def setUp(self) -> None:
        self.set_up()

    def set_up(self, **changes: Any) -> None:
        """A plane whose one key has this."""
        self.plane = MemoryDataPlane(keys=[key(**changes)])
        client = ControlClient(None, self.plane.watchdog, "http://control.test:8081/at", TOKEN)
        self.pool = UpstreamPool(self.connect, self.plane.watchdog)
        client._pool = self.pool
        self.forwards = self.plane.plane.forwards = Forwards(client)

    def connect(self, build: Any) -> Deferred[IProtocol]:
        """The control plane lets a connection in, or not."""
        if self.plane.slow:
            waiting = Connecting(self.plane, CONTROL, build)
            self.plane.connecting.append(waiting)
            return waiting.deferred
        if CONTROL in self.plane.refusing:
            return fail(ConnectionRefusedError())
        return succeed(self.plane.connected(CONTROL, build).protocol)

    def ask(self, data: bytes) -> FakeClient:
        """A client sends a request."""
        client = self.plane.client()
        client.send(data)
        return client

    def create(self, headers: bytes = b"", body: bytes = JOB) -> FakeClient:
        """A client asks for a job."""
        return self.ask(request(body, b"/v1/jobs", headers))

    @property
    def control(self) -> FakeConnection:
        """The newest connection to the control plane."""
        return self.plane.last

    def nothing_held(self) -> None:
        """Every place was given back."""
        self.assertEqual((0, 0), (self.forwards.count, self.plane.in_flight))
        self.assertEqual(0, self.plane.plane.admission.memory_bytes)

    def test_what_is_sent(self) -> None:
        """A path, the body, and of the client's headers the idempotency key alone."""
        self.create(b"idempotency-key: boat-1\r\ncookie: a=b\r\nx-omnigate-internal: me\r\n")
        head, _, body = self.control.requests().partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        self.assertEqual(b"POST /at/internal/v1/jobs HTTP/1.1", lines[0])
        names = {line.split(b":")[0]: line.split(b": ")[1] for line in lines[1:]}
        self.assertEqual(JOB, body)
        self.assertEqual(
            {
                b"host": b"control.test:8081",
                b"x-omnigate-internal": TOKEN.encode(),
                b"user-agent": names[b"user-agent"],
                b"accept": b"application/json",
                b"x-omnigate-request-id": self.plane.plane.exchanges[0].id.encode(),
                b"x-omnigate-key-sha256": digest_of(KEY).encode(),
                b"idempotency-key": b"boat-1",
                b"content-type": b"application/json",
                b"content-length": b"%d" % len(JOB),
            },
            names,
        )

    def test_what_comes_back(self) -> None:
        """Status, content type, the headers named, and no other."""
        client = self.create()
        self.control.answer(
            reply(MADE, b"202 Accepted", b"set-cookie: a=b\r\nretry-after: 2\r\nserver: x\r\n")
        )
        told = client.answer
        self.assertEqual((202, MADE, True), (told.status, told.body, told.whole))
        exchange = self.plane.plane.exchanges[0]
        self.assertEqual(exchange.id.encode(), told.headers[b"x-omnigate-request-id"])
        self.assertEqual(b"2", told.headers[b"retry-after"])
        self.assertNotIn(b"set-cookie", told.headers)
        self.assertNotIn(b"server", told.headers)
        line = self.plane.lines[-1]
        self.assertEqual(
            ("k1", "/v1/jobs", 202, "flux"), (line.key, line.path, line.status, line.route)
        )
        self.assertEqual(([], []), (self.plane.events, self.plane.refused))
        self.nothing_held()

    def test_a_refusal_is_counted_by_its_code(self) -> None:
        """The control plane's own words go to the client."""
        client = self.create()
        refusal = (
            b'{"error":{"message":"no","type":"rate_limit_error","code":"too_many_open_jobs"}}'
        )
        self.control.answer(reply(refusal, b"429 x"))
        self.assertEqual((429, refusal), (client.answer.status, client.answer.body))
        client = self.ask(get(b"/v1/jobs/job_none"))
        self.control.answer(reply(b"<html>", b"404 x"))
        self.assertEqual(404, client.answer.status)
        self.assertEqual([("k1", "too_many_open_jobs"), ("k1", "not_found")], self.plane.refused)
        self.nothing_held()

    def test_a_refusal_of_the_data_plane(self) -> None:
        """What is the operator's to mend is not told to a client as a fault of its key."""
        for status, code in ((b"401 x", b"invalid_token"), (b"429 x", b"too_many_attempts")):
            refusal = b'{"error":{"message":"the token","type":"x","code":"%b"}}' % code
            for asked in (get(b"/v1/jobs"), request(JOB, b"/v1/jobs")):
                client = self.ask(asked)
                self.control.answer(reply(refusal, status))
                self.assertEqual(
                    (502, "control_plane_unavailable"), (client.answer.status, client.answer.code)
                )
                self.assertNotIn(b"token", client.answer.body)
        self.nothing_held()

    def test_who_may_not(self) -> None:
        """No key, one that is for other endpoints, one without a budget; which may still read."""
        self.assertEqual(
            401, self.ask(request(JOB, b"/v1/jobs", secret="og-unknown-0123456789")).answer.status
        )
        self.set_up(endpoints=("chat",))
        self.assertEqual("endpoint_not_allowed", self.create().answer.code)
        self.set_up(blocked=True)
        self.assertEqual("budget_exceeded", self.create().answer.code)
        self.assertEqual([], self.plane.opened)
        for asked in (
            get(b"/v1/jobs?limit=5"),
            get(b"/v1/jobs/job_1"),
            request(b"{}", b"/v1/jobs/job_1/cancel"),
            get(b"/v1/files/job_1/0"),
        ):
            client = self.ask(asked)
            self.control.answer(reply(b"{}"))
            self.assertEqual(200, client.answer.status)
        self.nothing_held()

    def test_a_cancel_sends_no_body(self) -> None:
        """Whatever the client sent with it."""
        self.ask(request(b'{"x":[[[[', b"/v1/jobs/job_1/cancel"))
        head, _, body = self.control.requests().partition(b"\r\n\r\n")
        self.assertIn(b"POST /at/internal/v1/jobs/job_1/cancel HTTP/1.1\r\n", head)
        self.assertIn(b"content-length: 0", head)
        self.assertEqual(b"", body)

    def test_the_rate_counts_for_creating_alone(self) -> None:
        """Before the body is read."""
        self.set_up(rpm=1)
        self.create()
        head = request(JOB, b"/v1/jobs").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        client = self.ask(head)
        self.assertEqual("rate_limit_exceeded", client.answer.code)
        for _ in range(3):
            client = self.ask(get(b"/v1/jobs/job_1"))
            self.control.answer(reply(b"{}"))
            self.assertEqual(200, client.answer.status)

    def test_bodies_that_are_refused(self) -> None:
        """Too large, too deep, no JSON: nothing is sent."""
        large = request(JOB, b"/v1/jobs").partition(b"content-length")[0]
        client = self.ask(large + b"content-length: %d\r\n\r\n" % (MAX_JOB_BODY_BYTES + 1))
        self.assertEqual((413, "request_too_large"), (client.answer.status, client.answer.code))
        deep = b'{"model":"flux","input":' + b"[" * 70 + b"]" * 70 + b"}"
        for body in (deep, b"[]", b"{", b'{"input":{}}', b'{"model":"a","model":"b"}'):
            client = self.create(body=body)
            self.assertEqual(400, client.answer.status, body)
        self.assertEqual([], self.plane.opened)
        self.nothing_held()

    def test_a_body_in_pieces(self) -> None:
        """Is sent whole."""
        body = JOB[:-1] + b',"metadata":{"x":"' + b"y" * 200_000 + b'"}}'
        whole = request(body, b"/v1/jobs")
        client = self.plane.client()
        for at in range(0, len(whole), 7000):
            client.send(whole[at : at + 7000])
        self.assertTrue(self.control.requests().endswith(body))
        self.control.answer(reply(MADE, b"202 x"))
        self.assertEqual(202, client.answer.status)
        self.nothing_held()

    def test_idempotency_keys(self) -> None:
        """Visible ASCII, and nothing else."""
        for bad in (b"a b", b"\xc3\xa4", b"x" * 256, b""):
            client = self.create(b"idempotency-key: %b\r\n" % bad)
            self.assertEqual(400, client.answer.status, bad)
        self.assertEqual([], self.plane.opened)
        self.nothing_held()

    def test_methods(self) -> None:
        """Each path names those it takes."""
        for sent, allowed in (
            (get(b"/v1/jobs", method=b"DELETE"), b"GET, HEAD, POST"),
            (get(b"/v1/jobs/job_1/cancel"), b"POST"),
            (request(b"{}", b"/v1/files/job_1/0"), b"GET, HEAD"),
        ):
            told = self.ask(sent).answer
            self.assertEqual((405, allowed), (told.status, told.headers[b"allow"]))

    def test_paths(self) -> None:
        """What is no path of the API is none."""
        for path in (
            "/v1/jobs/",
            "/v1/jobsx",
            "/v1/jobs/a/b",
            "/v1/files/a",
            "/v1/files/a/b",
            "/v1/jobs/a.b",
        ):
            self.assertIsNone(job_path(path), path)
        self.assertEqual(404, self.ask(get(b"/v1/files/a/b")).answer.status)
        found = job_path("/v1/jobs/job_01")
        assert found is not None
        self.assertEqual((JOBS, False), (found.kind, found.creates))

    def test_a_signed_address_needs_no_key(self) -> None:
        """The control plane judges the signature; a key that is sent all the same must be one."""
        signed = b"/v1/files/job_1/0?expires=1&signature=ab"
        client = self.ask(get(signed, b"range: bytes=0-9\r\n", secret=""))
        sent = self.control.requests()
        self.assertIn(b"GET /at/internal/v1/files/job_1/0?expires=1&signature=ab HTTP/1.1", sent)
        self.assertIn(b"range: bytes=0-9", sent)
        self.assertNotIn(b"key-sha256", sent)
        self.control.answer(
            reply(
                b"0123456789", b"206 x", b"content-range: bytes 0-9/20\r\naccept-ranges: bytes\r\n"
            )
        )
        self.assertEqual(
            (206, b"bytes 0-9/20"), (client.answer.status, client.answer.headers[b"content-range"])
        )
        self.assertEqual(401, self.ask(get(signed, secret="og-unknown-0123456789")).answer.status)
        self.assertEqual(401, self.ask(get(b"/v1/files/job_1/0", secret="")).answer.status)
        self.assertEqual(401, self.ask(get(b"/v1/jobs?signature=ab", secret="")).answer.status)
        self.nothing_held()

    def test_ranges(self) -> None:
        """They go on with GET, and with the state of the file that they are of."""
        tag = b'"%b"' % (b"ab" * 32)
        for method, lines, wanted in (
            (b"GET", b"range: bytes=5-\r\n", b"range: bytes=5-\r\n"),
            (b"GET", b"range: bytes=-5\r\nif-range: %b\r\n" % tag, b"if-range: %b\r\n" % tag),
            (b"GET", b"range: bytes=5-\r\nif-range: W/%b\r\n" % tag, b""),
            (b"GET", b"range: bytes=5-\r\nif-range: Tue, 03 Nov 2026 10:00:00 GMT\r\n", b""),
            (b"GET", b"range: bytes=1-2,5-\r\n", b""),
            (b"HEAD", b"range: bytes=5-\r\n", b""),
        ):
            client = self.ask(get(b"/v1/files/job_1/0", lines).replace(b"GET", method, 1))
            sent = self.control.requests().rpartition(b"GET ")[2]
            self.assertIn(wanted, sent, lines)
            self.assertEqual(b"range: bytes" in sent, bool(wanted), lines)
            self.control.answer(reply(b"0123456789", b"200 x"))
            self.assertEqual(200, client.answer.status)
        self.nothing_held()

    def test_a_long_answer_keeps_its_length(self) -> None:
        """It goes out as it comes, held to what was declared."""
        client = self.ask(get(b"/v1/files/job_1/0"))
        size = 300_000
        head = b"HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\ncontent-length: %d\r\n\r\n" % size
        self.control.answer(head + b"a" * 70_000)
        self.assertEqual(
            (b"%d" % size, False), (client.answer.headers[b"content-length"], client.answer.whole)
        )
        self.assertEqual([], self.plane.lines)
        self.control.answer(b"b" * (size - 70_000))
        told = client.answer
        self.assertEqual((200, size, True), (told.status, len(told.body), told.whole))
        self.assertEqual(size, self.plane.lines[-1].bytes_out)
        self.assertTrue(client.open)
        self.nothing_held()

    def test_a_long_answer_in_chunks(self) -> None:
        """Is chunked to the client, too."""
        client = self.ask(get(b"/v1/jobs"))
        piece = b"%x\r\n%b\r\n" % (70_000, b"x" * 70_000)
        self.control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + piece)
        self.control.answer(piece + b"0\r\n\r\n")
        self.assertEqual((140_000, True), (len(client.answer.body), client.answer.whole))
        self.nothing_held()

    def test_an_answer_that_is_cut_short_early(self) -> None:
        """Nothing was sent: the client is told."""
        for cut in (b"", b"HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\nabc"):
            client = self.ask(get(b"/v1/files/job_1/0"))
            control = self.control
            control.answer(cut) if cut else None
            control.close(ConnectionLost)
            self.assertEqual(
                (502, "control_plane_unavailable"), (client.answer.status, client.answer.code)
            )
        self.assertEqual([("k1", "control_plane_unavailable")] * 2, self.plane.refused)
        self.nothing_held()

    def test_an_answer_that_is_cut_short_late(self) -> None:
        """The client sees that it is not whole."""
        client = self.ask(get(b"/v1/files/job_1/0"))
        self.control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"a" * 100_000)
        self.control.close(ConnectionLost)
        self.assertFalse(client.answer.whole)
        self.assertFalse(client.open)
        self.assertEqual([("k1", "upstream_cut")], self.plane.refused)
        self.nothing_held()

    def test_answers_that_cannot_be_read(self) -> None:
        """Without an end, in two lengths, or no HTTP at all."""
        for junk in (
            b"HTTP/1.1 200 OK\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            b"junk\r\n\r\n",
        ):
            client = self.ask(get(b"/v1/jobs"))
            self.control.answer(junk)
            self.assertEqual(
                (502, "control_plane_unavailable"), (client.answer.status, client.answer.code)
            )
        self.nothing_held()

    def test_no_control_plane(self) -> None:
        """It is away, or says nothing."""
        self.plane.refusing.add(CONTROL)
        self.assertEqual("control_plane_unavailable", self.create().answer.code)
        self.plane.refusing.clear()
        client = self.create()
        self.plane.advance(HEAD_SECONDS + 2, 1.0)
        self.assertEqual("control_plane_unavailable", client.answer.code)
        client = self.ask(get(b"/v1/files/job_1/0"))
        self.control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"a" * 100_000)
        self.plane.advance(IDLE_SECONDS + 2, 1.0)
        self.assertFalse(client.answer.whole)
        self.nothing_held()

    def test_reads_are_sent_again_on_a_stale_connection_and_jobs_never(self) -> None:
        """A job that may have been read is not sent twice."""
        client = self.ask(get(b"/v1/jobs"))
        first = self.control
        first.answer(reply(b"{}"))
        client = self.ask(get(b"/v1/jobs"))
        self.assertIs(first, self.control)
        first.close(ConnectionDone)
        self.assertIsNot(first, self.control)
        self.control.answer(reply(b"{}"))
        self.assertEqual(200, client.answer.status)
        kept = self.control
        client = self.create()
        self.assertIsNot(kept, self.control)
        opened = len(self.plane.opened)
        self.control.close(ConnectionDone)
        self.assertEqual((502, opened), (client.answer.status, len(self.plane.opened)))
        self.nothing_held()

    def test_a_client_that_leaves(self) -> None:
        """What it asked to read is dropped; whether its job was made is learnt all the same."""
        client = self.ask(get(b"/v1/jobs"))
        client.leave()
        self.assertFalse(self.control.open)
        self.assertEqual([("k1", "client_disconnected")], self.plane.refused)
        client = self.create()
        client.leave()
        self.assertTrue(self.control.open)
        self.assertEqual(1, self.forwards.count)
        self.control.answer(reply(MADE, b"202 x"))
        self.assertEqual(1, len(self.plane.refused))
        self.assertEqual(202, self.plane.lines[-1].status)
        client = self.create()
        client.leave()
        self.control.close(ConnectionLost)
        self.nothing_held()

    def test_a_client_that_leaves_while_it_connects(self) -> None:
        """Nothing was sent, and nothing is."""
        self.plane.slow = True
        client = self.create()
        client.leave()
        self.assertTrue(self.plane.connecting[-1].canceled)
        self.assertEqual([("k1", "client_disconnected")], self.plane.refused)
        self.nothing_held()

    def test_a_client_that_takes_nothing(self) -> None:
        """It is given up on, and its answer with it."""
        client = self.ask(get(b"/v1/files/job_1/0"))
        client.stall(1000)
        self.control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n" + b"a" * 400_000)
        self.plane.advance(62, 1.0)
        self.assertFalse(self.control.open)
        self.assertEqual([("k1", "client_disconnected")], self.plane.refused)
        self.nothing_held()

    def test_a_client_that_takes_next_to_nothing(self) -> None:
        """Its place is for somebody else; one that is slow is borne."""
        for least, stays in ((500, False), (40_000, True)):
            self.set_up()
            client = self.ask(get(b"/v1/files/job_1/0"))
            client.stall(1000)
            head = b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n"
            self.control.answer(head + b"a" * 400_000)
            for _ in range(6):
                client.take(least)
                self.plane.advance(20, 1.0)
            self.assertEqual(stays, self.control.open)
            self.assertEqual([] if stays else [("k1", "client_disconnected")], self.plane.refused)

    def test_a_file_that_the_client_has(self) -> None:
        """It is told so, without a body or a length."""
        tag = b'"' + b"ab" * 32 + b'"'
        client = self.ask(get(b"/v1/files/job_1/0", b"if-none-match: %b\r\n" % tag))
        self.assertIn(b"if-none-match: " + tag, self.control.requests())
        self.control.answer(b"HTTP/1.1 304 x\r\netag: %b\r\n\r\n" % tag)
        [told] = client.answers(b"GET")
        self.assertEqual((304, tag, b""), (told.status, told.headers[b"etag"], told.body))
        self.assertNotIn(b"content-length", told.headers)
        self.assertTrue(client.open)
        self.ask(get(b"/v1/files/job_1/0", b"if-none-match: *\r\n"))
        self.assertNotIn(b"if-none-match: *", self.control.requests())

    def test_head(self) -> None:
        """The head alone, with the length of what it stands for."""
        client = self.ask(get(b"/v1/files/job_1/0", method=b"HEAD"))
        self.control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n" + b"a" * 4000)
        [told] = client.answers(b"HEAD")
        self.assertEqual(
            (200, b"900000", b""), (told.status, told.headers[b"content-length"], told.body)
        )
        self.assertTrue(client.open)
        self.nothing_held()

    def test_refusals_of_head(self) -> None:
        """They are counted by their status, since nobody reads what they say."""
        for status, code in (
            (b"404 x", "not_found"),
            (b"429 x", "rate_limit_exceeded"),
            (b"401 x", "control_plane_unavailable"),
            (b"500 x", "control_plane_unavailable"),
        ):
            client = self.ask(get(b"/v1/jobs", method=b"HEAD"))
            self.control.answer(reply(b"{}", status))
            [told] = client.answers(b"HEAD")
            wanted = 502 if status == b"401 x" else int(status[:3])
            self.assertEqual((wanted, code), (told.status, self.plane.refused[-1][1]))
        self.nothing_held()

    def test_bounds(self) -> None:
        """No key keeps the others out, and all together do not take every connection."""
        held = [self.ask(get(b"/v1/jobs")) for _ in range(MAX_FORWARDS_OF_KEY)]
        self.assertEqual("concurrency_limit_exceeded", self.ask(get(b"/v1/jobs")).answer.code)
        signed = get(b"/v1/files/job_1/0?signature=ab", secret="")
        held += [self.ask(signed) for _ in range(MAX_FORWARDS_OF_KEY)]
        self.assertEqual("concurrency_limit_exceeded", self.ask(signed).answer.code)
        for client in held:
            client.leave()
        self.nothing_held()
        self.forwards.count = MAX_FORWARDS
        self.assertEqual("overloaded", self.create().answer.code)
        self.forwards.count = 0
        self.nothing_held()

    def test_a_place_of_the_key(self) -> None:
        """A job takes one of the requests that its key may have under way."""
        self.set_up(max_concurrent=1)
        self.create()
        self.assertEqual("concurrency_limit_exceeded", self.create().answer.code)
        self.control.answer(reply(MADE, b"202 x"))
        client = self.create()
        self.control.answer(reply(MADE, b"202 x"))
        self.assertEqual(202, client.answer.status)
        self.nothing_held()

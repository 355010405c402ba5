"""What is sent, where to, and what comes of every way in which an answer can be."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.client import GRACE_SECONDS, MAX_REDIRECTS, Outbound, total_seconds
from omnigate.outbound.dispatch import WAIT_SECONDS
from omnigate.outbound.exchange import IDLE_SECONDS
from omnigate.outbound.messages import (
    BAD_FRAMING,
    CONNECT_ERROR,
    CONNECTION_LOST,
    NO_TURN,
    NOT_KEPT,
    REFUSED,
    TIMEOUT,
    TOO_LARGE,
    TOO_MANY_REDIRECTS,
    TRUNCATED,
    Answer,
    BodyRefused,
    Cap,
    Request,
)
from tests.outbound.network import MemorySink, Network, Peer
from tests.outbound.test_addresses import CASES

PUBLIC = "93.184.216.34"
KEY = ("authorization", "Bearer sk-secret")
NAMES = {
    "api.example": ["10.0.0.7"],
    "cdn.example": [PUBLIC, "2606:4700:4700::1111"],
    "other.example": ["8.8.8.8"],
    "mixed.example": [PUBLIC, "192.168.1.1"],
}


class OutboundCase(SynchronousTestCase):
    """A client, and a network in memory."""

    def setUp(self) -> None:
        self.network = Network(NAMES)
        self.clock = self.network.clock
        self.outbound: Outbound = self.network.outbound()
        self.sink = MemorySink()

    def tearDown(self) -> None:
        """However it ended, nothing is left open and no timer runs."""
        closed = Deferred.fromCoroutine(self.outbound.close())
        self.network.turn()
        self.successResultOf(closed)
        self.assertEqual([peer for peer in self.network.peers if peer.open], [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def call(self, request: Request, max_bytes: int = 1024, **options: Any) -> Deferred[Answer]:
        return self.network.begin(self.outbound.call(request, max_bytes, **options))

    def fetch(self, url: str, max_bytes: int = 1024, **options: Any) -> Deferred[Answer]:
        return self.network.begin(self.outbound.fetch(url, max_bytes, self.sink, **options))

    def answer(self, begun: Deferred[Answer]) -> Answer:
        self.network.turn()
        return self.successResultOf(begun)

    @property
    def peer(self) -> Peer:
        return self.network.last


class CallTests(OutboundCase):
    """To the operator's own address."""

    request = Request("GET", "https://api.example:8443/v1/jobs?a=b", (KEY,))

    def test_what_is_sent(self) -> None:
        """The request as it was written, made one of HTTP; the address is not judged."""
        body = b'{"a":1}'
        request = Request("POST", "http://api.example/v1", (("Content-Type", "text/x"), KEY), body)
        answered = self.call(request)
        self.assertEqual(
            self.peer.heard,
            b"POST /v1 HTTP/1.1\r\nhost: api.example\r\ncontent-type: text/x\r\n"
            b"authorization: Bearer sk-secret\r\nuser-agent: omnigate\r\naccept: */*\r\n"
            b'accept-encoding: identity\r\ncontent-length: 7\r\n\r\n{"a":1}',
        )
        self.assertEqual(self.peer.address.number, "10.0.0.7")
        self.peer.answers(201, b"made", "X-Id: 1", "x-id: 2")
        answer = self.answer(answered)
        self.assertTrue(answer.ok)
        self.assertEqual((answer.status, answer.body), (201, b"made"))
        self.assertEqual(answer.headers, {"content-length": "4", "x-id": "1"})

    def test_what_cannot_be_overridden(self) -> None:
        """Framing and coding are ours to say; a header is one line."""
        hostile = (
            ("Host", "evil"),
            ("Content-Length", "9"),
            ("TE", "x"),
            ("accept-encoding", "br"),
        )
        answered = self.call(Request("GET", "http://api.example/", hostile))
        self.assertEqual(
            self.peer.heard,
            b"GET / HTTP/1.1\r\nhost: api.example\r\nuser-agent: omnigate\r\naccept: */*\r\n"
            b"accept-encoding: identity\r\n\r\n",
        )
        self.peer.answers(200)
        self.answer(answered)
        for bad in (("a\r\nb", "c"), ("a", "secret\r\nb: c"), ("", "c"), ("a", "é€")):
            answer = self.answer(self.call(Request("GET", "http://api.example/", (bad,))))
            self.assertEqual(answer.fault, REFUSED)
            self.assertNotIn("secret", answer.detail)
        answer = self.answer(self.call(Request("GET / HTTP/1.1\r\n", "http://api.example/")))
        self.assertEqual(answer.fault, REFUSED)
        self.assertEqual(len(self.network.peers), 1)

    def test_redirects_are_not_followed(self) -> None:
        """An answer 3xx is an answer."""
        answered = self.call(self.request)
        self.peer.answers(302, b"", "location: https://other.example/")
        answer = self.answer(answered)
        self.assertEqual((answer.status, answer.fault), (302, ""))
        self.assertEqual(len(self.network.peers), 1)

    def test_kept_connection(self) -> None:
        """A GET goes over a connection that was used before, a POST never."""
        answered = self.call(Request("POST", self.request.url, (), b"x"))
        self.peer.answers(200)
        self.answer(answered)
        for _ in range(3):
            answered = self.call(self.request)
            self.peer.answers(200, b"y")
            self.assertEqual(self.answer(answered).body, b"y")
        self.assertEqual(len(self.network.peers), 1)
        self.call(Request("POST", self.request.url)).addErrback(lambda _: None)
        self.assertEqual(len(self.network.peers), 2)

    def test_stale_connection(self) -> None:
        """A kept connection that was closed before a byte came: the GET is sent once more, anew."""
        answered = self.call(self.request)
        self.peer.answers(200)
        self.answer(answered)
        first = self.peer
        answered = self.call(self.request)
        first.closes()
        self.network.turn()
        self.peer.answers(200, b"again")
        self.assertEqual(self.answer(answered).body, b"again")
        self.assertEqual(len(self.network.peers), 2)
        # The new one closes as well: that is told.
        answered = self.call(self.request)
        self.peer.says(b"HTTP/1.1 200 ")
        self.peer.closes()
        self.assertEqual(self.answer(answered).fault, CONNECTION_LOST)
        self.assertEqual(len(self.network.peers), 2)

    def test_nothing_is_repeated_on_a_new_connection(self) -> None:
        """A request that may have been taken in is told of as lost."""
        answered = self.call(self.request)
        self.peer.closes(clean=False)
        answer = self.answer(answered)
        self.assertEqual((answer.status, answer.fault), (0, CONNECTION_LOST))
        self.assertEqual(len(self.network.peers), 1)

    def test_idle_connections_end(self) -> None:
        """Connections are kept for a while, and what is said on one that is idle closes it."""
        for act in (
            lambda: self.clock.advance(20),
            lambda: self.peer.says(b"HTTP/1.1 408 x\r\n\r\n"),
        ):
            answered = self.call(self.request)
            self.peer.answers(200)
            self.answer(answered)
            self.assertTrue(self.peer.open)
            act()
            self.assertFalse(self.peer.open)

    def test_not_kept_where_more_came_than_was_asked(self) -> None:
        """Bytes behind an answer are nobody's."""
        answered = self.call(self.request)
        self.peer.says(b"HTTP/1.1 200 x\r\ncontent-length: 1\r\n\r\nyHTTP/1.1 200 x\r\n")
        self.assertEqual(self.answer(answered).body, b"y")
        self.assertFalse(self.peer.open)

    def test_closed_in_order(self) -> None:
        """A connection that is not kept is closed in order, unless the peer takes too long."""
        for stubborn in (False, True):
            answered = self.fetch("https://cdn.example/a")
            self.peer.wire.stubborn = stubborn
            self.peer.answers(200, b"x")
            self.assertTrue(self.answer(answered).ok)
            self.assertFalse(self.peer.wire.broken)
            self.assertEqual(self.peer.wire.lost, not stubborn)
            self.clock.advance(5)
            self.network.turn()
            self.assertEqual((self.peer.wire.broken, self.peer.wire.lost), (stubborn, True))

    def test_few_wait_to_be_closed(self) -> None:
        """Of peers that never close only so many are waited for."""
        for _ in range(70):
            answered = self.fetch("https://cdn.example/a")
            self.peer.wire.stubborn = True
            self.peer.answers(200, b"x")
            self.assertTrue(self.answer(answered).ok)
        self.assertEqual([peer.wire.broken for peer in self.network.peers].count(True), 6)

    def test_next_address(self) -> None:
        """Where one address cannot be reached, the next is tried, over the same look-up."""
        self.network.names["api.example"] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        self.network.dead = {"10.0.0.1", "10.0.0.2"}
        answered = self.call(self.request)
        self.peer.answers(200)
        self.assertTrue(self.answer(answered).ok)
        self.assertEqual(
            [peer.number for peer in self.network.tried], ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        )
        self.assertEqual(self.network.asked, ["api.example"])

    def test_nobody_there(self) -> None:
        """Nothing was sent: no address, none that can be reached, no name in time."""
        self.network.dead = {"10.0.0.7"}
        self.network.names["slow.example"] = Deferred()
        for host in ("api.example", "nowhere.example"):
            answer = self.answer(self.call(Request("GET", f"https://{host}/")))
            self.assertEqual((answer.status, answer.fault), (0, CONNECT_ERROR))
        answered = self.call(Request("GET", "https://slow.example/"))
        self.clock.advance(5)
        answer = self.answer(answered)
        self.assertEqual(
            (answer.fault, answer.detail),
            (CONNECT_ERROR, "the host name was not looked up within 5 s"),
        )
        self.assertEqual(self.network.peers, [])

    def test_bad_url(self) -> None:
        """What an adapter built wrongly is told with the reason."""
        answer = self.answer(self.call(Request("GET", "https://u@api.example/")))
        self.assertEqual(
            (answer.fault, answer.detail), (REFUSED, "url not allowed: it has a user part")
        )

    def test_into_a_sink(self) -> None:
        """The body of a 2xx goes into the sink, that of an error into the answer."""
        request = Request("POST", self.request.url, cap=Cap.OUTPUT)
        answered = self.call(request, sink=self.sink)
        self.peer.answers(200, b"audio")
        answer = self.answer(answered)
        self.assertEqual((answer.body, self.sink.content), (b"", b"audio"))
        self.assertEqual(self.sink.told, ["begin", "finish"])
        answered = self.call(request, sink=self.sink)
        self.peer.answers(422, b"why")
        self.assertEqual(self.answer(answered).body, b"why")
        self.assertEqual(self.sink.told, ["begin", "finish"])


class BodyTests(OutboundCase):
    """How answers break."""

    request = Request("GET", "https://api.example/")

    def broken(self, *pieces: bytes, close: bool | None = None, **options: Any) -> Answer:
        answered = self.call(self.request, **options)
        for piece in pieces:
            self.peer.says(piece)
        if close is not None:
            self.peer.closes(clean=close)
        answer = self.answer(answered)
        if answer.fault:
            self.assertFalse(self.peer.open)
            self.assertEqual(answer.body, b"")
            self.assertNotEqual(answer.detail, "")
        return answer

    def test_framing(self) -> None:
        """Whatever may be read in two ways is not read at all."""
        head = b"HTTP/1.1 200 OK\r\n"
        for text in (
            b"HTTP/2 200 OK\r\n\r\n",
            b"220 mail ready\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
            head + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            head + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
            head + b"content-length: -1\r\n\r\n",
            head + b"transfer-encoding: gzip, chunked\r\n\r\n",
            head + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
            head + b"transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n",
            head + b"a: b\r\n c\r\n\r\n",
            head + b"a: b\n\n",
            head + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
            b"HTTP/1.1 101 Switching\r\n\r\n",
        ):
            answer = self.broken(text)
            self.assertEqual(answer.fault, BAD_FRAMING, text[:80])

    def test_endless_head(self) -> None:
        """A head that goes on is cut off at its bound."""
        answered = self.call(self.request)
        self.peer.says(b"HTTP/1.1 200 OK\r\n")
        sent = 0
        while self.peer.open:
            self.peer.says(b"x: %b\r\n" % (b"y" * 1000))
            sent += 1005
            self.assertLess(sent, 70_000)
        self.assertEqual(self.answer(answered).fault, BAD_FRAMING)

    def test_interim_heads(self) -> None:
        """A few are passed over, in one read with the answer or not."""
        text = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" * 2 + b"HTTP/1.1 200 x\r\n\r\nbody"
        self.assertEqual(self.broken(text, close=True).body, b"body")
        pieces = [text[at : at + 1] for at in range(len(text))]
        self.assertEqual(self.broken(*pieces, close=True).body, b"body")

    def test_cuts(self) -> None:
        """An answer that ends before its framing says so is none."""
        head = b"HTTP/1.1 200 OK\r\n"
        for text, fault, clean in (
            (b"", CONNECTION_LOST, True),
            (b"HTTP/1.1 2", CONNECTION_LOST, True),
            (head + b"content-length: 4\r\n\r\nabc", TRUNCATED, True),
            (head + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", TRUNCATED, True),
            (head + b"\r\nabc", TRUNCATED, False),
        ):
            self.assertEqual(self.broken(text, close=clean).fault, fault, text)
        self.assertEqual(self.broken(head + b"\r\nabc", close=True).body, b"abc")

    def test_too_large(self) -> None:
        """Where it is announced the body is not read; else reading stops right behind the cap."""
        head = b"HTTP/1.1 200 OK\r\n"
        announced = self.broken(head + b"content-length: 1025\r\n\r\n")
        chunked = self.broken(head + b"transfer-encoding: chunked\r\n\r\n401\r\n" + b"x" * 1025)
        endless = self.broken(head + b"\r\n", b"x" * 1024, b"y")
        for answer in (announced, chunked, endless):
            self.assertEqual(
                (answer.status, answer.fault, answer.detail),
                (200, TOO_LARGE, "the answer is larger than 1024 bytes"),
            )
        self.assertEqual(
            len(self.broken(head + b"content-length: 1024\r\n\r\n" + b"x" * 1024).body), 1024
        )

    def test_packed(self) -> None:
        """An answer that is packed though nobody asked for it is a fault, whatever is in it."""
        for coding in (b"gzip", b"br", b"identity, gzip", b"\xffx"):
            answer = self.broken(b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n\r\n" % coding)
            self.assertEqual(answer.fault, BAD_FRAMING)
            self.assertIn("packed", answer.detail)
        text = b"HTTP/1.1 200 OK\r\ncontent-encoding: Identity\r\ncontent-length: 1\r\n\r\nx"
        self.assertEqual(self.broken(text).body, b"x")

    def test_head_in_time(self) -> None:
        """The head has its time from the request on, whatever else is said."""
        answered = self.call(Request("GET", self.request.url, head_seconds=300))
        self.clock.advance(299)
        self.peer.says(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertNoResult(answered)
        self.clock.advance(1)
        answer = self.answer(answered)
        self.assertEqual((answer.fault, answer.detail), (TIMEOUT, "no answer within 300 s"))

    def test_silence(self) -> None:
        """Thirty seconds without a byte are enough, also right behind a head with much time."""
        answered = self.call(Request("GET", self.request.url, head_seconds=300))
        self.peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        for _ in range(4):
            self.clock.advance(IDLE_SECONDS - 1)
            self.peer.says(b"x")
        self.assertNoResult(answered)
        self.clock.advance(IDLE_SECONDS)
        answer = self.answer(answered)
        self.assertEqual((answer.status, answer.fault), (200, TIMEOUT))
        self.assertEqual(answer.detail, "30 s without a byte")

    def test_drip(self) -> None:
        """A body that comes slowly, but never pauses for long, ends at the total."""
        answered = self.call(self.request, 2**20)
        self.peer.says(b"HTTP/1.1 200 OK\r\n\r\n")
        total = 30 + total_seconds(2**20)
        self.assertEqual(total, 30 + GRACE_SECONDS + 4)
        for _ in range(int(total) - 1):
            self.clock.advance(1)
            self.peer.says(b"x")
        self.assertNoResult(answered)
        self.clock.advance(1)
        answer = self.answer(answered)
        self.assertEqual((answer.fault, answer.detail), (TIMEOUT, "it was not over within 94 s"))


class SinkTests(OutboundCase):
    """Between a peer and a disk."""

    def begun(self) -> Deferred[Answer]:
        answered = self.fetch("https://cdn.example/a")
        self.peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        return answered

    def test_back_pressure(self) -> None:
        """A slow disk slows the peer, whose time stands still meanwhile, but not the total."""
        answered = self.begun()
        assert self.sink.source is not None
        self.sink.source.pause()
        self.assertTrue(self.peer.paused)
        self.clock.advance(IDLE_SECONDS + 1)
        self.sink.source.resume()
        self.assertFalse(self.peer.paused)
        self.clock.advance(IDLE_SECONDS - 1)
        self.assertNoResult(answered)
        self.sink.source.pause()
        self.clock.advance(GRACE_SECONDS)
        self.assertEqual(self.answer(answered).fault, TIMEOUT)
        self.assertEqual(self.sink.told, ["begin", "abandon"])

    def test_kept_late(self) -> None:
        """The answer is there when the body is on the disk."""
        self.sink.done = Deferred()
        answered = self.begun()
        self.peer.says(b"cd")
        self.network.turn()
        self.assertNoResult(answered)
        self.sink.done.callback(None)
        self.assertTrue(self.answer(answered).ok)
        self.assertEqual((self.sink.content, self.sink.told), (b"abcd", ["begin", "finish"]))

    def test_disk_full(self) -> None:
        """What the disk does not take is told as not kept, at a piece or at the end."""
        self.sink.refuses = OSError(28, "No space left on device", "/var/lib/omnigate/media/x")
        answer = self.answer(self.begun())
        self.assertEqual((answer.status, answer.fault), (200, NOT_KEPT))
        self.assertEqual(answer.detail, "no space left on device")
        self.assertFalse(self.peer.open)
        self.sink = MemorySink()
        self.sink.done = Deferred()
        answered = self.begun()
        self.peer.says(b"cd")
        self.sink.done.errback(OSError(28, "No space left on device"))
        self.assertEqual(self.answer(answered).fault, NOT_KEPT)
        self.assertEqual(self.sink.told, ["begin", "finish", "abandon"])

    def test_disk_that_hangs(self) -> None:
        """A disk that says nothing any more is given up with the total."""
        self.sink.done = Deferred()
        answered = self.begun()
        self.peer.says(b"cd")
        self.clock.advance(GRACE_SECONDS + 1)
        self.assertEqual(self.answer(answered).fault, TIMEOUT)
        self.assertEqual(self.sink.told, ["begin", "finish", "abandon"])
        self.sink.done.callback(None)

    def test_refused_by_the_sink(self) -> None:
        """A sink may say what is wrong itself."""
        self.sink.refuses = BodyRefused(TOO_LARGE, "much too large")
        answer = self.answer(self.begun())
        self.assertEqual((answer.fault, answer.detail), (TOO_LARGE, "much too large"))
        self.assertEqual(self.sink.told, ["begin", "abandon"])

    def test_cut(self) -> None:
        """A body that is cut is thrown away."""
        answered = self.begun()
        self.peer.closes()
        self.assertEqual(self.answer(answered).fault, TRUNCATED)
        self.assertEqual(self.sink.told, ["begin", "abandon"])

    def test_canceled(self) -> None:
        """Whoever cancels has the connection closed and the sink told, once."""
        for late in (False, True):
            self.sink = MemorySink()
            self.sink.done = Deferred()
            answered = self.begun()
            if late:
                self.peer.says(b"cd")
            answered.cancel()
            self.failureResultOf(answered, CancelledError)
            self.network.turn()
            self.assertFalse(self.peer.open)
            self.assertEqual(self.sink.told[-1], "abandon")
            self.assertEqual(self.sink.told.count("abandon"), 1)


class FetchTests(OutboundCase):
    """From where a provider says that a file is."""

    def test_by_number(self) -> None:
        """The connection goes to the address that was judged; host and certificate by the name."""
        answered = self.fetch("https://CDN.example:8443/a?b#c")
        self.assertIn(b"GET /a?b HTTP/1.1\r\nhost: cdn.example:8443\r\n", self.peer.heard)
        self.assertIn(b"connection: close\r\n", self.peer.heard)
        address = self.peer.address
        self.assertEqual(
            (address.host, address.number, address.port), ("cdn.example", PUBLIC, 8443)
        )
        self.peer.answers(200, b"png", "content-type: image/png")
        answer = self.answer(answered)
        self.assertEqual(answer.headers["content-type"], "image/png")
        self.assertEqual((answer.body, self.sink.content), (b"", b"png"))

    def test_golden_cases(self) -> None:
        """Every URL is fetched or refused as it must be, and refused before anybody is reached."""
        for case in CASES["urls"]:
            self.network.names = case["dns"]
            self.network.peers.clear()
            self.sink = MemorySink()
            # Plain http is allowed where the target's own address is so.
            answered = self.fetch(case["url"], own_origin="http://api.example")
            self.assertEqual(bool(self.network.peers), case["allowed"], case)
            if case["allowed"]:
                self.peer.answers(200)
            self.assertEqual(self.answer(answered).ok, case["allowed"])

    def test_every_address_must_be_allowed(self) -> None:
        """One private address among public ones is as if all were."""
        for host in ("mixed.example", "10.0.0.1", "[::1]", "api.example"):
            answer = self.answer(self.fetch(f"https://{host}/a"))
            self.assertEqual((answer.fault, answer.detail), (REFUSED, "address not allowed"))
        self.network.names["zone.example"] = ["fe80::1%eth0"]
        self.assertEqual(self.answer(self.fetch("https://zone.example/a")).fault, REFUSED)
        self.assertEqual(self.network.tried, [])
        self.assertEqual(self.sink.told, [])

    def test_rebinding(self) -> None:
        """There is no second look-up that could say something else."""
        answered = self.fetch("https://cdn.example/a")
        self.network.names["cdn.example"] = ["127.0.0.1"]
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)
        self.assertEqual(self.network.asked, ["cdn.example"])
        # A hop to the same name is another request, so it is looked up and judged again.
        self.network.names["cdn.example"] = [PUBLIC]
        answered = self.fetch("https://cdn.example/a")
        self.network.names["cdn.example"] = ["127.0.0.1"]
        self.peer.answers(302, b"", "location: /b")
        self.assertEqual(self.answer(answered).detail, "address not allowed")
        self.assertEqual(len(self.network.peers), 2)

    def test_guarded_connections_are_not_kept(self) -> None:
        """What was judged then is judged again for the next."""
        for _ in range(2):
            answered = self.fetch("https://cdn.example/a")
            self.peer.answers(200, b"x")
            self.answer(answered)
            self.assertFalse(self.peer.open)
        self.assertEqual(len(self.network.peers), 2)

    def redirect(self, location: str, status: int = 302, **options: Any) -> Answer:
        answered = self.fetch("https://cdn.example/a", **options)
        self.peer.answers(status, b"body", f"location: {location}")
        return self.answer(answered)

    def test_where_redirects_must_not_lead(self) -> None:
        """Each target is checked whole, and refused before a connection is made."""
        for location, detail in (
            ("http://169.254.169.254/latest/meta-data/", "address not allowed"),
            ("https://[::ffff:169.254.169.254]/", "address not allowed"),
            ("https://api.example/", "address not allowed"),
            ("https://mixed.example/", "address not allowed"),
            ("file:///etc/passwd", "url not allowed"),
            ("gopher://cdn.example/", "url not allowed"),
            ("http://cdn.example/", "url not allowed"),
            ("http://8.8.8.8/", "url not allowed"),
            ("https://me:pw@cdn.example/", "url not allowed"),
            ("https://0x7f.1/", "url not allowed"),
            ("/a b", "url not allowed"),
            ("", "url not allowed"),
        ):
            before = len(self.network.tried)
            answer = self.redirect(location)
            self.assertEqual((answer.fault, answer.detail), (REFUSED, detail), location)
            self.assertEqual(len(self.network.tried), before + 1, location)
        self.assertEqual(self.sink.told, [])

    def test_https_never_becomes_http(self) -> None:
        """Not even where http would have been allowed to begin with."""
        answer = self.redirect("http://cdn.example/", own_origin="http://api.example")
        self.assertEqual(answer.detail, "url not allowed")
        answered = self.fetch("http://cdn.example/", own_origin="http://api.example")
        self.peer.answers(302, b"", "location: http://other.example/b")
        self.network.turn()
        self.assertEqual(self.peer.address.number, "8.8.8.8")
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)

    def test_two_locations(self) -> None:
        """Which of two is meant nobody knows."""
        answered = self.fetch("https://cdn.example/a")
        self.peer.answers(302, b"", "location: /b", "Location: /c")
        self.assertEqual(self.answer(answered).detail, "url not allowed")

    def test_followed(self) -> None:
        """All five kinds are, as a GET; their bodies are not read."""
        for status in (301, 302, 303, 307, 308):
            self.sink = MemorySink()
            answered = self.fetch("https://cdn.example/a")
            self.peer.says(b"HTTP/1.1 %d x\r\nlocation: //other.example/b\r\n\r\n" % status)
            self.network.turn()
            self.assertTrue(
                self.peer.heard.startswith(b"GET /b HTTP/1.1\r\nhost: other.example\r\n")
            )
            self.peer.answers(200, b"x")
            self.assertTrue(self.answer(answered).ok)
            self.assertEqual(self.sink.content, b"x")

    def test_loop(self) -> None:
        """Five are followed, the sixth is not."""
        answered = self.fetch("https://cdn.example/0")
        for at in range(MAX_REDIRECTS + 1):
            self.assertIn(b"GET /%d " % at, self.peer.heard)
            self.peer.answers(302, b"", f"location: /{at + 1}")
            self.network.turn()
        answer = self.answer(answered)
        self.assertEqual((answer.fault, answer.detail), (TOO_MANY_REDIRECTS, "too many redirects"))
        self.assertEqual(len(self.network.peers), MAX_REDIRECTS + 1)

    def test_total_over_all_hops(self) -> None:
        """Redirects do not begin the time anew."""
        answered = self.fetch("https://cdn.example/0", seconds=40)
        self.clock.advance(29)
        self.peer.answers(302, b"", "location: /1")
        self.network.turn()
        self.clock.advance(10)
        self.assertNoResult(answered)
        self.clock.advance(1)
        self.assertEqual(self.answer(answered).detail, "it was not over within 40 s")

    def test_other_statuses(self) -> None:
        """What is no file is told by its status."""
        for status in (400, 404, 500, 304, 300):
            answered = self.fetch("https://cdn.example/a")
            self.peer.answers(status, b"", "location: /b")
            answer = self.answer(answered)
            self.assertEqual(answer.detail, f"the provider's file answered {status}")
            self.assertEqual((answer.ok, answer.fault), (False, ""))
        answered = self.fetch("https://cdn.example/a")
        self.peer.answers(302)
        self.assertEqual(self.answer(answered).detail, "the provider's file answered 302")

    def test_no_whole_file(self) -> None:
        """A part that nobody asked for, and a yes without a file, are none."""
        for status in (201, 202, 204, 205, 206, 226):
            answered = self.fetch("https://cdn.example/a")
            self.peer.answers(status, b"part", "content-range: bytes 0-3/9")
            answer = self.answer(answered)
            self.assertEqual((answer.ok, answer.fault), (False, TRUNCATED))
            self.assertEqual(answer.detail, f"it answered {status}")
        self.assertEqual(self.sink.told, [])

    def test_too_large(self) -> None:
        """In the words that a job tells."""
        answered = self.fetch("https://cdn.example/a")
        self.peer.answers(200, b"x" * 1025)
        answer = self.answer(answered)
        self.assertEqual(
            (answer.fault, answer.detail), (TOO_LARGE, "output is larger than 1024 bytes")
        )
        self.assertEqual(self.sink.told, [])

    def test_credentials(self) -> None:
        """They go to the origin that they are for, on whichever hop that is, and nowhere else."""
        origin = "https://cdn.example"
        answered = self.fetch("https://cdn.example/a", headers=[KEY], own_origin=origin + ":443")
        for location, sent in (
            ("https://other.example/b", True),
            ("https://cdn.example:8443/c", False),
            ("https://cdn.example/d", False),
            ("", True),
        ):
            self.assertEqual(b"sk-secret" in self.peer.heard, sent, self.peer.heard)
            self.peer.answers(302 if location else 200, b"", f"location: {location}")
            self.network.turn()
        self.assertTrue(self.answer(answered).ok)

    def test_own_origin(self) -> None:
        """The operator named it, so its address may be any; another port is another origin."""
        own = "http://api.example:8080"
        answered = self.fetch(f"{own}/a", own_origin=own)
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)
        for url in ("http://api.example/a", "http://10.0.0.7:8080/a"):
            self.assertEqual(
                self.answer(self.fetch(url, own_origin=own)).detail, "address not allowed"
            )
        number = "http://127.0.0.1:8080"
        answered = self.fetch(f"{number}/a", own_origin=number)
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)

    def test_opened_networks(self) -> None:
        """What the operator opened is open, what was closed is not."""
        self.outbound = self.network.outbound(["10.0.0.0/24"], ["8.8.0.0/16"])
        answered = self.fetch("https://api.example/a")
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)
        self.assertEqual(self.answer(self.fetch("https://other.example/a")).fault, REFUSED)


class WebhookTests(OutboundCase):
    """To where a client says."""

    def post(self, url: str = "https://cdn.example/hook", **options: Any) -> Deferred[Answer]:
        options = {"allow_http": False, **options}
        return self.network.begin(
            self.outbound.post_guarded(Request("POST", url, (), b"{}"), **options)
        )

    def test_status_is_all(self) -> None:
        """Whatever becomes of the body, the status stands."""
        text = b"HTTP/1.1 200 OK\r\n"
        for more, act in (
            (b"content-length: 2\r\n\r\nok", lambda: None),
            (b"\r\n" + b"x" * 20_000, lambda: None),
            (b"content-length: 99\r\n\r\nok", lambda: self.peer.closes()),
            (b"transfer-encoding: chunked\r\n\r\nzz", lambda: None),
            (b"content-encoding: gzip\r\ncontent-length: 1\r\n\r\nz", lambda: None),
            (b"\r\nslow", lambda: self.clock.advance(15)),
        ):
            answered = self.post()
            self.peer.says(text + more)
            act()
            answer = self.answer(answered)
            self.assertEqual((answer.status, answer.fault, answer.body), (200, "", b""), more)
            self.assertFalse(self.peer.open)

    def test_guarded(self) -> None:
        """Addresses and URLs as for files; redirects are answers."""
        for url, detail in (
            ("https://api.example/", "address not allowed"),
            ("https://127.0.0.1/", "address not allowed"),
            ("http://cdn.example/", "url not allowed: its scheme is not https"),
            ("https://a@cdn.example/", "url not allowed: it has a user part"),
        ):
            answer = self.answer(self.post(url))
            self.assertEqual((answer.fault, answer.detail), (REFUSED, detail))
        self.assertEqual(self.network.tried, [])
        answered = self.post("http://cdn.example/", allow_http=True)
        self.peer.answers(307, b"", "location: https://other.example/")
        self.assertEqual(self.answer(answered).status, 307)
        self.assertEqual(len(self.network.peers), 1)

    def test_in_time(self) -> None:
        """Fifteen seconds in all, wherever they go."""
        answered = self.post()
        self.clock.advance(15)
        answer = self.answer(answered)
        self.assertEqual((answer.status, answer.fault), (0, TIMEOUT))


class BoundTests(OutboundCase):
    """How many at once, and the end."""

    def test_turns(self) -> None:
        """A server that hangs keeps its own callers waiting, and no others."""
        request = Request("GET", "http://api.example/", head_seconds=1000)
        begun = [Deferred.fromCoroutine(self.outbound.call(request, 9)) for _ in range(300)]
        for _ in range(30):
            self.network.turn()
        self.assertEqual(len(self.network.peers), 256)
        other = self.call(Request("GET", "http://other.example/"))
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(other).ok)
        self.network.peers[0].answers(200, b"y")
        self.network.turn()
        self.assertEqual(self.network.peers[0].heard.count(b"GET"), 2)
        self.clock.advance(WAIT_SECONDS)
        waited = [self.successResultOf(each) for each in begun if each.called]
        self.assertEqual(len(waited), 44)
        self.assertEqual({answer.fault for answer in waited}, {"", NO_TURN})
        for each in begun:
            each.addErrback(lambda _: None)

    def test_close(self) -> None:
        """What runs, waits or would begin is canceled; nothing is left."""
        self.network.names["slow.example"] = Deferred()
        running = self.fetch("https://cdn.example/a")
        self.peer.says(b"HTTP/1.1 200 OK\r\n\r\nabc")
        waiting = self.call(Request("GET", "https://slow.example/"))
        begun = Deferred.fromCoroutine(self.outbound.call(Request("GET", "http://api.example/"), 9))
        closed = Deferred.fromCoroutine(self.outbound.close())
        self.network.turn()
        self.successResultOf(closed)
        for each in (running, waiting, begun, self.call(Request("GET", "http://api.example/"))):
            self.failureResultOf(each, CancelledError)
        self.assertEqual(self.sink.told, ["begin", "abandon"])
        self.assertFalse(self.peer.open)

"""HTTP/1.1 gone through point by point: RFC 9110, RFC 9112, and the cases of uNetworking's h1spec.

Each point is sent on a connection of its own, with one more request behind it. So the answers show
two things at once: what the point is answered, and whether the connection is used after it. Where
the gateway differs from the RFC on purpose, the point names the row of the table in
``docs/internals.md`` that tells why.
"""

import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.corpus import http_points_heads, http_points_messages
from tests.corpus.http_point import BODY, KEY, SIZED, STREAM, Point, length, post
from tests.process.daemons import (
    ROOT,
    Gateway,
    key_table,
    route_table,
    shared,
    upstream_table,
)
from tests.process.raw import RawAnswer, answers_in, dial, exchange, read_rest

#: What follows each point; answered only where the connection is still good.
BEHIND = b"GET /livez HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


#: Headings of the list, and its points.
POINTS: dict[str, tuple[Point, ...]] = {
    "request line": http_points_heads.REQUEST_LINE,
    "target": http_points_heads.TARGET,
    "fields": http_points_heads.FIELDS,
    "host": http_points_heads.HOSTS,
    "lengths": http_points_messages.LENGTHS,
    "codings": http_points_messages.CODINGS,
    "connection": http_points_messages.CONNECTION,
    "expect": http_points_messages.EXPECT,
    "methods": http_points_messages.METHODS,
}

#: Rows of the table that show on the way to the provider and not here.
NOT_SEEN_HERE = {"`Via`"}


def config(provider_port: int) -> str:
    """One key, one provider, one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class ChecklistTests(SynchronousTestCase):
    """See the module's docstring."""

    def setUp(self) -> None:
        self.gateway = shared("http-checklist", lambda: Gateway(config).start())
        self.addCleanup(lambda: self.assertEqual(self.gateway.traces(), []))

    def go_through(self, heading: str) -> None:
        """Send each point, and hold every answer to what all answers owe."""
        for point in POINTS[heading]:
            data = exchange(self.gateway.data_port, point.sent + BEHIND)
            answers = answers_in(data, point.methods)
            statuses = point.statuses + ((200,) if point.kept else ())
            got = tuple(answer.status for answer in answers)
            self.assertEqual(got, statuses, (heading, point.name, data[:400]))
            for answer in answers[:-1]:
                self.assertFalse(answer.closes, point.name)
            # RFC 9112 §9.6: whoever closes says so with the last answer.
            self.assertTrue(answers[-1].closes, point.name)
            for answer in answers:
                self.hold(answer, point.name)

    def hold(self, answer: RawAnswer, name: str) -> None:
        """What RFC 9110 asks of every answer, and of some statuses."""
        self.assertTrue(answer.whole, name)
        self.assertEqual(answer.interim, (), name)
        date = parsedate_to_datetime(answer.headers["date"])
        self.assertLess(abs(date.timestamp() - time.time()), 60, name)
        self.assertEqual(answer.headers["content-type"], "application/json", name)
        for status, header in ((401, "www-authenticate"), (405, "allow"), (426, "upgrade")):
            if answer.status == status:
                self.assertTrue(answer.headers[header], name)
        if answer.status >= 400 and answer.body:
            self.assertTrue(answer.code and answer.json["error"]["message"], name)

    def test_request_line(self) -> None:
        """Methods, blanks, line ends and versions."""
        self.go_through("request line")

    def test_target(self) -> None:
        """All forms of a target, and its length."""
        self.go_through("target")

    def test_fields(self) -> None:
        """Header lines."""
        self.go_through("fields")

    def test_host(self) -> None:
        """One host, and a sound one."""
        self.go_through("host")

    def test_lengths(self) -> None:
        """Lengths of bodies."""
        self.go_through("lengths")

    def test_codings(self) -> None:
        """Transfer codings."""
        self.go_through("codings")

    def test_connection(self) -> None:
        """What becomes of the connection."""
        self.go_through("connection")

    def test_expect(self) -> None:
        """Expectations, where nobody waits for an interim answer."""
        self.go_through("expect")

    def test_methods(self) -> None:
        """Methods, conditions and wishes."""
        self.go_through("methods")

    def test_the_body_is_asked_for(self) -> None:
        """A client that waits gets its 100 where the body is wanted (RFC 9110 §10.1.1)."""
        with dial(self.gateway.data_port) as opened:
            opened.sendall(post(SIZED, b"Expect: 100-Continue\r\n", body=b""))
            self.assertEqual(opened.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            opened.sendall(BODY + BEHIND)
            answers = answers_in(read_rest(opened))
        self.assertEqual([answer.status for answer in answers], [200, 200])

    def test_the_body_is_not_asked_for(self) -> None:
        """Where it is not wanted the answer comes at once, and the end with it."""
        sized = post(b"Content-Length: 99999999\r\n", b"Expect: 100-continue\r\n", body=b"")
        for sent, status in ((sized, 413), (sized.replace(KEY, b""), 401)):
            with dial(self.gateway.data_port) as opened:
                opened.sendall(sent)
                [answer] = answers_in(read_rest(opened))
            self.assertEqual((answer.status, answer.interim), (status, ()))
            self.assertTrue(answer.closes)

    def test_streams(self) -> None:
        """HTTP/1.1 gets chunks, HTTP/1.0 a body that the end ends (RFC 9112 §6.1)."""
        sized = b"Content-Length: %d\r\n" % len(STREAM)
        bodies: list[bytes] = []
        for version, coded in ((b"1.1", "chunked"), (b"1.0", None)):
            sent = post(sized, body=STREAM, version=version)
            answers = answers_in(exchange(self.gateway.data_port, sent + BEHIND))
            self.assertEqual(len(answers), 1 if coded is None else 2)
            self.assertEqual(answers[0].headers.get("transfer-encoding"), coded)
            self.assertNotIn("content-length", answers[0].headers)
            self.assertTrue(answers[0].whole and "date" in answers[0].headers)
            bodies.append(re.sub(rb'"(?:id|created)":[^,]*', b"", answers[0].body))
        self.assertEqual(*bodies)
        self.assertTrue(bodies[0].endswith(b"data: [DONE]\n\n"))

    def test_fragments(self) -> None:
        """However little of a head has come, the rest is waited for (h1spec's "fragmented")."""
        head = BEHIND
        waiting = [dial(self.gateway.data_port) for _ in range(1, len(head))]
        try:
            for cut, opened in enumerate(waiting, 1):
                opened.sendall(head[:cut])
            self.assertEqual(self.gateway.get("/livez").status, 200)
            for opened in waiting:
                opened.setblocking(False)
                self.assertRaises(BlockingIOError, opened.recv, 1)
            for cut, opened in enumerate(waiting, 1):
                opened.settimeout(60)
                opened.sendall(head[cut:])
                [answer] = answers_in(read_rest(opened))
                self.assertEqual(answer.status, 200, cut)
        finally:
            for opened in waiting:
                opened.close()

    def test_the_body_does_not_come(self) -> None:
        """A request that its connection's end cuts short is none (RFC 9112 §8)."""
        before = self.gateway.served()["requests"]
        with dial(self.gateway.data_port) as opened:
            opened.sendall(length(b"%d" % (len(BODY) + 1)))
            opened.shutdown(1)
            self.assertEqual(read_rest(opened), b"")
        self.assertEqual(self.gateway.served()["requests"], before)


def differences() -> Iterator[list[str]]:
    """The cells of each row of the table of differences."""
    page = Path(ROOT) / "docs" / "internals.md"
    if not page.is_file():
        raise SkipTest("the pages are in the checkout only, not in the installed package")
    text = page.read_text(encoding="utf-8").partition("## HTTP, to the letter")[2]
    for row in re.findall(r"(?m)^\| (.+) \|$", text.partition("\n## ")[0])[1:]:
        yield [cell.strip() for cell in row.split(" | ")]


class DifferenceTests(SynchronousTestCase):
    """The table of differences in ``docs/internals.md``."""

    def test_each_is_told(self) -> None:
        """Every difference of a point is a row, and names the section that the point has."""
        told = {row[0]: row[1] for row in differences() if not row[0].startswith("---")}
        found: set[str] = set()
        for heading, points in POINTS.items():
            for point in points:
                if point.differs:
                    self.assertIn(point.differs, told, (heading, point.name))
                    number, section = point.rfc.split(" ")
                    self.assertIn(f"RFC {number}", told[point.differs], point.name)
                    self.assertIn(section, told[point.differs], point.name)
                    found.add(point.differs)
        self.assertEqual(found | NOT_SEEN_HERE, set(told))

    def test_names_are_single(self) -> None:
        """No two points of a heading have the same name."""
        for heading, points in POINTS.items():
            names = [point.name for point in points]
            self.assertEqual(sorted(set(names)), sorted(names), heading)

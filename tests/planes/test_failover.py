"""The walk over the targets: what leads on, what is the answer, and what the end is."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.connector import UpstreamConnectError
from tests.planes.memory import reply, request
from tests.planes.scenes import ANSWER, CHAT, two_targets


class CutFailureTests(SynchronousTestCase):
    def test_its_head_counts(self) -> None:
        """A failure whose body is cut is what its head says, not a broken answer."""
        for status, outcome in ((429, "status_429"), (503, "status_503"), (401, "upstream_auth")):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(
                b"HTTP/1.1 %d No\r\nretry-after: 7\r\ncontent-length: 40\r\n\r\nab" % status
            )
            plane.last.close()
            self.assertEqual(["u1", "u2"], plane.at)
            plane.last.close()
            self.assertEqual([outcome, "connection_lost"], plane.outcomes)
            self.assertEqual(status, plane.events[0].attempts[0].status)
            self.assertEqual(429 if status == 429 else 502, client.answer.status)


class NoAnswerTests(SynchronousTestCase):
    def test_too_deep(self) -> None:
        """An answer that nests 129 levels is none: the next target is asked."""
        for depth, at in ((128, ["u1"]), (129, ["u1", "u2"])):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            inner = depth - 1
            plane.last.answer(reply(b'{"choices":%b}' % (b"[" * inner + b"]" * inner)))
            self.assertEqual(at, plane.at)
            if depth > 128:
                plane.last.answer(reply(ANSWER))
                self.assertEqual(["not_json", "ok"], plane.outcomes)
            self.assertEqual(200, client.answer.status)


class LostConnectionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = two_targets()
        self.client = self.plane.client()

    def warm_up(self) -> None:
        """Leave an idle connection with ``u1``."""
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER))
        self.client.send(request(CHAT))
        self.assertEqual(1, len(self.plane.opened))

    def test_stale(self) -> None:
        """A kept connection that was closing is replaced once by a fresh one."""
        self.warm_up()
        self.plane.last.close()
        self.assertEqual(["u1", "u1"], self.plane.at)
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual([200, 200], [answer.status for answer in self.client.answers()])
        self.assertEqual(["ok"], self.plane.outcomes)

    def test_stale_once(self) -> None:
        """If the fresh one closes as well, the next target is asked, and this one no more."""
        self.warm_up()
        self.plane.last.close()
        self.plane.last.close()
        self.assertEqual(["u1", "u1", "u2"], self.plane.at)
        self.plane.last.close()
        self.assertEqual(["connection_lost", "connection_lost"], self.plane.outcomes)
        self.assertEqual(502, self.client.answer.status)

    def test_stale_and_then_refused(self) -> None:
        """If there is no fresh one, the next target is asked."""
        self.warm_up()
        self.plane.refusing = {"u1"}
        self.plane.last.close()
        self.assertEqual(["u1", "u2"], self.plane.at)
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual(["connect_error", "ok"], self.plane.outcomes)

    def test_lost_at_work(self) -> None:
        """A kept connection that is lost later had the request: it is not sent there again."""
        self.warm_up()
        self.plane.advance(3)
        self.plane.last.close()
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_fresh(self) -> None:
        """Whether a fresh connection delivered its request is not known: the next target."""
        self.client.send(request(CHAT))
        self.plane.last.close()
        self.assertEqual(["u1", "u2"], self.plane.at)


class ConnectTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = two_targets()
        self.plane.slow = True
        self.client = self.plane.client()
        self.client.send(request(CHAT))

    def test_refused(self) -> None:
        """A connection that is refused is tried once more, then the next target is asked."""
        first = self.plane.connecting[0]
        first.fail()
        second = self.plane.connecting[1]
        self.assertEqual("u1", second.upstream)
        second.fail(UpstreamConnectError("u1: no route"))
        third = self.plane.connecting[2]
        self.assertEqual("u2", third.upstream)
        third.succeed().answer(reply(ANSWER))
        self.assertEqual(["connect_error", "ok"], self.plane.outcomes)
        self.assertEqual(200, self.client.answer.status)

    def test_at_the_second_try(self) -> None:
        """The second try may do."""
        self.plane.connecting[0].fail()
        self.plane.connecting[1].succeed().answer(reply(ANSWER))
        self.assertEqual(["ok"], self.plane.outcomes)

    def test_timeout(self) -> None:
        """One that takes too long leads to the next target at once: it has cost time enough."""
        self.plane.connecting[0].fail(UpstreamConnectError("u1: 5 s", "timeout"))
        self.assertEqual("u2", self.plane.connecting[1].upstream)
        self.plane.connecting[1].succeed().answer(reply(ANSWER))
        self.assertEqual(["timeout", "ok"], self.plane.outcomes)

    def test_no_target(self) -> None:
        """With no target left the client is told which were tried, and nothing is billed."""
        for index in range(4):
            self.plane.connecting[index].fail()
        self.assertEqual(4, len(self.plane.connecting))
        answer = self.client.answer
        self.assertEqual((502, "all_upstreams_failed"), (answer.status, answer.code))
        self.assertIn("u1/vendor-1: connect error, u2/vendor-2: connect error", answer.message)
        [event] = self.plane.events
        self.assertEqual((502, None, None), (event.status, event.upstream, event.target_model))
        self.assertEqual((0, 0, False), (event.input_tokens, event.output_tokens, event.estimated))

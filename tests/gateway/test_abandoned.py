"""Answers read on after their client left; the scenes stand in tests.planes.test_leaving."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.gateway.abandoned import Abandoned
from omnigate.gateway.forwarding import Forwarding
from tests.planes.memory import MemoryDataPlane, request
from tests.planes.scenes import CHAT_STREAM, CLOSING, END, STREAM_HEAD, chunk, delta


class AbandonedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()
        self.client = self.plane.client()
        self.client.send(request(CHAT_STREAM))
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))

    def test_counted(self) -> None:
        """An answer that is read on counts until its end."""
        shelf: Abandoned = self.plane.plane.abandoned
        self.assertEqual(0, len(shelf))
        self.client.leave()
        self.assertEqual(1, len(shelf))
        self.plane.last.answer(chunk(CLOSING) + END)
        self.assertEqual(0, len(shelf))

    def test_meter_failure(self) -> None:
        """One that cannot be billed ends all the same, at its end or at its time."""

        class InjectedError(Exception):
            pass

        def fail(*arguments: object) -> None:
            raise InjectedError

        for timeout in (False, True):
            self.setUp()
            self.client.leave()
            patch = self.patch(Meter, "settle", fail)
            if timeout:
                self.plane.advance(121)
            else:
                self.plane.last.answer(chunk(CLOSING) + END)
            patch.restore()
            self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
            [event] = self.plane.events
            self.assertEqual((499, 0, True), (event.status, event.output_tokens, event.estimated))
            self.assertEqual((0, 0), (self.plane.in_flight, len(self.plane.plane.abandoned)))

    def test_failure(self) -> None:
        """One whose reading fails is billed by what there is, and let go."""

        class InjectedError(Exception):
            pass

        def fail(data: bytes) -> bytes:
            raise InjectedError

        self.client.leave()
        exchange = self.plane.plane.exchanges[-1]
        forwarding = exchange._forwarding
        assert isinstance(forwarding, Forwarding) and forwarding.attempt is not None
        attempt = forwarding.attempt
        assert attempt.passage is not None

        class Passage:
            feed = staticmethod(fail)

        attempt.passage = Passage()  # type: ignore[assignment]
        self.plane.last.answer(chunk(delta(b"x")))
        self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
        [event] = self.plane.events
        self.assertEqual((499, True), (event.status, event.estimated))
        self.assertFalse(self.plane.last.open)
        self.assertEqual((0, 0), (self.plane.in_flight, len(self.plane.plane.abandoned)))

"""Live parts: who looks, what they are sent, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.live import HEARTBEAT_SECONDS, MAX_STREAMS, STREAM_SECONDS
from omnigate.control.dashboard.live_parts import (
    MAX_RENDERS,
    MAX_UPDATE_BYTES,
    Update,
    mark_of,
)
from omnigate.errors import GatewayError
from tests.control.conversation import request_bytes
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import Plane


class Looker:
    """Somebody with a stream."""

    def __init__(self, plane: Plane, visitor: Visitor, target: str) -> None:
        self.channel, self.wire = plane.talk.connect()
        pairs = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        head = request_bytes("GET", target, ((b"cookie", pairs.encode()),))
        self.channel.dataReceived(head)

    @property
    def status(self) -> int:
        return int(self.wire.value().split(b" ", 2)[1])

    @property
    def has_ended(self) -> bool:
        """Whether the last chunk of the answer has come."""
        return bool(self.wire.value().endswith(b"0\r\n\r\n"))

    @property
    def body(self) -> str:
        """What was written so far, taken out of its chunks."""
        _, _, rest = self.wire.value().partition(b"\r\n\r\n")
        parts = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            parts.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return b"".join(parts).decode()

    @property
    def updates(self) -> list[dict[str, str]]:
        """The updates, each as the script reads it."""
        events = self.body.split("\n\n")
        return [json.loads(event[6:]) for event in events if event.startswith("data: ")]

    @property
    def html(self) -> list[str]:
        return [update["html"] for update in self.updates]

    @property
    def heartbeats(self) -> int:
        return self.body.split("\n\n").count(":")

    def leave(self) -> None:
        self.wire.loseConnection()


class LiveCase(SynchronousTestCase):
    """A plane with a list of rows and a whole, and somebody who has signed in."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.live = self.plane.generation.live
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()
        self.rows = ["a"]
        self.figure = "1"
        self.rendered: list[tuple[str, ...]] = []
        self.live.rows("rows", self.render_rows)
        self.live.whole("whole", self.render_whole)

    async def render_rows(self, query: Mapping[str, str], mark: str) -> Update | None:
        """The rows behind the one whose number is the mark."""
        self.rendered.append(("rows", query.get("model", ""), mark))
        end = str(len(self.rows))
        if mark in ("", end):
            return None if mark else Update("", end)
        return Update("".join(reversed(self.rows[int(mark) :])), end)

    async def render_whole(self, query: Mapping[str, str]) -> str:
        self.rendered.append(("whole",))
        return self.figure

    def look(self, target: str) -> Looker:
        return Looker(self.plane, self.visitor, target)

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.plane.clock.advance(1)

    def once(self, target: str) -> Any:
        return self.visitor.get(target).json()


class StreamTests(LiveCase):
    """Streams, from their beginning to their end."""

    def test_rows(self) -> None:
        """What came since the mark of the page is sent, the newest first, then what comes."""
        looker = self.look("/live/rows?mark=1")
        self.assertIn(b"text/event-stream", looker.wire.value())
        self.assertEqual(looker.updates, [])
        self.rows += ["b", "c"]
        self.tick()
        self.tick()
        self.rows += ["d"]
        self.tick()
        self.assertEqual(
            looker.updates,
            [
                {"mode": "prepend", "mark": "3", "html": "cb"},
                {"mode": "prepend", "mark": "4", "html": "d"},
            ],
        )

    def test_a_whole(self) -> None:
        """It is sent when it is other than what the page shows."""
        looker = self.look(f"/live/whole?mark={mark_of('1')}")
        self.tick(3)
        self.assertEqual(looker.updates, [])
        self.figure = "2"
        self.tick(3)
        self.assertEqual(looker.updates, [{"mode": "swap", "mark": mark_of("2"), "html": "2"}])

    def test_a_part_that_takes_its_time(self) -> None:
        """A part is rendered as seldom as it was registered for."""
        self.live.whole("slow", self.render_whole, seconds=5)
        self.look("/live/slow")
        self.tick(20)
        self.assertEqual(len(self.rendered), 4)

    def test_two_who_look_at_the_same(self) -> None:
        """It is rendered once for both, whatever they were sent before."""
        lookers = [self.look("/live/whole"), self.look(f"/live/whole?mark={mark_of('1')}")]
        self.tick()
        self.assertEqual(self.rendered, [("whole",)])
        self.assertEqual([looker.html for looker in lookers], [["1"], []])

    def test_other_filters(self) -> None:
        """Each set of filters is rendered on its own, its order of no account."""
        for query in ("model=a&key=b", "key=b&model=a", "model=c"):
            self.look(f"/live/rows?{query}&mark=1")
        self.tick()
        self.assertEqual(self.rendered, [("rows", "a", "1"), ("rows", "c", "1")])

    def test_many_filters_take_turns(self) -> None:
        """A tick renders so many; the others come next, and nobody is left out."""
        for number in range(MAX_RENDERS + 2):
            self.look(f"/live/rows?model=m{number}&mark=1")
        self.tick()
        self.assertEqual(len(self.rendered), MAX_RENDERS)
        self.tick()
        self.assertEqual(len(self.rendered), 2 * MAX_RENDERS)
        self.assertEqual(len({model for _, model, _ in self.rendered}), MAX_RENDERS + 2)

    def test_a_slow_reader(self) -> None:
        """Nothing is written while there is no room; then comes what is new by then, once."""
        slow, quick = self.look("/live/rows?mark=1"), self.look("/live/rows?mark=1")
        slow.channel.pauseProducing()
        for row in "bcd":
            self.rows.append(row)
            self.tick()
        self.assertEqual((slow.html, quick.html), ([], ["b", "c", "d"]))
        self.tick(HEARTBEAT_SECONDS)
        self.assertEqual(slow.heartbeats, 0)
        slow.channel.resumeProducing()
        self.tick()
        self.assertEqual(slow.html, ["dcb"])

    def test_a_heartbeat(self) -> None:
        """A stream on which nothing comes is not silent."""
        looker = self.look("/live/rows?mark=1")
        self.tick(2 * HEARTBEAT_SECONDS)
        self.assertEqual(looker.heartbeats, 2)
        self.assertEqual(looker.updates, [])

    def test_whoever_leaves(self) -> None:
        """Nothing runs when nobody looks."""
        lookers = [self.look("/live/rows?mark=1"), self.look("/live/whole")]
        self.tick()
        lookers[0].leave()
        self.assertEqual(self.live.looking, 1)
        lookers[1].leave()
        self.assertEqual(self.live.looking, 0)
        self.rendered.clear()
        self.tick(5)
        self.assertEqual(self.rendered, [])

    def test_an_end(self) -> None:
        """A stream ends in order after some minutes, so that its owner is judged again."""
        looker = self.look("/live/rows?mark=1")
        self.tick(STREAM_SECONDS - 1)
        self.assertFalse(looker.has_ended)
        self.tick()
        self.assertTrue(looker.has_ended)
        self.assertEqual(self.live.looking, 0)

    def test_a_stop(self) -> None:
        """Streams end when the stores are closed; nobody begins one after that."""
        looker = self.look("/live/whole")
        self.plane.close()
        self.assertTrue(looker.has_ended)
        self.rendered.clear()
        self.tick(3)
        self.assertEqual(self.rendered, [])
        self.assertEqual(self.look("/live/whole").status, 503)

    def test_a_crash(self) -> None:
        """Streams of stores that have crashed end; the next generation has its own."""
        looker = self.look("/live/whole")
        self.plane.generation.crashed("ledger", Failure(RuntimeError("broken")))
        self.flushLoggedErrors(RuntimeError)
        self.tick()
        self.assertTrue(looker.has_ended)
        generation = self.plane.guard.current
        assert generation is not None
        self.assertIsNot(generation.live, self.live)
        generation.live.whole("whole", self.render_whole)
        looker = self.look("/live/whole")
        self.tick()
        self.assertEqual(looker.html, ["1"])

    def test_an_end_while_it_is_rendered(self) -> None:
        """What is ready too late is sent to nobody."""
        waiting: list[Deferred[str]] = []

        async def render(query: Mapping[str, str]) -> str:
            waiting.append(Deferred())
            return await waiting[-1]

        self.live.whole("late", render)
        looker = self.look("/live/late")
        self.tick(3)
        self.assertEqual(len(waiting), 1)
        self.plane.close()
        waiting[0].callback("late")
        self.tick(3)
        self.assertEqual((len(waiting), looker.html), (1, []))

    def test_too_many(self) -> None:
        """Whoever comes when all places are taken may ask from time to time."""
        lookers = [self.look("/live/whole") for _ in range(MAX_STREAMS)]
        self.assertEqual(self.look("/live/whole").status, 503)
        self.assertEqual(self.once("/live/whole?once=1")["html"], "1")
        lookers[0].leave()
        self.assertEqual(self.look("/live/whole").status, 200)

    def test_what_cannot_be_rendered(self) -> None:
        """The streams of that part end, those of others go on."""

        async def render(query: Mapping[str, str]) -> str:
            raise RuntimeError("broken")

        self.live.whole("broken", render)
        broken, other = self.look("/live/broken"), self.look("/live/whole")
        self.tick()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual((broken.has_ended, other.html), (True, ["1"]))

    def test_too_much(self) -> None:
        """An update has a largest size."""
        self.figure = "x" * (MAX_UPDATE_BYTES + 1)
        looker = self.look("/live/whole")
        self.tick()
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual((looker.has_ended, looker.html), (True, []))


class OnceTests(LiveCase):
    """Asking from time to time."""

    def test_rows(self) -> None:
        """Without a mark there is but the mark, then what came since."""
        self.assertEqual(
            self.once("/live/rows?once=1"), {"mode": "prepend", "mark": "1", "html": ""}
        )
        self.rows.append("b")
        self.tick()
        self.assertEqual(
            self.once("/live/rows?once=1&mark=1"), {"mode": "prepend", "mark": "2", "html": "b"}
        )
        self.assertEqual(
            self.once("/live/rows?once=1&mark=2"), {"mode": "prepend", "mark": "2", "html": ""}
        )

    def test_many_who_ask_at_once(self) -> None:
        """Within a second one rendering answers all."""
        for _ in range(5):
            self.assertEqual(self.once("/live/whole?once=1")["html"], "1")
        self.assertEqual(len(self.rendered), 1)
        self.tick()
        self.once("/live/whole?once=1")
        self.assertEqual(len(self.rendered), 2)

    def test_refusals(self) -> None:
        """Words for the script, each with its status."""

        async def refuse(query: Mapping[str, str], mark: str) -> Update | None:
            raise GatewayError("invalid_request", "no such filter")

        self.live.rows("fussy", refuse)
        for target, status in (
            ("/live/nothing", 404),
            ("/live/rows?mark=%3Cscript%3E", 400),
            ("/live/rows?once=1&mark=" + "x" * 129, 400),
            ("/live/fussy?once=1", 400),
        ):
            reply = self.visitor.get(target)
            self.assertEqual(reply.status, status, target)
            self.assertIn("text/plain", reply.headers["content-type"])
        stranger = Visitor(self.plane.talk)
        self.assertEqual(stranger.get("/live/rows").status, 401)
        looker = self.look("/live/fussy?mark=1")
        self.tick()
        self.assertTrue(looker.has_ended)

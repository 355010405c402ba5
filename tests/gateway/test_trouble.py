"""What the log is told of upstreams and targets that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.tables import Target
from omnigate.gateway.trouble import MAX_RESTS, REST_LINES_A_MINUTE, SECONDS_BETWEEN_REFUSALS
from omnigate.upstream_state import UpstreamState
from tests.gateway.scraping import scraped, total, value
from tests.planes.memory import KEY, SECRET, MemoryDataPlane, key, reply, request, route, upstream
from tests.planes.scenes import ANSWER, CHAT, CHAT_STREAM, CLOSING, END, ERROR, STREAM_HEAD, chunk

#: The words by which the lines of interest are known.
KINDS = ("credential", "rests for", "answers again")


def told(act: Callable[[], Any]) -> list[str]:
    """What the log was told of upstreams and targets."""
    with capturedLogs() as events:
        act()
    lines = [formatEvent(event) for event in events]
    return [line for line in lines if any(kind in line for kind in KINDS)]


class PlaneCase(SynchronousTestCase):
    """A plane, and answers to requests at it."""

    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[
                route("small", ("u1", "vendor-1")),
                route("large", ("u1", "vendor-2"), ("u2", "vendor-3")),
                route("keyless", ("u3", "vendor-4")),
            ],
            upstreams=[
                upstream("u1"),
                upstream("u2", api_key_env="ABSENT_KEY"),
                upstream("u3", api_key_env=None),
            ],
        )

    def ask(self, *answers: bytes, model: bytes = b"small", body: bytes = CHAT) -> list[str]:
        """Send a request for each answer that its upstream gives; what the log was told."""

        def act() -> None:
            for answer in answers:
                client = self.plane.client()
                client.send(request(body.replace(b"small", model)))
                for connection in self.plane.busy:
                    connection.answer(answer)
                client.leave()

        return told(act)


class CredentialTests(PlaneCase):
    """A provider that refuses our credential."""

    def test_told_once_and_when_it_works(self) -> None:
        """Once, by upstream, status, model and variable, never with the value; then its end."""
        for status in (b"401 Who", b"403 No"):
            [line] = self.ask(*[reply(ERROR, status)] * 50)
            for word in ("u1", status[:3].decode(), "vendor-1", "UPSTREAM_KEY"):
                self.assertIn(word, line)
            self.assertNotIn(SECRET, line)
            self.assertNotIn(KEY, line)
            [line] = self.ask(*[reply(ANSWER)] * 3)
            self.assertEqual("upstream u1 takes the gateway's credential", line)
            self.plane.advance(SECONDS_BETWEEN_REFUSALS + 1)

    def test_told_again(self) -> None:
        """While it lasts it is told once a minute."""
        for _ in range(5):
            self.assertEqual(1, len(self.ask(*[reply(ERROR, b"401 Who")] * 9)))
            self.plane.advance(SECONDS_BETWEEN_REFUSALS + 1)

    def test_every_other_request(self) -> None:
        """One that takes it every other time is told of no more often."""
        lines = self.ask(*[reply(ERROR, b"403 No"), reply(ANSWER)] * 100)
        self.assertEqual(2, len(lines))

    def test_no_variable(self) -> None:
        """Where none is sent, the remedy is another one."""
        [line] = self.ask(reply(ERROR, b"401 Who"), model=b"keyless")
        self.assertIn("name one in api_key_env", line)

    def test_missing_variable(self) -> None:
        """Requests that meet a variable that is not set are told of as well."""
        lines = self.ask(*[reply(ERROR, b"500 Oops")] * 2, model=b"large")
        [line] = [line for line in lines if "credential" in line]
        self.assertIn("u2", line)
        self.assertIn("has no credential: ABSENT_KEY is not set", line)

    def test_answers_read_on(self) -> None:
        """It does not matter whether the client waited for the answer."""

        def act() -> None:
            client = self.plane.client()
            client.send(request(CHAT))
            client.leave()
            self.plane.last.answer(reply(ERROR, b"401 Who"))

        [line] = told(act)
        self.assertIn("401", line)

    def test_streams(self) -> None:
        """A stream that was answered ends it too."""
        self.ask(reply(ERROR, b"401 Who"))
        answer = STREAM_HEAD + chunk(CLOSING) + END
        self.assertEqual(1, len(self.ask(answer, body=CHAT_STREAM)))

    def test_metric(self) -> None:
        """It is 1 while it lasts."""
        name = "omnigate_data_upstream_credential_refused"
        found = []
        for answer in (b"200 OK", b"401 Who", b"200 OK"):
            self.ask(reply(ANSWER, answer))
            found.append(value(scraped(self.plane), name, upstream="u1"))
        self.assertEqual([0, 1, 0], found)


class RestTests(PlaneCase):
    """Targets that rest."""

    FAILING = reply(ERROR, b"500 Oops")
    LIMITED = reply(ERROR, b"429 Slow", b"retry-after: 20\r\n")

    def test_begin_and_end(self) -> None:
        """One line when it begins, with its reason and its length, and one when it is over."""
        self.assertEqual([], self.ask(*[self.FAILING] * 2))
        [line] = self.ask(*[self.FAILING] * 30)
        self.assertEqual("target u1/vendor-1 rests for 30 s: status 500", line)
        self.plane.advance(40)
        self.assertEqual([], self.ask(*[self.FAILING] * 30))
        self.plane.advance(40)
        [line] = self.ask(*[reply(ANSWER)] * 9)
        self.assertEqual("target u1/vendor-1 answers again (after 80 s)", line)
        self.assertEqual({}, self.plane.plane.troubles.rests)

    def test_asked_for(self) -> None:
        """A rest that the provider asked for is as long as that."""
        [line] = self.ask(self.LIMITED)
        self.assertEqual("target u1/vendor-1 rests for 20 s: status 429", line)

    def test_an_answer_during_the_rest(self) -> None:
        """An answer that was under way does not end the rest."""
        self.ask(self.LIMITED)
        self.assertEqual([], self.ask(reply(ANSWER)))
        self.plane.advance(20)
        self.assertEqual(1, len(self.ask(reply(ANSWER))))

    def test_level(self) -> None:
        """It is a warning: other targets may well do."""
        with capturedLogs() as events:
            self.ask(self.LIMITED)
        [event] = [event for event in events if "rests for" in event["log_format"]]
        self.assertIs(LogLevel.warn, event["log_level"])

    def test_metric(self) -> None:
        """A target is 1 while it rests, 0 until it answers, and then of no note."""
        name, labels = "omnigate_data_target_resting", {"upstream": "u1", "model": "vendor-1"}
        self.assertEqual(0, len([at for at in scraped(self.plane) if at[0] == name]))
        self.ask(self.LIMITED)
        self.assertEqual(1, value(scraped(self.plane), name, **labels))
        self.plane.advance(21)
        samples = scraped(self.plane)
        self.assertIn((name, frozenset(labels.items())), samples)
        self.assertEqual(0, value(samples, name, **labels))
        self.ask(reply(ANSWER))
        self.assertEqual(0, len([at for at in scraped(self.plane) if at[0] == name]))

    def test_config_changes(self) -> None:
        """What the config does not name any more is forgotten; the rest is kept."""
        self.ask(self.LIMITED, reply(ERROR, b"401 Who"))
        self.ask(self.LIMITED, model=b"keyless")
        troubles = self.plane.plane.troubles
        self.assertEqual({("u1", "vendor-1"), ("u3", "vendor-4")}, set(troubles.rests))
        self.plane.install(
            [route("keyless", ("u3", "vendor-4"))], [upstream("u3", api_key_env=None)], [key()], "2"
        )
        self.assertEqual({("u3", "vendor-4")}, set(troubles.rests))
        self.assertEqual({}, troubles.credentials)


class BoundTests(SynchronousTestCase):
    """An upstream with very many models."""

    def setUp(self) -> None:
        names = [f"m{number}" for number in range(MAX_RESTS + 50)]
        self.plane = MemoryDataPlane(routes=[route(name, ("u1", name)) for name in names])
        tables = self.plane.plane.tables
        assert tables is not None
        self.targets: list[Target] = [route.targets[0] for route in tables.routes.values()]
        self.troubles = self.plane.plane.troubles

    def test_lines_and_memory(self) -> None:
        """All of them fail at once, and again: lines and memory are bounded, ends as well."""

        def all_rest() -> None:
            for target in self.targets:
                self.troubles.rested(target, "timeout", 30.0)

        def all_answer() -> None:
            for target in self.targets:
                self.troubles.answered(target)

        lines = told(all_rest)
        self.assertEqual(REST_LINES_A_MINUTE, len(lines))
        self.assertEqual(MAX_RESTS, len(self.troubles.rests))
        self.assertEqual(MAX_RESTS, total(scraped(self.plane), "omnigate_data_target_resting"))
        self.plane.advance(30)
        lines = told(all_answer)
        self.assertEqual(REST_LINES_A_MINUTE, len(lines))
        self.assertEqual({}, self.troubles.rests)


class StateTests(PlaneCase):
    """How upstreams fare, in one word for the control plane."""

    def states(self) -> dict[str, int]:
        tables = self.plane.plane.tables
        assert tables is not None
        return self.plane.plane.troubles.states(tables)

    def test_story(self) -> None:
        """Degraded by one model, cooling when all rest, half open until one has answered."""
        # The variable of u2 is not set.
        self.assertEqual({"u2": UpstreamState.OPEN}, self.states())
        limited = reply(ERROR, b"429 Slow", b"retry-after: 20\r\n")
        self.ask(limited)
        self.assertEqual(UpstreamState.DEGRADED, self.states()["u1"])
        self.ask(limited, model=b"large")
        self.assertEqual(UpstreamState.COOLING, self.states()["u1"])
        self.plane.advance(30)
        self.assertEqual(UpstreamState.HALF_OPEN, self.states()["u1"])
        self.ask(reply(ANSWER))
        self.assertEqual(UpstreamState.DEGRADED, self.states()["u1"])
        self.ask(reply(ANSWER), model=b"large")
        self.assertNotIn("u1", self.states())

    def test_credential(self) -> None:
        """Open while the credential is refused, whatever else there is."""
        self.ask(reply(ERROR, b"401 Who"))
        self.assertEqual(UpstreamState.OPEN, self.states()["u1"])
        self.ask(reply(ANSWER))
        self.assertNotIn("u1", self.states())

"""However a request ends, it ends once, and nothing is left over.

Thousands of random stories (:mod:`tests.planes.stories`), and after each the same questions.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects import held, passage, strike, translate, translated_passage
from omnigate.gateway import answer_steps, outgoing, prepared_attempt, translated_attempt
from omnigate.gateway.exchange import Exchange
from omnigate.gateway.reads import PROBES
from omnigate.protocols import relay, translated_relay
from omnigate.protocols.upstream import UpstreamConnection
from omnigate.token_bucket import AmountBucket
from omnigate.wire.json_splice import splice_request
from tests.planes.memory import KEY, SECRET, MemoryDataPlane, key, reply, request, route, upstream
from tests.planes.scenes import ANSWER, CHAT
from tests.planes.stories import Person, Story
from tests.planes.translated_stories import TranslatedStory

#: How many stories are told, and the first one's seed.
STORIES = 1500
TRANSLATED_STORIES = 1500
FIRST = 0

#: Longer requests are translated in a turn of their own; some of the stories' are.
OWN_TURN_BYTES = 85

#: Longer answers are translated in turns that may have to be waited for, and looked through in so
#: many steps.
TURNS_FROM_BYTES = 400
STEP_BYTES = 30_000

#: What the translation of an exchange is made of.
STEPS: tuple[tuple[Any, str], ...] = (
    (translated_attempt, "request_steps"),
    (translated_attempt, "translated_request"),
    (translated_attempt.TranslatedAttempt, "_mended"),
    (translate.Translator, "read"),
    (translate.Translator, "write"),
    (strike.LongStriker, "step"),
    (strike.LongStriker, "end"),
    (translate.Translator, "error"),
    (translate.Translator, "stream"),
    (translated_passage.TranslatedPassage, "feed"),
    (translated_passage.TranslatedPassage, "end"),
    (translated_passage.TranslatedPassage, "interrupt"),
    (translated_relay.WholeAnswer, "answer_data"),
    (translated_relay.WholeAnswer, "answer_end"),
    (translated_relay.TranslatedRelay, "_ended"),
)


class InjectedError(Exception):
    """A fault of ours."""


class AnyEndingTests(SynchronousTestCase):
    story: Story
    stories: ClassVar[tuple[type[Story], int]] = (Story, STORIES)

    def setUp(self) -> None:
        splice = splice_request

        def splice_or_fail(*arguments: Any) -> Any:
            if self.story.crash:
                self.story.crash = False
                self.story.crashes += 1
                raise InjectedError
            return splice(*arguments)

        self.patch(outgoing, "splice_request", splice_or_fail)
        self.settled: list[int] = []
        settle = AmountBucket.settle

        def noted(bucket: AmountBucket, need: int, amount: int, now: float) -> None:
            self.settled.append(amount)
            settle(bucket, need, amount, now)

        self.patch(AmountBucket, "settle", noted)
        for module in (held, passage, relay):
            self.patch(module, "LITTLE_BYTES", 0)  # so that whatever is held counts

    def test_any_ending(self) -> None:
        """One end for each request, every place given back, nobody waiting, nothing in the log."""
        kind, count = self.stories
        for seed in range(FIRST, FIRST + count):
            self.story = kind(seed)
            try:
                self.story.play()
                self.check(self.story)
            except Exception as error:
                raise AssertionError(f"story {seed}: {error!r}") from error

    def check(self, story: Story) -> None:
        plane = story.plane
        self.assertEqual(story.crashes, len(self.flushLoggedErrors(InjectedError)))
        self.assertEqual([], self.flushLoggedErrors())
        self.check_ends(plane)
        self.check_tally(plane)
        self.check_tokens(plane)
        self.check_nothing_left(plane)
        for person in story.people:
            self.check_client(plane, person)
        for connection in plane.opened:
            self.assertNotIn(KEY.encode(), connection.requests())
        self.check_still_serving(plane)

    def check_ends(self, plane: MemoryDataPlane) -> None:
        """Each exchange has one line in the log, and one event or one refusal, or is a read."""
        ids = [exchange.id for exchange in plane.plane.exchanges if not is_probe(exchange)]
        events = [event.id for event in plane.events]
        reads = [line for line in plane.lines if line.method != "POST" and line.status == 200]
        logged = [*ids, *plane.plane.off_target]
        self.assertEqual(sorted(logged), sorted(line.request_id for line in plane.lines))
        self.assertEqual(len(events), len(set(events)))
        self.assertLessEqual(set(events), set(ids))
        refusals = len(ids) - len(events) - len(reads)
        self.assertEqual(refusals + plane.plane.malformed, len(plane.refused))
        for event in plane.events:
            if event.endpoint == "count_tokens" and event.upstream is None:
                continue  # told by the gateway itself, perhaps because all that was asked failed
            self.assertGreaterEqual(len(event.attempts), 1)
            if event.status == 200:
                self.assertEqual("ok", event.attempts[-1].outcome)

    def check_tally(self, plane: MemoryDataPlane) -> None:
        """What is counted for metrics is what the events, the refusals and the log say."""
        tally = plane.plane.books.tally
        ended: Counter[tuple[str, int]] = Counter()
        for (name, _, status_class, _), count in tally.requests.items():
            self.assertIn(name, ("small", "none", "other"))
            ended[name, status_class] += count
        # A head that is malformed has no line.
        self.assertLessEqual(
            Counter(line.status // 100 for line in plane.lines),
            Counter(status_class for _, status_class in ended.elements()),
        )
        reads = [line for line in plane.lines if line.method != "POST" and line.status == 200]
        self.assertEqual(len(plane.events) + len(plane.refused) + len(reads), ended.total())
        self.assertEqual(Counter(code for _, code in plane.refused), +Counter(tally.refusals))
        self.assertEqual(
            Counter((a.upstream, a.outcome) for event in plane.events for a in event.attempts),
            Counter(tally.attempts),
        )
        used = [
            (
                event.input_tokens,
                event.cached_input_tokens,
                event.cache_write_input_tokens,
                event.output_tokens,
            )
            for event in plane.events
        ]
        sums = [sum(counts) for counts in zip(*used, strict=True)] or [0, 0, 0, 0]
        self.assertEqual(sums, tally.tokens.get("small", [0, 0, 0, 0]))
        ended_in = Counter(event.endpoint for event in plane.events)
        self.assertEqual(
            ended_in, Counter({name: sum(kept.counts) for name, kept in tally.durations.items()})
        )

    def check_tokens(self, plane: MemoryDataPlane) -> None:
        """The figures of each event are taken from the key's tokens once; refusals take nothing."""
        used = Counter(
            total
            for event in plane.events
            if (
                total := event.input_tokens
                + event.cached_input_tokens
                + event.cache_write_input_tokens
                + event.output_tokens
            )
        )
        settled, self.settled = Counter(filter(None, self.settled)), []
        self.assertEqual(used if self.story.tpm else Counter(), settled)

    def check_nothing_left(self, plane: MemoryDataPlane) -> None:
        self.assertEqual(0, plane.plane.admission.in_flight)
        self.assertEqual(0, plane.plane.admission.memory_bytes)
        self.assertEqual(0, len(plane.plane.abandoned))
        self.assertEqual(0, plane.plane.parse_memory.bytes)
        if not self.story.crashes:
            # The log keeps the frames of a crash, and these keep what they held.
            self.assertEqual(0, plane.plane.held.bytes)
        assert plane.plane.tables is not None
        for compiled in plane.plane.tables.keys.values():
            use = compiled.use
            self.assertEqual((0, 0, 0), (use.in_flight, use.memory_bytes, use.parse_bytes))
            assert compiled.rules is not None or not self.story.tpm
            if compiled.rules is not None and compiled.rules.tokens is not None:
                self.assertEqual(0, compiled.rules.tokens.held)
        self.assertEqual(set(), plane.factory.connections)
        for timed in plane.watchdog._timed:
            self.assertIsInstance(timed, UpstreamConnection)
            self.assertTrue(timed.usable)  # type: ignore[attr-defined]
        for connection in plane.opened:
            self.assertFalse(connection.open and connection.protocol.busy)
            self.assertTrue(connection.transport.reading or not connection.open)

    def check_client(self, plane: MemoryDataPlane, person: Person) -> None:
        """What a client got is well framed, and an answer to each request, or a plain break."""
        client = person.client
        data = client.received()
        self.assertNotIn(SECRET.encode(), data)
        exchanges = [e for e in plane.plane.exchanges if e.response._transport is client.transport]
        if person.stalled or data == b"full":
            return
        answers = client.answers(*[e.head.method for e in exchanges])
        for answer in answers[:-1]:
            self.assertTrue(answer.whole)
        if not person.left and not client.transport.aborted:
            self.assertGreaterEqual(len(answers), len(exchanges) - 1)
        by_id = {e.id: e for e in plane.events}
        for answer in answers:
            event = by_id.get(answer.headers.get(b"x-omnigate-request-id", b"").decode())
            if event is not None:
                self.assertEqual(answer.status if answer.whole else 499, event.status)

    def check_still_serving(self, plane: MemoryDataPlane) -> None:
        plane.slow = False
        plane.install([route("small", ("u2", "b"))], [upstream("u2")], [key()], "last")
        client = plane.client()
        client.send(request(CHAT))
        for connection in plane.busy:
            connection.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)
        client.leave()


class TranslatedEndingTests(AnyEndingTests):
    """The same where most exchanges are translated, and any step of that may fail."""

    stories: ClassVar = (TranslatedStory, TRANSLATED_STORIES)

    def setUp(self) -> None:
        super().setUp()
        for module in (translated_passage, translated_relay):
            self.patch(module, "LITTLE_BYTES", 0)
        for holder in (answer_steps, translated_attempt):
            self.patch(holder, "TURNS_FROM_BYTES", TURNS_FROM_BYTES)
        self.patch(strike, "STEP_BYTES", STEP_BYTES)
        self.patch(prepared_attempt, "OWN_TURN_BYTES", OWN_TURN_BYTES)
        for owner, name in STEPS:
            self.patch(owner, name, self.may_fail(getattr(owner, name)))

    def may_fail(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return the step; one in three times it fails where the story wants something to."""

        def failing(*arguments: Any, **options: Any) -> Any:
            story = self.story
            if story.crash and story.rng.random() < 0.33:
                story.crash = False
                story.crashes += 1
                raise InjectedError
            return step(*arguments, **options)

        return failing


def is_probe(exchange: Exchange) -> bool:
    """Whether the request owes nothing, not even a line."""
    path = exchange.target.path
    return (path in PROBES or path == "/") and exchange.head.method in (b"GET", b"HEAD")

"""Exchanges without sockets: each is judged like any answer, and a wrong one is noticed."""

import attrs
from twisted.trial.unittest import SynchronousTestCase

from bench import counted, in_memory, messages, traffic
from bench.answers import WrongAnswerError
from bench.counted import CountError, read_counts
from bench.in_memory import Course, MemoryGateway, WrongExchangeError, courses


class CourseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = MemoryGateway()
        self.addCleanup(self.gateway.close)

    def test_all_courses(self) -> None:
        """Every course gives its client the right answer and one usage event, again and again."""
        for course in courses():
            before = self.gateway.events
            self.gateway.prove(course)
            self.gateway.run(course, 3)
            self.gateway.prove(course)
            self.assertEqual(self.gateway.events, before + 5, course.name)

    def test_a_wrong_answer(self) -> None:
        """An answer that is not the provider's is noticed."""
        course = named("exchange")
        other = course.answer[0].replace(b"plain", b"plane")
        broken = attrs.evolve(course, answer=[other])
        self.assertRaises(WrongAnswerError, self.gateway.prove, broken)

    def test_a_wrong_translation(self) -> None:
        """A text, a word or an end that is another is noticed."""
        for name, found, instead in (
            ("translated", b"plain", b"plane"),
            ("translated", b'"output_tokens":160', b'"output_tokens":161'),
            ("xevent", b"word-00017", b"word-00018"),
            ("xevent", b"end_turn", b"max_tokens"),
        ):
            course = named(name)
            answer = b"".join(course.answer)
            self.assertIn(found, answer)
            reads = in_memory._reads(answer.replace(found, instead))
            broken = attrs.evolve(course, answer=reads)
            self.assertRaises(WrongAnswerError, self.gateway.prove, broken)

    def test_a_refused_request(self) -> None:
        """A request that never reaches a provider is noticed."""
        course = named("exchange")
        broken = attrs.evolve(course, request=[course.request[0].replace(b"Bearer ", b"Bearer x")])
        self.assertRaises(WrongExchangeError, self.gateway.prove, broken)

    def test_event_by_event(self) -> None:
        """The reads of a paced stream are the stream, and each event comes by itself."""
        course = named("paced")
        self.assertEqual(b"".join(course.answer), traffic.burst_answer(True))
        self.assertGreater(len(course.answer), course.units)


def named(name: str) -> Course:
    """The course of a name."""
    return next(course for course in courses() if course.name == name)


class MessagesTests(SynchronousTestCase):
    def test_requests_are_judged(self) -> None:
        """A translated request must say what the client's says, whatever its form."""
        for kind in traffic.TRANSLATED:
            said = messages.turns_of(kind, 1024)
            (_, system), (_, user) = said
            sizes = {(kind, len(system) + len(user)): said}
            body = messages._json(
                {
                    "model": traffic.UPSTREAM_MODELS[kind],
                    "system": [{"type": "text", "text": system}],
                    "messages": [{"role": "user", "content": user}],
                    "max_tokens": 256,
                    "temperature": 0.2,
                    "stream": kind == "xburst",
                }
            )
            self.assertEqual(messages.judge_request(body, sizes), kind)
            for found, instead in (
                (b"plain words", b"plane words"),
                (b'"max_tokens":256', b'"max_tokens":255'),
                (b'"temperature":0.2', b'"temperature":0.3'),
                (b'"role":"user"', b'"role":"assistant"'),
                (b"upstream-", b"other-"),
                (b'{"model"', b'["model"'),
            ):
                self.assertIn(found, body)
                changed = body.replace(found, instead, 1)
                self.assertRaises(traffic.OddRequestError, messages.judge_request, changed, sizes)


class CountedTests(SynchronousTestCase):
    TOLD = "child exchange 12 4 1\nchild exchange 13 204 1\nchild event 14 4 100\n"
    COUNTED = (
        "==11== Cachegrind\n==12== I   refs:      1,000,000\n"
        "==13== I   refs:      3,000,000\n==14== I refs: 500\n==15== I refs: 1,300\n"
    )

    def test_differences(self) -> None:
        """What both children of a course did before drops out."""
        told = self.TOLD + "child event 15 8 100\n"
        self.assertEqual(read_counts(told, self.COUNTED), {"exchange": 10_000, "event": 2})

    def test_faults(self) -> None:
        """A child or a figure that is missing is a fault."""
        for told, said in (
            ("", self.COUNTED),
            (self.TOLD, self.COUNTED),
            (self.TOLD + "child event 16 8 100\n", self.COUNTED),
            (self.TOLD + "child event 15 8 100\n", "==12== nothing"),
        ):
            self.assertRaises(CountError, read_counts, told, said)

    def test_two_children_of_each(self) -> None:
        """The second does more, and enough of it that its figure means something."""
        for course in courses():
            few, many = counted.exchanges(course)
            self.assertGreaterEqual(many, few + 4, course.name)

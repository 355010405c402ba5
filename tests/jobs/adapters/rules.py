"""What every adapter must keep to, whatever a provider answers and a client asks for.

:class:`Rules` is inherited with the samples of some adapters.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    Done,
    Failed,
    Handle,
    InlineSource,
    InputFault,
    NotCanceled,
    Running,
    Steps,
    Stopped,
    Task,
    Transient,
    Unclear,
    UrlSource,
)
from omnigate.jobs.adapters.judging import MAX_WAIT_SECONDS, secrets_in
from omnigate.jobs.job import MAX_MESSAGE_CHARS, JobError
from omnigate.outbound.messages import Answer, Request
from tests.jobs.adapters.odd_answers import (
    BASE_URL,
    CREDENTIAL,
    ODD_TEXTS,
    answers,
    inputs,
    out_of_joint,
)
from tests.jobs.cases import Case, Exchange

#: Requests of one call of an adapter; three tries of two are the most that any needs.
MAX_REQUESTS: Final = 6
#: How often one may be sent that begins something, where the provider removes duplicates.
MAX_SUBMITS: Final = 3

ORIGIN = urlsplit(BASE_URL)[:2]

T = TypeVar("T")

#: What a client may write into any field.
ODD_VALUES: Final[tuple[Any, ...]] = (
    *(text for text in ODD_TEXTS if text.isascii() and CREDENTIAL not in text),
    None,
    True,
    0,
    -1,
    10**30,
    0.25,
    [],
    [None],
    ["https://["],
    [{}],
    {},
    {"url": 1},
    {"sections": [{"duration_ms": 10**30}]},
)

_IDS = st.sampled_from(("x", "../../keys", "a/b?c=d#e", "%2e%2e", "é", "models/v/op/1"))
_NOTES = st.dictionaries(
    st.sampled_from(("url",)),
    st.sampled_from(
        (f"{BASE_URL}/requests/1", "https://elsewhere.example/requests/1", "https://[", "", "x")
    ),
)


@attrs.frozen
class Sample:
    """A target and an input that an adapter takes, and the exchanges that belong to it."""

    adapter: Adapter
    model: str
    input: dict[str, Any]
    exchanges: tuple[Exchange, ...]

    @property
    def can_poll(self) -> bool:
        """Whether the adapter is asked again."""
        return type(self.adapter).poll is not Adapter.poll

    def task(self, input: dict[str, Any] | None = None) -> Task:
        """A job of this kind."""
        return Task(
            job_id="job_01jdexample00000000000000",
            target=2,
            base_url=BASE_URL,
            model=self.model,
            input=self.input if input is None else input,
            credential=CREDENTIAL,
        )


def samples_of(adapter: Adapter, cases: Iterable[Case]) -> list[Sample]:
    """What golden cases have for an adapter."""
    return [
        Sample(adapter, target["model"], case.input, tuple(case.exchanges))
        for case in cases
        for target in case.route["targets"]
        if target["adapter"] == adapter.name
    ]


# What the config lets in: printable text.
_MODELS = st.one_of(st.text(max_size=20), st.sampled_from(ODD_TEXTS)).filter(
    lambda model: model.isprintable() and CREDENTIAL not in model
)


def _settings(examples: int) -> settings:
    # Inherited by several classes, on purpose.
    return settings(max_examples=examples, suppress_health_check=[HealthCheck.differing_executors])


class Rules(SynchronousTestCase):
    """What comes of odd answers and of odd inputs.

    :cvar samples: of the adapters that are held to it.
    """

    samples: ClassVar[Sequence[Sample]] = ()

    @_settings(200)
    @given(data=st.data())
    def test_submit(self, data: st.DataObject) -> None:
        """It comes to one of three ends, and what may cost money is sent once."""
        sample = self._drawn(data, self.samples)
        task = sample.task()
        asked, outcome = self._converse(sample.adapter.submit(task), data)
        begun = [request for request in asked if request.method != "GET"]
        removes = all("idempotency-key" in dict(request.headers) for request in begun)
        self.assertLessEqual(len(begun), MAX_SUBMITS if removes else 1)
        self.assertEqual(len({dict(one.headers).get("idempotency-key") for one in begun} or {0}), 1)
        self.assertIsInstance(outcome, Accepted | Done | Failed)
        if isinstance(outcome, Accepted):
            self.assertTrue(outcome.handle.provider_job_id)
            self.assertNotIn(CREDENTIAL, outcome.handle.notes.values())
        self._judge(outcome)

    @_settings(200)
    @given(id=_IDS, notes=_NOTES, data=st.data())
    def test_poll(self, id: str, notes: dict[str, str], data: st.DataObject) -> None:
        """It asks and changes nothing."""
        sample = self._drawn(data, [one for one in self.samples if one.can_poll])
        # The input may be gone by then.
        task = sample.task(data.draw(st.sampled_from((sample.input, {}))))
        steps = sample.adapter.poll(task, Handle(id, notes))
        asked, outcome = self._converse(steps, data)
        self.assertEqual({request.method for request in asked} - {"GET"}, set())
        self.assertIsInstance(outcome, Running | Done | Failed | Stopped | Transient)
        self._judge(outcome)

    @_settings(100)
    @given(id=_IDS, notes=_NOTES, data=st.data())
    def test_cancel(self, id: str, notes: dict[str, str], data: st.DataObject) -> None:
        """It is asked once, and comes to one of three ends."""
        sample = self._drawn(data, [one for one in self.samples if one.adapter.can_cancel])
        steps = sample.adapter.cancel(sample.task({}), Handle(id, notes))
        asked, outcome = self._converse(steps, data)
        self.assertEqual(len(asked), 1)
        self.assertIsInstance(outcome, Stopped | NotCanceled | Unclear)

    @_settings(150)
    @given(data=st.data())
    def test_odd_inputs(self, data: st.DataObject) -> None:
        """An input is refused with its place, or can be priced and sent."""
        sample = self._drawn(data, self.samples)
        input = data.draw(inputs(sample.input))
        task = sample.task(input)
        try:
            sample.adapter.check(sample.model, input)
        except InputFault as fault:
            self.assertIsInstance(fault.field, str)
            self.assertTrue(fault.message)
            self.assertNotIn(CREDENTIAL, fault.message)
        else:
            billable = sample.adapter.billable(task)
            self.assertGreaterEqual(billable.characters, 0)
            self.assertGreaterEqual(billable.milliseconds, 0)
            self.assertEqual(billable.outputs, 0)
        self._converse(sample.adapter.submit(task), data)

    def test_odd_fields(self) -> None:
        """Every field of every call with every odd value in it."""
        fields = sorted({name for sample in self.samples for name in sample.input})
        for sample in {(one.adapter.name, one.model): one for one in self.samples}.values():
            for field, value in itertools.product(fields, ODD_VALUES):
                input = {**sample.input, field: value}
                try:
                    sample.adapter.check(sample.model, input)
                except InputFault:
                    continue
                self.assertGreaterEqual(sample.adapter.billable(sample.task(input)).milliseconds, 0)
                for request in _first(sample.adapter.submit(sample.task(input))):
                    self._allowed(request)

    @_settings(60)
    @given(model=_MODELS, data=st.data())
    def test_odd_models(self, model: str, data: st.DataObject) -> None:
        """A target's model leads nowhere but below the address."""
        sample = self._drawn(data, self.samples)
        try:
            sample.adapter.check(model, sample.input)
        except InputFault as fault:
            self.assertTrue(fault.message)
        task = attrs.evolve(sample.task(), model=model)
        for request in _first(sample.adapter.submit(task)):
            self._allowed(request)

    def test_it_waits_as_it_is_asked(self) -> None:
        """Work that goes on is left alone for as long as the provider says."""
        for sample in self.samples:
            for exchange in sample.exchanges:
                tree = exchange.response.get("json")
                if exchange.kind != "poll" or not tree:
                    continue
                if isinstance(self._polled(sample, tree), Running):
                    outcome = self._polled(sample, tree, {"retry-after": "17"})
                    self.assertEqual(outcome, Running(17.0), sample.adapter.name)

    def test_unknown_words_mean_that_it_goes_on(self) -> None:
        """A provider that finds a new word for waiting has not lost the job."""
        seen = set()
        for sample in self.samples:
            for exchange in sample.exchanges:
                if exchange.kind != "poll" or exchange.response.get("status") not in (200, 202):
                    continue
                tree = exchange.response.get("json")
                if not tree or not isinstance(self._polled(sample, tree), Running):
                    continue
                for word in ("brewing", "SUCCEEDING", "étrange"):
                    outcome = self._polled(sample, _with_status(tree, word))
                    self.assertIsInstance(outcome, Running, (sample.adapter.name, word))
                seen.add(sample.adapter.name)
        self.assertEqual(seen, {one.adapter.name for one in self.samples if one.can_poll})

    @_settings(60)
    @given(data=st.data())
    def test_nearly_right_polls(self, data: st.DataObject) -> None:
        """What is out of joint in one place raises nothing, either."""
        sample = self._drawn(data, [one for one in self.samples if one.can_poll])
        exchanges = [one for one in sample.exchanges if one.kind in ("poll", "result")]
        for exchange in exchanges:
            if "json" in exchange.response:
                self._judge(
                    self._polled(sample, data.draw(out_of_joint(exchange.response["json"])))
                )

    def _drawn(self, data: st.DataObject, samples: Sequence[Sample]) -> Sample:
        if not samples:
            raise SkipTest("none of these adapters does that")
        return data.draw(st.sampled_from(samples))

    def _polled(
        self, sample: Sample, tree: Any, headers: Mapping[str, str] = MappingProxyType({})
    ) -> object:
        """What comes of a poll of which every request is answered so."""
        steps = sample.adapter.poll(sample.task({}), Handle("x"))
        return _ended(steps, Answer(200, headers, json.dumps(tree).encode()))

    def _converse(self, steps: Steps[T], data: st.DataObject) -> tuple[list[Request], T]:
        """Answer an adapter at random, and hold each request against the rules."""
        asked: list[Request] = []
        try:
            request = next(steps)
            while True:
                self._allowed(request)
                asked.append(request)
                self.assertLessEqual(len(asked), MAX_REQUESTS)
                request = steps.send(data.draw(answers(request)))
        except StopIteration as stop:
            outcome: T = stop.value
            return asked, outcome

    def _allowed(self, request: Request) -> None:
        """It goes below the target's address, and shows its secrets nowhere."""
        url = urlsplit(request.url)
        self.assertEqual(url[:2], ORIGIN)
        self.assertTrue(url.path.startswith("/base/"))
        parts = url.path.lower().replace("%2e", ".").split("/")
        self.assertFalse({"..", "."} & set(parts), request.url)
        self.assertTrue(request.url.isascii() and request.url.isprintable(), request.url)
        self.assertNotIn(" ", request.url)
        self.assertEqual(url.fragment, "")
        self.assertNotIn(CREDENTIAL, repr(request))
        self.assertNotIn(CREDENTIAL, request.url)
        for name, value in request.headers:
            self.assertEqual(name, name.lower())
            self.assertTrue(value.isprintable() and value.isascii(), name)
        if request.body:
            self.assertNotIn(CREDENTIAL.encode(), request.body)
            json.loads(request.body)
        self.assertTrue(0 <= request.pause_seconds <= MAX_WAIT_SECONDS)

    def _judge(self, outcome: object) -> None:
        """What is kept of an answer is clean."""
        for secret in secrets_in(CREDENTIAL):
            if not isinstance(outcome, Done):  # a URL of a provider may hold what it likes
                self.assertNotIn(secret, repr(outcome))
        match outcome:
            case Failed(error) | Transient(error):
                self._clean(error)
            case Done():
                self.assertTrue(outcome.sources)
                self.assertGreaterEqual(outcome.provider_ms, -1)
                for source in outcome.sources:
                    self._source(source)
        if isinstance(outcome, Running | Transient):
            self.assertTrue(0 <= outcome.wait_seconds <= MAX_WAIT_SECONDS)

    def _clean(self, error: JobError) -> None:
        self.assertTrue(error.message)
        self.assertLessEqual(len(error.message), MAX_MESSAGE_CHARS)
        self.assertEqual(len(error.message.splitlines()), 1)
        error.message.encode("utf-8")
        for secret in secrets_in(CREDENTIAL):
            self.assertNotIn(secret, error.message)

    def _source(self, source: object) -> None:
        self.assertIsInstance(source, UrlSource | InlineSource)
        if isinstance(source, UrlSource) and source.headers:
            self.assertEqual(urlsplit(source.url)[:2], ORIGIN)
            self.assertNotIn(CREDENTIAL, repr(source.headers and source))


def _with_status(tree: Any, word: str) -> Any:
    """A tree in which every word that is called a status is another one."""
    if isinstance(tree, dict):
        return {
            name: word
            if name in ("status", "sume_status") and isinstance(part, str)
            else _with_status(part, word)
            for name, part in tree.items()
        }
    return [_with_status(part, word) for part in tree] if isinstance(tree, list) else tree


def _first(steps: Steps[object]) -> Iterator[Request]:
    """The first request, where there is one."""
    try:
        yield next(steps)
    except StopIteration:
        return


def _ended(steps: Steps[T], answer: Answer) -> T:
    """What comes of a conversation in which every answer is the same."""
    try:
        next(steps)
        for _ in range(MAX_REQUESTS):
            steps.send(answer)
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
    raise AssertionError("it does not give up")

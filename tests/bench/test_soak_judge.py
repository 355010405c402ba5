"""The judge of the soak: what holds passes, and nothing that is wrong gets past it."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec
from twisted.trial.unittest import SynchronousTestCase

from bench.soak import replies, scene
from bench.soak.books import Asked, Attempt, Event, LogLine, Tried
from bench.soak.judge import Judge, nano_of


@attrs.define
class Books:
    """Four books of one small, sound world; tests break it."""

    asked: list[Asked] = attrs.Factory(list)
    attempts: list[Attempt] = attrs.Factory(list)
    log: list[LogLine] = attrs.Factory(list)
    ledger: list[Event] = attrs.Factory(list)

    def faults(self) -> list[str]:
        """Return the names of the checks that fail."""
        judge = Judge(self.asked, self.attempts, self.log, self.ledger)
        return [check.name for check in judge.run() if not check.ok]


def asked(mark: int, **changes: Any) -> Asked:
    one = Asked(
        mark=mark,
        kind="chat",
        manner="plain",
        model="soak-first",
        stream=False,
        address=f"127.1.1.{mark}",
        key="soak",
        lines=1,
        expected=[],
        sent=True,
        body_bytes=400,
        status=200,
        id=f"id{mark}",
        upstream="alpha",
        whole=True,
        body_crc=99,
        answer_bytes=50,
        ended_at=10.0,
    )
    return msgspec.structs.replace(one, **changes)


def attempt(mark: int, **changes: Any) -> Attempt:
    one = Attempt(
        serial=mark + 500,
        mark=mark,
        upstream="alpha",
        kind="chat",
        stream=False,
        fault="none",
        status=200,
        says="yes",
        left=False,
        pieces=1,
        total=1,
        sent_bytes=50,
        text_bytes=0,
        crc=99,
        began_at=9.0,
        ended_at=9.5,
    )
    return msgspec.structs.replace(one, **changes)


def line(mark: int, **changes: Any) -> LogLine:
    one = LogLine(f"id{mark}", "soak", 200, None, f"127.1.1.{mark}", 400, "alpha")
    return msgspec.structs.replace(one, **changes)


def event(mark: int, **changes: Any) -> Event:
    figures = replies.figures_of(mark + 500, "chat")
    one = Event(
        id=f"id{mark}",
        key_sha256=scene.digest_of("soak"),
        route_model="soak-first",
        upstream="alpha",
        target_model=scene.BY_NAME["alpha"].model,
        status=200,
        stream=False,
        input_tokens=figures.input,
        cached_input_tokens=figures.cached,
        cache_write_input_tokens=figures.written,
        output_tokens=figures.output,
        cached=False,
        estimated=False,
        cost_usd=msgspec.Raw(b"0"),
        endpoint="chat",
        attempts=[Tried("alpha", "ok")],
    )
    return priced(msgspec.structs.replace(one, **changes))


def priced(one: Event) -> Event:
    cost = scene.cost_nano(one.upstream, one.tokens)
    one.cost_usd = msgspec.Raw(b"%d.%09d" % divmod(cost, 10**9))
    return one


def none_of(one: Event, **changes: Any) -> Event:
    """The same event without tokens."""
    bare = msgspec.structs.replace(
        one, input_tokens=0, cached_input_tokens=0, cache_write_input_tokens=0, output_tokens=0
    )
    return priced(msgspec.structs.replace(bare, **changes))


def sound() -> Books:
    """A plain answer, one that its client left, an estimate, a failure, a refusal, a probe."""
    return Books(
        asked=[
            asked(1),
            asked(2, manner="leaves-waiting", status=0, id="", whole=False, lines=-1, left_at=8.0),
            asked(3, stream=True, whole=False),
            asked(
                4,
                status=502,
                code="all_upstreams_failed",
                expected=["all_upstreams_failed"],
                upstream="",
            ),
            asked(
                5, kind="no-key", status=401, code="invalid_api_key", expected=["invalid_api_key"]
            ),
            asked(6, kind="probe", lines=0, id=""),
        ],
        attempts=[
            attempt(1),
            attempt(2),
            attempt(3, stream=True, fault="cut-stream", says="no", pieces=4, total=9),
            attempt(4, fault="500", says="no", status=500, pieces=0, total=0),
        ],
        log=[
            line(1),
            line(2, status=499),
            line(3, status=499),
            line(4, status=502, error_code="all_upstreams_failed", upstream=None),
            line(5, status=401, error_code="invalid_api_key", key=None),
        ],
        ledger=[
            event(1),
            event(2, status=499),
            none_of(event(3), status=499, estimated=True, input_tokens=100, output_tokens=4),
            none_of(event(4), status=502, upstream=None, target_model=None),
        ],
    )


class JudgeTests(SynchronousTestCase):
    def check(self, name: str, spoil: Callable[[Books], object]) -> None:
        """One thing made wrong is noticed by the check of this name."""
        books = sound()
        spoil(books)
        faults = books.faults()
        self.assertTrue(any(name in fault for fault in faults), (name, faults))

    def test_sound(self) -> None:
        """A sound world passes, and its refusals and costs are counted."""
        books = sound()
        self.assertEqual(books.faults(), [])
        judge = Judge(books.asked, books.attempts, books.log, books.ledger)
        judge.run()
        self.assertEqual(dict(judge.refusals), {"invalid_api_key": 1})
        self.assertEqual(judge.total_nano, sum(nano_of(bytes(e.cost_usd)) for e in books.ledger))

    def test_lost_and_doubled(self) -> None:
        """Events that are lost, doubled or of nobody; lines that are missing or too many."""
        self.check("in the ledger, once", lambda books: books.ledger.pop(0))
        self.check("in the ledger, once", lambda books: books.ledger.pop(1))
        self.check("refused or in the ledger", lambda books: books.ledger.pop(2))
        self.check("twice", lambda books: books.ledger.append(event(1)))
        self.check("request that caused it", lambda books: books.ledger.append(event(9)))
        self.check("a line for each", lambda books: books.log.pop(0))
        self.check("a line for each", lambda books: books.log.append(line(6)))
        self.check("a line for each", lambda books: books.log.append(line(1)))
        self.check("a line for each", lambda books: books.log.append(line(77)))

    def test_figures(self) -> None:
        """Figures of another answer, of none, changed, or estimated where they were given."""

        def change(place: int, **changes: Any) -> Callable[[Books], None]:
            def spoil(books: Books) -> None:
                books.ledger[place] = priced(
                    msgspec.structs.replace(books.ledger[place], **changes)
                )

            return spoil

        self.check("with figures", change(0, output_tokens=1))
        self.check("with figures", change(0, cached_input_tokens=0))
        self.check("with figures", change(0, input_tokens=2 * 502 + 1))
        self.check("with figures", change(0, upstream="beta"))
        self.check("with figures", change(2, input_tokens=2 * 503 + 1, estimated=False))
        self.check("estimate", change(0, estimated=True))
        self.check("estimate", change(1, estimated=True))
        self.check("estimate", change(2, output_tokens=500))
        self.check("estimate", change(2, input_tokens=99))
        self.check("estimate", change(2, upstream="beta"))
        self.check(
            "without tokens",
            lambda books: books.ledger.__setitem__(0, none_of(event(1))),
        )
        self.check(
            "without tokens",
            lambda books: books.ledger.__setitem__(1, none_of(event(2), status=499)),
        )

    def test_given_up(self) -> None:
        """Long after the client left an answer is not read on, and where that is cancelled."""
        books = sound()
        books.asked[1].left_at = 5.0
        guess = none_of(event(2), status=499, estimated=True, input_tokens=100, output_tokens=12)
        books.ledger[1] = guess
        self.assertEqual(books.faults(), [])
        books.asked[1].left_at = 9.0
        self.assertNotEqual(books.faults(), [])

    def test_answers(self) -> None:
        """Wrong bytes, wrong statuses, cuts without a cause, ids that do not agree."""

        def change(place: int, **changes: Any) -> Callable[[Books], None]:
            def spoil(books: Books) -> None:
                books.asked[place] = msgspec.structs.replace(books.asked[place], **changes)

            return spoil

        self.check("to the byte", change(0, body_crc=98))
        self.check("to the byte", change(0, upstream="beta"))
        self.check("status that fits", change(0, whole=False))
        self.check("status that fits", change(0, status=204))
        self.check("status that fits", change(3, code="overloaded"))
        self.check("status that fits", change(4, status=200))
        self.check("broken answer", change(0, fault="nothing came"))
        self.check("a line for each", change(0, id="id9"))

    def test_costs(self) -> None:
        """A nano-dollar too many."""

        def spoil(books: Books) -> None:
            nano = nano_of(bytes(books.ledger[0].cost_usd)) + 1
            books.ledger[0].cost_usd = msgspec.Raw(b"%d.%09d" % divmod(nano, 10**9))

        self.check("costs what its tokens cost", spoil)
        self.assertEqual(nano_of(b"12.5"), 12_500_000_000)
        self.assertEqual(nano_of(b"0"), 0)

    def test_providers(self) -> None:
        """A request that came to a provider changed."""
        self.check(
            "as its client wrote it", lambda books: setattr(books.attempts[0], "odd", "changed")
        )

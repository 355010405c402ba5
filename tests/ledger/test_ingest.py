"""Tests for omnigate.ledger.ingest."""

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import MAX_COUNT, MediaEvent, UsageEvent
from omnigate.ledger.ingest import Prepared, Priced, Raw, prepare
from omnigate.ledger.lines import decode_line, decode_object
from omnigate.ledger.recorded_ids import id_digest
from omnigate.money import Price, price_from_usd
from tests.usage import usage_event

NOW_MS = 1_795_984_400_000

MINI = price_from_usd(input=0.15, cached_input=0.075, cache_write=0.0, output=0.60)


def as_dict(event_id: str = "e1", **changes: object) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(usage_event(event_id))
    value.update(changes)
    return value


class PrepareTests(SynchronousTestCase):
    """What becomes of a batch."""

    def setUp(self) -> None:
        self.asked: list[str] = []

    def price(self, event: UsageEvent) -> Price | None:
        self.asked.append(event.id)
        return MINI if event.target_model == "gpt-4o-mini" else None

    def prepare(self, *events: Any) -> Prepared:
        return prepare(events, price=self.price, now_ms=NOW_MS)

    def test_a_good_event_becomes_a_line(self) -> None:
        """Its cost is the four counts times the four prices, rounded once."""
        prepared = self.prepare(as_dict())
        (entry,) = prepared.entries
        self.assertEqual(entry.digest, id_digest("e1"))
        self.assertEqual(entry.cost_nano, 900 * 150 + 100 * 75 + 250 * 600)
        read, cost = decode_line(entry.line)
        self.assertEqual((read.id, cost), ("e1", entry.cost_nano))
        self.assertEqual(read.received_at, "2026-11-29T20:33:20.000Z")

    def test_bytes_are_taken_as_well(self) -> None:
        """An event may come as the JSON it was sent as, with text that is not valid UTF-8."""
        raw = msgspec.json.encode(as_dict()).replace(b"fast", b"f\xffst")
        (entry,) = self.prepare(raw).entries
        self.assertEqual(entry.event.route_model, "f\N{REPLACEMENT CHARACTER}st")

    def test_what_the_gateway_answered_itself_costs_nothing(self) -> None:
        """An answer from the cache and one that no upstream gave are free, and not unpriced."""
        prepared = self.prepare(
            as_dict("c", cached=True, upstream=None, target_model=None),
            as_dict("c2", cached=True),
            as_dict("f", upstream=None, target_model=None, status=502),
        )
        self.assertEqual([entry.cost_nano for entry in prepared.entries], [0, 0, 0])
        self.assertEqual([entry.unpriced for entry in prepared.entries], [False] * 3)
        self.assertEqual(self.asked, [])

    def test_a_target_without_a_price_is_recorded_at_nothing(self) -> None:
        """Its entry says so."""
        prepared = self.prepare(as_dict("u", target_model="other"), as_dict("ok"))
        self.assertEqual([entry.unpriced for entry in prepared.entries], [True, False])
        self.assertEqual(prepared.entries[0].cost_nano, 0)

    def test_an_id_twice_in_a_batch_is_the_writers_to_judge(self) -> None:
        """Both are prepared, in the order they came."""
        prepared = self.prepare(as_dict("e1"), as_dict("e1", output_tokens=1))
        self.assertEqual([entry.event.output_tokens for entry in prepared.entries], [250, 1])
        self.assertEqual(len({entry.digest for entry in prepared.entries}), 1)

    def test_bad_events_are_left_out_and_good_ones_kept(self) -> None:
        """Missing and mistyped members, counts that are none, values that are no object."""
        missing = as_dict("bad")
        del missing["ts_ms"]
        bad: list[Any] = [
            missing,
            as_dict("bad", input_tokens=-1),
            as_dict("bad", output_tokens=MAX_COUNT + 1),
            as_dict("bad", input_tokens=1.5),
            as_dict("bad", stream="yes"),
            as_dict("bad", key_sha256=None),
            as_dict("bad", attempts={}),
            as_dict(""),
            as_dict("bad", route_model="x" * 70_000),
            b"{",
            b"[]",
            17,
            None,
        ]
        prepared = self.prepare(*bad, as_dict("good"))
        self.assertEqual(prepared.invalid, len(bad))
        self.assertEqual(len(prepared.reasons), 3)
        self.assertIn("ts_ms", prepared.reasons[0])
        self.assertEqual([entry.event.id for entry in prepared.entries], ["good"])

    def test_what_is_counted_is_what_is_written(self) -> None:
        """Half a surrogate pair is repaired before the event is looked at, not only in its line."""
        (entry,) = self.prepare(as_dict("i\ud800", key_sha256="k\udfff", route_model="m")).entries
        read, _ = decode_line(entry.line)
        self.assertEqual(read.id, entry.event.id)
        self.assertEqual(read.key_sha256, entry.event.key_sha256)
        self.assertEqual(id_digest(read.id), entry.digest)


class PricedTests(SynchronousTestCase):
    """Events of the control plane's own, with their costs."""

    def job_event(self, **changes: object) -> MediaEvent:
        return msgspec.structs.replace(MEDIA_EVENT, **changes)

    def prepared(self, *events: Raw) -> Prepared:
        return prepare(events, price=lambda event: MINI, now_ms=NOW_MS)

    def test_the_cost_is_the_one_that_is_told(self) -> None:
        """No price is looked for; the line says what kind of event it is."""
        (entry,) = self.prepared(Priced(MEDIA_EVENT, 5)).entries
        self.assertEqual((entry.cost_nano, entry.unpriced), (5, False))
        read, cost = decode_line(entry.line)
        self.assertEqual((read.id, cost), ("job_1", 5))
        shown = decode_object(entry.line)
        self.assertEqual((shown["kind"], shown["outputs"]), ("media", 2))

    def test_without_a_price_it_is_counted_as_unpriced(self) -> None:
        """As an event of text is."""
        (entry,) = self.prepared(Priced(MEDIA_EVENT, None)).entries
        self.assertEqual((entry.cost_nano, entry.unpriced), (0, True))

    def test_a_data_plane_cannot_send_one(self) -> None:
        """What says that it is one, with a cost, is priced as the text event that it may be."""
        sent = {**msgspec.to_builtins(MEDIA_EVENT), "cost_nano": 7, "cost_usd": 7}
        (entry,) = self.prepared(sent).entries
        self.assertIsInstance(entry.event, UsageEvent)
        self.assertNotIsInstance(entry.event, MediaEvent)
        self.assertEqual(entry.cost_nano, 0)
        self.assertNotIn(b"kind", entry.line)


MEDIA_EVENT = MediaEvent(
    id="job_1",
    key_sha256="ab" * 32,
    route_model="flux",
    upstream="replicate",
    target_model="acme/flux",
    status=200,
    stream=False,
    input_tokens=0,
    cached_input_tokens=0,
    cache_write_input_tokens=0,
    output_tokens=0,
    cached=False,
    estimated=False,
    latency_ms=4_000,
    attempts=[],
    ts_ms=NOW_MS,
    endpoint="jobs",
    outputs=2,
)

"""What data planes get, and what they may send."""

from __future__ import annotations

import json
import os
from datetime import datetime
from zoneinfo import ZoneInfo

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import decode_snapshot
from omnigate.files import append_file
from tests.control.conversation import INTERNAL
from tests.control.plane import APP_SHA, CONFIG, START, Plane, event

DAY = 86_400


class ConfigTests(SynchronousTestCase):
    """The snapshot."""

    def test_not_ready_while_the_ledger_is_not_loaded(self) -> None:
        """A data plane keeps what it has until spend can be told."""
        plane = Plane(self.mktemp(), open_ledger=False)
        reply = plane.internal("GET", "/internal/config")
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, "1"))
        self.assertEqual(reply.json()["error"]["code"], "not_ready")
        plane.open_ledger()
        self.assertEqual(plane.internal("GET", "/internal/config").status, 200)

    def test_what_it_holds(self) -> None:
        """Keys by hash and the names of variables; neither money nor secrets."""
        plane = Plane(self.mktemp())
        plane.admin("POST", "/admin/keys", b'{"name":"m1","models":["fast"],"budget_usd":2}')
        reply = plane.internal("GET", "/internal/config")
        snapshot = decode_snapshot(reply.body)
        self.assertEqual({key.name for key in snapshot.keys}, {"app", "m1"})
        self.assertEqual(
            [upstream.api_key_env for upstream in snapshot.upstreams], ["OPENAI_API_KEY"]
        )
        for word in (b"budget", b"price", b"usd", b"secret", b"ogk_"):
            self.assertNotIn(word, reply.body)

    def test_version(self) -> None:
        """The version changes when a key does, and only then; the etag is the version."""
        plane = Plane(self.mktemp())
        first = plane.internal("GET", "/internal/config")
        etag = first.headers["etag"]
        self.assertEqual(etag, f'"{first.json()["version"]}"')
        same = plane.talk.ask(
            "GET", "/internal/config", (*INTERNAL, (b"if-none-match", etag.encode()))
        )
        self.assertEqual((same.status, same.body), (304, b""))
        self.assertNotIn("content-type", same.headers)
        plane.admin("POST", "/admin/keys", b'{"name":"m1"}')
        changed = plane.internal("GET", "/internal/config")
        self.assertNotEqual(changed.headers["etag"], etag)
        plane.admin("DELETE", "/admin/keys/m1")
        self.assertEqual(plane.internal("GET", "/internal/config").headers["etag"], etag)

    def test_blocked_by_spend_until_the_period_turns(self) -> None:
        """The poll after the budget is spent blocks the key, the first of the next day frees it."""
        plane = Plane(self.mktemp())

        def blocked() -> bool:
            (key,) = decode_snapshot(plane.internal("GET", "/internal/config").body).keys
            return key.blocked

        self.assertFalse(blocked())
        batch = json.dumps({"events": [event(input_tokens=100_000)]}).encode()
        plane.internal("POST", "/internal/usage/batch", batch)
        self.assertTrue(blocked())
        plane.clock.advance(DAY - START % DAY - 1)
        self.assertTrue(blocked())
        plane.clock.advance(1)
        self.assertFalse(blocked())

    def test_block_lapses_at_midnight_in_a_zone(self) -> None:
        """The poll that finds a new day in Stockholm frees the key: 23 hours of it, or 25."""
        zone = 'budget_period = "daily"\nbudget_timezone = "Europe/Stockholm"'
        for day, hours in (("2027-03-28", 23), ("2027-06-01", 24), ("2027-10-31", 25)):
            plane = Plane(self.mktemp(), CONFIG.replace('budget_period = "daily"', zone))
            midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Stockholm"))
            plane.clock.advance(midnight.timestamp() - plane.clock.seconds())

            def blocked(plane: Plane = plane) -> bool:
                (key,) = decode_snapshot(plane.internal("GET", "/internal/config").body).keys
                return key.blocked

            def spend(name: str, plane: Plane = plane) -> None:
                found = event(id=name, input_tokens=100_000, ts_ms=plane.now_ms())
                batch = json.dumps({"events": [found]}).encode()
                self.assertEqual(
                    plane.internal("POST", "/internal/usage/batch", batch).json()["recorded"], 1
                )

            spend("first")
            self.assertTrue(blocked())
            plane.clock.advance(hours * 3600 - 0.001)
            self.assertTrue(blocked())
            spend("last")
            plane.clock.advance(midnight.timestamp() + hours * 3600 - plane.clock.seconds())
            self.assertFalse(blocked(), day)
            spend("next")
            self.assertTrue(blocked())
            plane.close()

    def test_reloaded_config_travels(self) -> None:
        """What the operator changes in the file is in the next snapshot."""
        plane = Plane(self.mktemp())
        with open(plane.config_path, encoding="utf-8") as file:
            text = file.read()
        plane.write_config(text.replace("rpm = 600", "rpm = 7"))
        plane.admin("POST", "/admin/reload")
        (key,) = decode_snapshot(plane.internal("GET", "/internal/config").body).keys
        self.assertEqual(key.rpm, 7)


class BatchTests(SynchronousTestCase):
    """Usage events."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.plane = Plane(self.folder)

    def send(self, *events: object) -> tuple[int, dict[str, int]]:
        reply = self.plane.internal(
            "POST", "/internal/usage/batch", json.dumps({"events": events}).encode()
        )
        answer = reply.json()
        self.told = answer.pop("config_version", None)
        return reply.status, answer

    def test_counts_once(self) -> None:
        """A batch sent again is answered the same way and billed once."""
        self.assertEqual(
            self.send(event(), event(id="event-2")),
            (200, {"recorded": 2, "duplicates": 0, "invalid": 0}),
        )
        self.assertEqual(
            self.send(event(), event(id="event-2")),
            (200, {"recorded": 0, "duplicates": 2, "invalid": 0}),
        )
        self.assertEqual(self.plane.ledger.lifetime([APP_SHA]).requests, 2)

    def test_one_bad_event_costs_only_itself(self) -> None:
        """What cannot be recorded is counted, and the others of its batch are recorded."""
        body = b'{"events":[{"id":1e999},7,{"id":"\xff"},' + json.dumps(event()).encode() + b"]}"
        reply = self.plane.internal("POST", "/internal/usage/batch", body)
        answer = reply.json()
        self.assertEqual((answer["recorded"], answer["duplicates"], answer["invalid"]), (1, 0, 3))

    def test_tells_the_version_of_the_config(self) -> None:
        """That of the snapshot, or none where an event changed it, so that a plane asks again."""

        def version() -> str:
            found: str = self.plane.internal("GET", "/internal/config").json()["version"]
            return found

        first = version()
        self.send(event())
        self.assertEqual(self.told, first)
        self.send(event(id="event-2", input_tokens=100_000))
        self.assertEqual(self.told, "")
        self.assertNotEqual(version(), first)
        self.send(event(id="event-3", input_tokens=100_000))
        self.assertEqual(self.told, version())
        self.plane.admin("POST", "/admin/keys", b'{"name":"m1"}')
        self.send(event(id="event-3"))
        self.assertEqual(self.told, "")

    def test_acknowledged_whatever_becomes_of_budgets(self) -> None:
        """A fault in the comparing is logged; the events are on the disk all the same."""

        def broken() -> None:
            raise RuntimeError("on purpose")

        self.plane.watch.look = broken  # type: ignore[method-assign]
        self.assertEqual(self.send(event())[1]["recorded"], 1)
        self.assertEqual(self.told, "")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_answered_after_the_sync_only(self) -> None:
        """The data plane may forget an event once this is answered, so not a moment earlier."""
        channel, transport = self.plane.talk.connect()
        self.plane.writer.holding = True
        body = json.dumps({"events": [event()]}).encode()
        head = b"POST /internal/usage/batch HTTP/1.1\r\nhost: x\r\n"
        head += b"x-omnigate-internal: " + INTERNAL[0][1]
        channel.dataReceived(head + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual(transport.value(), b"")
        self.plane.writer.run()
        self.assertTrue(transport.value().startswith(b"HTTP/1.1 200"))
        with open(os.path.join(self.folder, "ledger.jsonl"), "rb") as file:
            self.assertEqual(json.loads(file.read())["id"], "event-1")

    def test_refused(self) -> None:
        """What is no batch is refused whole."""
        for body, code in (
            (b"", "invalid_json"),
            (b"{", "invalid_json"),
            (b"[]", "invalid_request"),
            (b"{}", "invalid_request"),
            (b'{"events":{}}', "invalid_request"),
            (b'{"events":[],"more":1}', "invalid_request"),
            (json.dumps({"events": [{}] * 501}).encode(), "invalid_request"),
            (b'{"events":[' + b"[" * 100_000, "invalid_json"),
        ):
            reply = self.plane.internal("POST", "/internal/usage/batch", body)
            self.assertEqual((reply.status, reply.json()["error"]["code"]), (400, code), body[:20])

    def test_full_disk(self) -> None:
        """A batch that the disk refuses is answered so, and taken when it is sent again."""
        from twisted.internet.defer import fail

        submit, self.plane.writer.submit = (  # type: ignore[method-assign]
            self.plane.writer.submit,
            lambda job: fail(OSError(28, "No space left on device")),
        )
        status, answer = self.send(event())
        self.assertEqual((status, answer["error"]["code"]), (503, "storage_unavailable"))  # type: ignore[index]
        self.plane.writer.submit = submit  # type: ignore[method-assign]
        self.assertEqual(self.send(event())[1]["recorded"], 1)

    def test_survives_a_restart(self) -> None:
        """What was acknowledged is there after a start, and known as a duplicate."""
        self.send(event())
        self.plane.close()
        append_file(os.path.join(self.folder, "ledger.jsonl"), b'{"id":"torn')
        self.plane = Plane(self.folder)
        self.assertEqual(self.send(event())[1]["duplicates"], 1)


class CountersTests(SynchronousTestCase):
    """Counts of refusals."""

    def test_counted(self) -> None:
        """Counts add up by key and reason, for people and for metrics."""
        plane = Plane(self.mktemp())
        body = b'{"refusals":[{"key":"app","code":"rate_limit_exceeded","count":3}],"gauges":{}}'
        for _ in range(2):
            self.assertEqual(plane.internal("POST", "/internal/counters", body).status, 200)
        (row,) = plane.admin("GET", "/admin/refusals").json()["refusals"]
        self.assertEqual((row["key"], row["code"], row["count"]), ("app", "rate_limit_exceeded", 6))
        self.assertEqual(row["last_at"], "2026-11-29T20:00:00.000Z")
        self.assertIn(
            b'omnigate_refusals_total{reason="rate_limit_exceeded"} 6.0',
            plane.admin("GET", "/metrics").body,
        )

    def test_figures(self) -> None:
        """Figures of several processes are one sum, until a process leaves."""
        plane = Plane(self.mktemp())
        for report, shown in (
            (b'{"gauges":{"spool_events":3},"reporter":"a"}', b"3.0"),
            (b'{"gauges":{"spool_events":4},"reporter":"b"}', b"7.0"),
            (b'{"gauges":{"spool_events":1},"reporter":"a"}', b"5.0"),
            (b'{"gauges":{"spool_events":10}}', b"15.0"),
            (b'{"gauges":{},"reporter":"b"}', b"15.0"),
            (b'{"gauges":{},"reporter":"b","leaving":true}', b"11.0"),
        ):
            self.assertEqual(200, plane.internal("POST", "/internal/counters", report).status)
            body = plane.admin("GET", "/metrics").body
            self.assertIn(b"omnigate_spool_events %b\n" % shown, body)

    def test_counts(self) -> None:
        """What data planes counted is shown of all together, and each report counts once."""
        plane = Plane(self.mktemp())
        report = (
            b'{"refusals":[{"key":"app","code":"not_found","count":1}],"gauges":{},"reporter":"%b",'
            b'"number":%d,"counts":[["omnigate_data_requests_total",'
            b'[[["fast","chat","2xx","answered"],%d],[["fast","messages","2xx","answered"],1]]],'
            b'["omnigate_data_request_duration_seconds",[[["chat","3"],2],[["chat","total"],0.5]]],'
            b'["omnigate_new_total",[[["a","b"],1]]]],"new":{"a":[]}}'
        )
        for reporter, number, growth in ((b"a", 1, 2), (b"a", 1, 2), (b"b", 1, 5), (b"a", 2, 1)):
            body = report % (reporter, number, growth)
            self.assertEqual(200, plane.internal("POST", "/internal/counters", body).status)
        text = plane.scrape().decode()
        for line in (
            'omnigate_requests_total{outcome="answered",plane="data",protocol="openai",'
            'route="fast",status_class="2xx"} 8.0',
            'omnigate_requests_total{outcome="answered",plane="data",protocol="anthropic",'
            'route="fast",status_class="2xx"} 3.0',
            'omnigate_request_duration_seconds_count{endpoint="chat",plane="data"} 6.0',
            'omnigate_request_duration_seconds_sum{endpoint="chat",plane="data"} 1.5',
            'omnigate_request_duration_seconds_bucket{endpoint="chat",le="0.025",plane="data"} 0.0',
            'omnigate_request_duration_seconds_bucket{endpoint="chat",le="0.05",plane="data"} 6.0',
            'omnigate_refusals_total{reason="not_found"} 3.0',
        ):
            self.assertIn(f"\n{line}\n", text)
        self.assertNotIn("omnigate_new", text)

    def test_many_rows(self) -> None:
        """The rows of a large report are counted in turns, and a second time not meanwhile."""
        plane = Plane(self.mktemp())
        rows = b",".join(b'[["fast","chat","2xx","o%d"],1]' % number for number in range(10_000))
        counts = b'[["omnigate_data_requests_total",[%b]]]' % rows
        refusals = b",".join(
            b'{"key":"k%d","code":"not_found","count":1}' % number for number in range(10_000)
        )
        report = b'{"reporter":"a","number":1,"refusals":[%b],"counts":%b}' % (refusals, counts)
        for _ in range(2):
            self.assertEqual(200, plane.internal("POST", "/internal/counters", report).status)
        self.assertEqual(20, plane.pauses)
        self.assertIn(b'omnigate_refusals_total{reason="not_found"} 10000.0\n', plane.scrape())

    def test_refused(self) -> None:
        """What is no report is refused, and nothing of it is counted."""
        plane = Plane(self.mktemp())
        for body in (
            b"[]",
            b'{"refusals":[{"key":"app","code":"x"}]}',
            b'{"refusals":[{"key":"app","code":"x","count":-1}]}',
            b'{"refusals":[{"key":"app","code":"x","count":1.5}]}',
            b'{"gauges":{"a":"b"}}',
            b'{"gauges":{},"reporter":7}',
            b'{"refusals":[{"key":"app","code":"x","count":1}],"counts":[["a",[[["b"],"c"]]]]}',
            b'{"refusals":[{"key":"app","code":"x","count":1}],"number":-1}',
            b'{"refusals":[{"key":"app","code":"x","count":1}],"upstreams":{"a":"b"}}',
            b'{"gauges":{},"reporter":"%b"}' % (b"x" * 65),
        ):
            self.assertEqual(plane.internal("POST", "/internal/counters", body).status, 400, body)
        self.assertEqual(plane.admin("GET", "/admin/refusals").json()["refusals"], [])

    def test_while_the_stores_are_down(self) -> None:
        """Who cannot record is told how much waits all the same."""
        plane = Plane(self.mktemp(), open_ledger=False)
        self.assertEqual(
            503, plane.internal("POST", "/internal/usage/batch", b'{"events":[]}').status
        )
        body = b'{"gauges":{"spool_events":7},"reporter":"a"}'
        self.assertEqual(200, plane.internal("POST", "/internal/counters", body).status)
        text = plane.scrape()
        self.assertIn(b"omnigate_spool_events 7.0\n", text)
        self.assertIn(b"omnigate_stores_up 0.0\n", text)

    def test_any_text(self) -> None:
        """A key name that is not UTF-8 or holds control bytes is made showable."""
        plane = Plane(self.mktemp())
        body = b'{"refusals":[{"key":"a\xff\\u0007","code":"nonsense","count":1}]}'
        self.assertEqual(plane.internal("POST", "/internal/counters", body).status, 200)
        (row,) = plane.admin("GET", "/admin/refusals").json()["refusals"]
        self.assertEqual((row["key"], row["code"]), ("a\ufffd\\x07", "other"))

"""Tests for omnigate.jobs.provider_line: caps, files for media, connections that are not free."""

from __future__ import annotations

import base64
import json
from collections import deque
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed

from omnigate.config.media import MediaConfig
from omnigate.jobs.incoming import Incoming
from omnigate.jobs.provider_line import (
    MAX_API_BYTES,
    MAX_INLINE_BYTES,
    ProviderLine,
    inline_bytes,
)
from omnigate.outbound.messages import NO_TURN, TRUNCATED, Answer, Cap, Request, Sink
from tests.jobs.outputs_case import JOB, PNG, OutputsTestCase


class Source:
    """Nothing is slowed down here."""

    def pause(self) -> None:
        """Go on."""

    def resume(self) -> None:
        """Go on."""


class Caller:
    """Answers with what a test gives it; the body of a 2xx goes into the sink."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.caps: list[int] = []

    async def call(self, request: Request, max_bytes: int, sink: Sink | None = None) -> Answer:
        """Answer."""
        self.caps.append(max_bytes)
        answer = self.answers.popleft()
        if sink is None or not answer.ok:
            return answer
        sink.begin(Source())
        sink.write(answer.body)
        await sink.finish()
        return attrs.evolve(answer, body=b"")


class LineTests(OutputsTestCase):
    """Requests of an adapter."""

    def setUp(self) -> None:
        super().setUp()
        self.caller = Caller()
        self.paused: list[float] = []
        self.media = MediaConfig(max_output_bytes=1_000_000)

        def pause(seconds: float) -> Deferred[None]:
            self.paused.append(seconds)
            return succeed(None)

        incoming: Incoming = self.outputs.incoming
        self.line = ProviderLine(self.caller, incoming, lambda: self.media, pause)

    def ask(self, cap: Cap, *answers: Answer) -> Answer:
        self.caller.answers.extend(answers)
        request = Request("GET", "https://api.example.com/x", cap=cap)
        return self.successResultOf(Deferred.fromCoroutine(self.line.send(JOB, request)))

    def test_what_an_interface_says_is_short(self) -> None:
        """It comes as it is."""
        answer = self.ask(Cap.API, Answer(200, body=b"{}"))
        self.assertEqual((answer.body, self.caller.caps), (b"{}", [MAX_API_BYTES]))

    def test_media_in_json_go_into_files(self) -> None:
        """A marker stands in their place."""
        content = PNG * 400
        body: dict[str, Any] = {"b64": base64.b64encode(content).decode(), "n": 1}
        answer = self.ask(Cap.INLINE, Answer(200, body=json.dumps(body).encode()))
        told = json.loads(answer.body)
        self.assertEqual(told["n"], 1)
        kept = answer.media[told["b64"]]
        self.assertEqual((kept.size, self.disk.contents()[kept.path]), (len(content), content))
        self.assertEqual(self.caller.caps, [inline_bytes(self.media)])

    def test_a_body_that_is_the_media_goes_into_a_file(self) -> None:
        """Of at most the size that the config allows."""
        answer = self.ask(Cap.OUTPUT, Answer(200, body=PNG))
        assert answer.kept is not None
        self.assertEqual(self.disk.contents()[answer.kept.path], PNG)
        self.assertEqual(self.caller.caps, [1_000_000])

    def test_a_refusal_is_passed_on(self) -> None:
        """So is what broke."""
        for cap in Cap:
            self.assertEqual(self.ask(cap, Answer(429, body=b"no")).body, b"no")
            self.assertEqual(self.ask(cap, Answer(200, fault=TRUNCATED)).fault, TRUNCATED)

    def test_a_connection_that_is_not_free_is_waited_for(self) -> None:
        """Nothing was sent, so it is no second submit."""
        busy = Answer(0, fault=NO_TURN)
        answer = self.ask(Cap.API, busy, busy, Answer(200, body=b"{}"))
        self.assertEqual((answer.status, len(self.caller.caps), len(self.paused)), (200, 3, 2))

    def test_no_answer_with_media_is_longer_than_the_most(self) -> None:
        """Base64 is a third longer than what it holds."""
        self.assertEqual(inline_bytes(MediaConfig(max_output_bytes=3)), 4 + 65_536)
        self.assertEqual(inline_bytes(MediaConfig()), MAX_INLINE_BYTES)

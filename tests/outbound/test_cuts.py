"""Answers in any cut of their bytes: the same comes of them, or the same fault."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.messages import Request
from tests.outbound.network import MemorySink, Network

LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 404 \r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 99\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Connection: close\r\n",
        b"X: y\r\n",
        b"\r\n",
        b"\n",
        b"5\r\nabcde\r\n",
        b"0\r\n\r\n",
        b"abcde",
    ]
)


class CutTests(SynchronousTestCase):
    def outcome(self, pieces: list[bytes], clean: bool) -> object:
        """What comes of an answer in these pieces, and then the end of the connection."""
        network = Network({"api.example": ["1.2.3.4"]})
        outbound = network.outbound()
        sink = MemorySink()
        answered = network.begin(
            outbound.call(Request("GET", "https://api.example/"), 50, sink=sink)
        )
        for piece in pieces:
            network.last.says(piece)
        network.last.closes(clean=clean)
        network.turn()
        answer = self.successResultOf(answered)
        closed = Deferred.fromCoroutine(outbound.close())
        network.turn()
        self.successResultOf(closed)
        self.assertEqual(network.clock.getDelayedCalls(), [])
        content = b"" if "abandon" in sink.told else sink.content
        return answer.status, answer.fault, answer.body, answer.headers, content, sink.told

    @settings(deadline=None)
    @given(
        st.lists(LINES, max_size=10).map(b"".join),
        st.lists(st.integers(0, 400), max_size=8),
        st.booleans(),
    )
    def test_any_cut(self, text: bytes, places: list[int], clean: bool) -> None:
        """Head, framing and end are found wherever reads begin and end."""
        bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
        pieces = [text[first:last] for first, last in pairwise(bounds) if first < last]
        whole = self.outcome([text] if text else [], clean)
        self.assertEqual(self.outcome(pieces, clean), whole)

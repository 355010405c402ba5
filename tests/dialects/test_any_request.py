"""Whatever a client sends, an upstream gets what it takes, or the client is told the place."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.request_body import MAX_PIECES
from omnigate.dialects.shapes import Quirk
from omnigate.errors import GatewayError
from tests.dialects.conversations import PAIRS, Called, Round, Talk, Words
from tests.dialects.odd_bodies import ODD_BODIES, broken, words_of
from tests.dialects.spellings import Body, encoded, read_back, spelled
from tests.dialects.test_translated_wholes import piece
from tests.dialects.upstream_rules import check_upstream

_CODES = ("untranslatable_request", "invalid_request", "invalid_json")
_flags = st.booleans()
CAPABILITIES = st.builds(
    Capabilities,
    sampling=_flags,
    thinking=st.sampled_from(("adaptive", "budget")),
    thinking_off=_flags,
    forced_tools=_flags,
    mid_system=_flags,
    prefill=_flags,
    structured_outputs=_flags,
    reasoning=_flags,
    effort_none=_flags,
    stop=_flags,
    efforts=st.sampled_from(((), ("low", "high"), ("none", "minimal", "max"))),
    max_output=st.sampled_from((0, 8192)),
)
QUIRKS = st.sampled_from((Quirk.NONE, Quirk.NO_SAMPLING, Quirk.THOUGHT_SIGNATURE))


def translated(pair: tuple[str, str], body: bytes, caps: Capabilities, quirks: Quirk) -> bytes:
    """Return what goes upstream."""
    request = piece(pair[0], "request_reader").read_request(body)
    written: bytes = piece(pair[1], "request_writer").write_request(request, "m", caps, quirks).body
    return written


def stands(path: str, body: Any) -> bool:
    """Return whether a place is in a body; what it ends with may be members that are missing."""
    steps = re.findall(r"[^.\[\]]+|\[\d+\]", path)
    for step in steps:
        if step.startswith("["):
            index = int(step[1:-1])
            if not isinstance(body, list) or index >= len(body):
                return False
            body = body[index]
        elif not isinstance(body, dict):
            return body is None  # the same as missing
        elif step not in body:
            return step not in ("messages", "input") or len(steps) == 1
        else:
            body = body[step]
    return True


class AnyRequestTests(SynchronousTestCase):
    """See the module's docstring."""

    def judge(self, pair: tuple[str, str], body: Body, caps: Capabilities, quirks: Quirk) -> bytes:
        """Return what goes upstream, which its provider takes; nothing where it was refused."""
        data = json.dumps(body).encode()
        try:
            sent = translated(pair, data, caps, quirks)
        except GatewayError as error:
            self.assertIn(error.kind.code, _CODES, (pair, body))
            if error.kind.code != "invalid_json":
                place = error.param or ""
                self.assertIn(place, error.message)
                self.assertTrue(stands(place, body), (pair, error, body))
                said = "messages" if pair[0] == "responses" else "input"
                self.assertFalse(place.startswith(said), (pair, error, body))
            return b""
        check_upstream(pair[1], read_back(sent))
        return sent

    @settings(max_examples=60, deadline=None)
    @given(st.data(), CAPABILITIES, QUIRKS)
    def test_odd(self, data: st.DataObject, caps: Capabilities, quirks: Quirk) -> None:
        """Messages in any order: whatever is accepted is whole, and valid for the upstream."""
        for pair in PAIRS:
            body = data.draw(ODD_BODIES[pair[0]])
            sent = self.judge(pair, body, caps, quirks)
            if sent:
                lost = words_of(json.dumps(body).encode()) - words_of(sent)
                self.assertEqual(lost, set(), (pair, body, sent))

    @settings(max_examples=60, deadline=None)
    @given(st.data(), CAPABILITIES)
    def test_broken(self, data: st.DataObject, caps: Capabilities) -> None:
        """Values of any type in any place are taken or refused, and never a crash."""
        for pair in PAIRS:
            self.judge(pair, data.draw(broken(pair[0])), caps, Quirk.NONE)

    def test_bounded(self) -> None:
        """As many calls with their results are taken in every protocol, and no more."""
        for pair in PAIRS:
            for rounds, taken in ((MAX_PIECES // 4 - 2, True), (MAX_PIECES // 4 + 2, False)):
                body = encoded(spelled(pair[0], talk_of(rounds), pair[1]))
                try:
                    translated(pair, body, Capabilities(), Quirk.NONE)
                except GatewayError as error:
                    self.assertEqual(error.kind.code, "request_too_complex")
                    self.assertFalse(taken, pair)
                else:
                    self.assertTrue(taken, pair)


def talk_of(rounds: int) -> Talk:
    """Return a conversation of so many calls, each behind the result of the one before."""
    called = [Called(f"c{index}", "f", "{}", "x") for index in range(rounds)]
    first = [Words("x")]
    return Talk(
        system="",
        rounds=[Round([] if index else first, calls=[one]) for index, one in enumerate(called)],
        last=(),
        tools=(),
        choice="",
        one_at_a_time=False,
        max_tokens=16,
        temperature=None,
        top_p=None,
        stop=(),
        effort=None,
        schema=None,
        user="",
        tier=None,
        stream=False,
    )

"""What the gateway packed is cut before a provider of the client's own protocol sees it."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.messages.own_signatures import (
    MAX_CUT_MESSAGES,
    may_hold_own,
    strip_own_reasoning,
    strip_own_signatures,
)
from omnigate.errors import GatewayError

OWN = b'{"type":"thinking","thinking":"x","signature":"omnigate.r1:eA=="}'
UNSIGNED = b'{ "signature" : "", "thinking": "", "type": "thinking" }'
SIGNED = b'{"type":"thinking","thinking":"x","signature":"c2ln"}'
TEXT = rb'{"type": "text", "text": "\u0041 say \"signature\":\"omnigate.x\"" , "n": 1.50}'


def message(*blocks: bytes) -> bytes:
    """A message of these blocks."""
    return b'{"role": "assistant", "content":[' + b",".join(blocks) + b"]}"


def request(*messages: bytes) -> bytes:
    """A request of these messages, with members before and behind them."""
    members = b",".join(messages)
    return b'{"model":"m","temperature":1.0,"messages":[' + members + b'],"max_tokens": 1e3}'


class SignatureTests(SynchronousTestCase):
    """Thinking blocks in a Messages request."""

    def same(self, body: bytes) -> None:
        """Expect that nothing is cut, and not even copied."""
        self.assertIs(strip_own_signatures(body), body)

    def test_cut(self) -> None:
        """Own and unsigned blocks go, wherever they stand; all else keeps its bytes."""
        for own in (OWN, UNSIGNED, OWN.replace(b":", b" : ")):
            for blocks, left in (
                ((own, TEXT), (TEXT,)),
                ((TEXT, own), (TEXT,)),
                ((SIGNED, own, TEXT, own), (SIGNED, TEXT)),
            ):
                first = b'{"role":"user", "content": "\\"signature\\":\\"\\""}'
                last = message(TEXT, SIGNED)
                body = request(first, message(*blocks), last)
                self.assertTrue(may_hold_own("messages", body))
                self.assertTrue(may_hold_own("count_tokens", body))
                cut = strip_own_signatures(body)
                for text in (first, last, b",".join(left), b'"temperature":1.0', b"1e3"):
                    self.assertIn(text, cut)
                self.assertEqual(json.loads(cut), json.loads(request(first, message(*left), last)))
                names = list(json.loads(cut))
                self.assertEqual(names, ["model", "temperature", "messages", "max_tokens"])
                self.same(cut)

    def test_empty_message_goes(self) -> None:
        """A message of nothing else is dropped; one that was empty before is not."""
        user = b'{"role":"user","content":"x"}'
        empty = b'{"role":"assistant","content":[]}'
        body = request(user, message(OWN, UNSIGNED), user, empty)
        self.assertEqual(
            json.loads(strip_own_signatures(body)), json.loads(request(user, user, empty))
        )

    def test_nothing_to_cut(self) -> None:
        """The very same object comes back, also where the words stand elsewhere."""
        call = b'{"type":"tool_use","id":"a","name":"f","input":{"signature":"","type":"thinking"}}'
        other = OWN.replace(b'"thinking"', b'"reasoning"', 1)
        nested = b'{"type":"tool_result","tool_use_id":"a","content":[' + OWN + b"]}"
        for block in (SIGNED, TEXT, call, other, nested, b'{"signature":""}'):
            self.same(request(message(block)))
        self.same(b'{"system":[' + OWN + b'],"messages":[]}')
        self.assertFalse(may_hold_own("messages", request(message(SIGNED, TEXT))))
        self.assertFalse(may_hold_own("chat", request(message(OWN))))

    def test_odd_bodies(self) -> None:
        """What is not of the protocol's shape is the provider's to refuse."""
        for body in (
            OWN,
            b"[" + OWN + b"]",
            b'{"messages":' + OWN + b"}",
            b'{"messages":[' + OWN + b"]}",
            b'{"messages":[5,' + message(OWN) + b"]}",
            request(message(OWN, b"5")),
            request(message(OWN))[:-1],
            b'{"messages":[{"content":"\xff"},' + message(OWN) + b"]}",
            b'{"x":' + b"[" * 100_000 + OWN,
        ):
            self.same(body)

    def test_named_twice(self) -> None:
        """Of members named twice the last counts, as it does for providers."""
        body = b'{"messages":[' + message(OWN) + b'],"messages":[' + message(OWN, TEXT) + b"]}"
        cut = strip_own_signatures(body)
        self.assertEqual(json.loads(cut), {"messages": [json.loads(message(TEXT))]})

    def test_bound(self) -> None:
        """More messages than any conversation has are refused."""
        strip_own_signatures(request(*[message(OWN)] * MAX_CUT_MESSAGES))
        many = request(*[message(OWN)] * (MAX_CUT_MESSAGES + 1))
        error = self.assertRaises(GatewayError, strip_own_signatures, many)
        assert isinstance(error, GatewayError)
        self.assertEqual(error.kind.code, "request_too_complex")

    @settings(max_examples=200)
    @given(st.lists(st.lists(st.sampled_from([OWN, UNSIGNED, SIGNED, TEXT]), max_size=4)))
    def test_any(self, talk: list[list[bytes]]) -> None:
        """Whatever stands beside it, exactly the own blocks go."""
        body = request(*[message(*blocks) for blocks in talk])
        kept: list[Any] = []
        for blocks in talk:
            left = [block for block in blocks if block not in (OWN, UNSIGNED)]
            if left or not blocks:
                kept.append(json.loads(message(*left)))
        self.assertEqual(json.loads(strip_own_signatures(body))["messages"], kept)


class ReasoningTests(SynchronousTestCase):
    """Reasoning items in a Responses request."""

    ITEM = b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"omnigate.v1:eA=="}'

    def test_cut(self) -> None:
        """Own items go; a provider's own stay, and so does everything else."""
        foreign = self.ITEM.replace(b"omnigate.v1:", b"gAAA")
        said = rb'{"role": "user", "content": "\"encrypted_content\":\"omnigate.v1:\""}'
        body = b'{"input":[%b],"model":"m"}' % b" , ".join((said, self.ITEM, foreign, self.ITEM))
        self.assertTrue(may_hold_own("responses", body))
        want = b'{"input":[%b,%b],"model":"m"}' % (said, foreign)
        self.assertEqual(strip_own_reasoning(body), want)
        self.assertIs(strip_own_reasoning(want), want)

    def test_nothing_to_cut(self) -> None:
        """Text, other items, and what is no request at all."""
        other = self.ITEM.replace(b'"reasoning"', b'"compaction"')
        for body in (
            b'{"input":"omnigate.v1:"}',
            b'{"input":"x","metadata":' + self.ITEM + b"}",
            b'{"input":[' + other + b"]}",
            b'{"input":[5,' + self.ITEM + b"]}",
            self.ITEM,
            b'{"input":[' + self.ITEM,
        ):
            self.assertIs(strip_own_reasoning(body), body)
        self.assertFalse(may_hold_own("responses", b'{"input":"omnigate.v1:"}'))

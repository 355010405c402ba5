"""Tests of omnigate.wire.json_proofs."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_body import MAX_DEPTH, MAX_KEY_BYTES, BodyScan, ScanError
from omnigate.wire.json_proofs import prove_rebuilt, prove_shallow, prove_small
from omnigate.wire.json_scan import CALM_BYTES, BodyScanner
from omnigate.wire.json_walk import JsonWalk
from tests.corpus import body_attacks
from tests.wire.test_json_scan import bodies
from tests.wire.test_json_walk import VALUES, documents


def by_walk(body: bytes) -> BodyScan | None:
    """Scan a body by the walk, whatever its size; None when it is refused."""
    scanner = BodyScanner(CALM_BYTES + 1)
    scanner.feed(body)
    try:
        return scanner.finish(body)
    except ScanError:
        return None


def claims(body: bytes) -> list[BodyScan]:
    """Return what the proofs claim of a body."""
    found = []
    small = prove_small(body)
    if small is not None and len(body) <= MAX_KEY_BYTES:
        found.append(small)
    try:
        rebuilt = prove_rebuilt(body)
    except ScanError:
        rebuilt = None
    if rebuilt is not None and prove_shallow(rebuilt[1]):
        found.append(rebuilt[0])
    return found


#: Members that are traps for a search: names as values, in keys, nested, escaped.
TRAPS = st.lists(
    st.sampled_from(
        [
            b'"model":"a"',
            b'"model": "b"',
            b'"model":"model"',
            b'"x":"model"',
            b'"m\\u006fdel":"a"',
            b'"x":{"model":"c"}',
            b'"y\\"model":"d"',
            b'"stream":true',
            b'"stream":false',
            b'"stream":"stream_options"',
            b'"str\\u0065am":true',
            b'"stream_options":{"include_usage":true}',
            b'"stream_options":{"include_usage":true,"x":{}}',
            b'"stream_options":null',
            b'"x":["stream","stream_options"]',
            b'"messages":["' + b"a" * 400 + b'"]',
            b'"messages": ["' + b"a" * 400 + b'"]',
            b'"messages":[{"model":"' + b"b" * 400 + b'"}]',
            b'"x":{"messages":["' + b"a" * 400 + b'"]}',
            b'"y\\"messages":["' + b"a" * 400 + b'"]',
            b'"x":"\\\\"',
            b'"\\u0000":0',
            b'"messages":[]',
            b'"input":"' + b"a" * 400 + b'"',
        ]
    ),
    max_size=7,
)


class ProofTests(SynchronousTestCase):
    """What a proof claims, the walk finds too."""

    @settings(max_examples=400, deadline=None)
    @given(TRAPS, st.sampled_from([b",", b", "]))
    def test_traps(self, members: list[bytes], comma: bytes) -> None:
        """No order of traps makes a proof claim what is not so."""
        body = b"{" + comma.join(members) + b"}"
        for claim in claims(body):
            self.assertEqual(claim, by_walk(body))

    @settings(max_examples=200, deadline=None)
    @given(bodies())
    def test_valid_bodies(self, drawn: tuple[bytes, dict[str, Any]]) -> None:
        """On valid bodies the proofs say what the walk says."""
        for claim in claims(drawn[0]):
            self.assertEqual(claim, by_walk(drawn[0]))

    def test_attacks(self) -> None:
        """Nothing is proved of a body that is to be refused."""
        for name, (body, _, _) in body_attacks.BODIES.items():
            try:
                body.decode("utf-8")
            except UnicodeDecodeError:
                continue
            self.assertEqual(claims(body), [], name)

    def test_as_many_brackets_as_levels(self) -> None:
        """A small body is proved by its few brackets, of whichever kind; one more is too many."""
        for lists in (0, 1, 31, 32, 33, 62, 63):
            for more, proved in ((0, True), (1, False), (100, False)):
                values = [b"[]"] * lists + [b"{}"] * (MAX_DEPTH - 1 - lists + more)
                for kinds in (values, values[::-1]):
                    many = b",".join(b'"x":' + value for value in kinds)
                    scan = prove_small(b'{"model":"m",' + many + b"}")
                    self.assertEqual(proved, scan is not None, (lists, more))

    def test_they_hold_for_what_clients_send(self) -> None:
        """The proofs are there for real bodies: compact and spaced, small and large."""
        code = "if (a[0]) { return {\n} }" * 50
        for text in ("hello", code):
            for separators in ((",", ":"), (", ", ": ")):
                body = json.dumps(
                    {
                        "messages": [{"role": "user", "content": text}] * 20,
                        "model": "fast",
                        "tools": [{"function": {"parameters": {"model": {}}}}] * 20,
                        "stream": True,
                        "stream_options": {"include_usage": True},
                    },
                    separators=separators,
                ).encode()
                self.assertEqual(claims(body), [by_walk(body)])
        small = b'{"model":"fast","messages":[{"role":"user","content":"' + b"hello " * 90 + b'"}]}'
        self.assertEqual(claims(small), [by_walk(small)] * 2)


class ShallowTests(SynchronousTestCase):
    """Proofs of depth."""

    @settings(max_examples=200, deadline=None)
    @given(
        documents(), st.integers(0, 70), st.sampled_from([b"[%b]", b'{"a":%b}', b'{"a":[%b,""]}'])
    )
    def test_never_wrong(self, text: bytes, levels: int, shell: bytes) -> None:
        """What is proved shallow, the walk finds in bounds."""
        for _ in range(levels):
            text = shell % text
        body = b'{"x":' + text + b"}"
        walk = JsonWalk((), MAX_DEPTH, 0, MAX_KEY_BYTES, 0)
        walk.feed(body)
        if prove_shallow([text]):
            self.assertIsNone(walk.fault)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(VALUES, max_size=3))
    def test_ordinary_values(self, values: list[Any]) -> None:
        """Ordinary values are proved."""
        self.assertTrue(prove_shallow([json.dumps(value).encode() for value in values]))

    def test_exact_at_the_bound(self) -> None:
        """63 levels in a value are proved, 64 are not; nor is what hides behind a twin."""
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            for levels, shallow in ((63, True), (64, False)):
                text = opening * levels + b"0" + closing * levels
                self.assertEqual(prove_shallow([text]), shallow)
        deep = b"[" * 100 + b"]" * 100
        self.assertFalse(prove_shallow([b'{"a":' + deep + b',"a":0}']))
        self.assertFalse(prove_shallow([b'[[{"a":' + deep + b',"a":[]}]]']))
        self.assertFalse(prove_shallow([b'{"b":[' + b"[]," * 100 + b'0],"a":' + deep + b',"a":0}']))

    def test_long_keys(self) -> None:
        """A value that may hold a long key is not proved; one with a long string is."""
        long = b'"' + b"a" * 9000 + b'"'
        self.assertFalse(prove_shallow([b"{" + long + b":0}"]))
        self.assertFalse(prove_shallow([b"[[{" + long + b":0}]]"]))
        self.assertTrue(prove_shallow([b'[[{"b":' + long + b"}]]"]))

    def test_it_stays_cheap(self) -> None:
        """A value of very many parts is left to the walk."""
        self.assertFalse(prove_shallow([b"[" + b"[]," * 3000 + b"0]"]))

"""What makes two requests the same, and how many answers are kept how long."""

import json
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.cache import (
    ENTRY_BYTES,
    MAX_CANONICAL_BYTES,
    MAX_CANONICAL_MARKS,
    CachedAnswer,
    ResponseCache,
    canonical_bytes,
    request_digest,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=5)


def digest(body: bytes, *beside: str) -> bytes | None:
    if canonical_bytes(body, None) is None:
        return None
    return request_digest(body, *beside)


class DigestTests(SynchronousTestCase):
    def test_spelling_changes_nothing(self) -> None:
        """Order of members, blanks and escapes are not part of what is asked."""
        first = digest(b'{"model":"m","messages":[{"role":"user","content":"\\u00e4"}],"n":1}')
        second = digest(
            '{ "n": 1, "messages": [{"content": "ä", "role": "user"}], "model": "m" }'.encode()
        )
        self.assertIsNotNone(first)
        self.assertEqual(first, second)

    def test_everything_else_does(self) -> None:
        """A value, its type, the order of a list and what stands beside the body count."""
        bodies = (
            b'{"a":1}',
            b'{"a":1.5}',
            b'{"a":"1"}',
            b'{"a":true}',
            b'{"a":null}',
            b'{"a":[1,2]}',
            b'{"a":[2,1]}',
            b'{"a":{"b":1}}',
            b'{"a":1180591620717411303424}',
            b'{"a":1180591620717411303425}',
            b'{"a":0.1}',
            b'{"a":0.1000000000000000000001}',
            b'{"a":' + b"1" * 5000 + b"}",
            b'{"a":["1"]}',
            b"{}",
        )
        found = [digest(body, *beside) for body in bodies for beside in ((), ("k",), ("k", "l"))]
        self.assertNotIn(None, found)
        self.assertEqual(len(found), len(set(found)))

    def test_not_cached(self) -> None:
        """What two readers could read differently, or what costs too much, has no digest."""
        for body in (
            b'{"a":1,"a":2}',
            b'{"b":{"a":1,"\\u0061":2}}',
            b'{"a":"' + b"x" * MAX_CANONICAL_BYTES + b'"}',
            b'{"a":[' + b"0," * MAX_CANONICAL_MARKS + b"0]}",
            b'{"a":{' + b",".join([b'"%d":0' % number for number in range(1025)]) + b"}}",
        ):
            self.assertIsNone(digest(body), body[:40])

    def test_memory(self) -> None:
        """What the canonical form takes is told from above, whatever a body is made of."""
        for unit in (
            *(
                "0",
                "-6",
                "1.5",
                "9e-287",
                '""',
                '"a"',
                '"é"',
                '"😀"',
                '"\\u00e9"',
                '"\\n"',
                "[]",
                "{}",
            ),
            *('{"a":0}', '{"":-6}', "[-6]", '{"a":{"b":{"c":-6}}}', "[[[[[[-6]]]]]]"),
            *('"' + "x" * 100 + '"', '"' + "é" * 100 + '"', '"' + "😀" * 100 + '"', "9" * 300),
        ):
            for count in (1, 30, 2000):
                body = b'{"a":[' + b",".join([unit.encode()] * count) + b"]}"
                told = canonical_bytes(body, None)
                if told is None:
                    continue
                tracemalloc.start()
                request_digest(body, "route")
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                # Beside what grows there is a little that does not.
                self.assertLess(peak, told + 4096, (unit[:20], count))

    @settings(max_examples=200, deadline=None)
    @given(objects, objects)
    def test_same_digest_same_request(
        self, first: dict[str, object], other: dict[str, object]
    ) -> None:
        """Two requests have one digest exactly when they say the same."""
        texts = [json.dumps(tree).encode() for tree in (first, other)]
        same = json.dumps(first, sort_keys=True) == json.dumps(other, sort_keys=True)
        self.assertEqual(same, digest(texts[0]) == digest(texts[1]))
        turned = json.dumps(dict(reversed(first.items())), indent=1, ensure_ascii=False)
        try:
            spelled = turned.encode()
        except UnicodeEncodeError:
            return
        self.assertEqual(digest(texts[0]), digest(spelled))


class ResponseCacheTests(SynchronousTestCase):
    def test_lifetime(self) -> None:
        """An answer is found until its time is over, and then leaves."""
        cache = ResponseCache()
        cache.keep(b"a", CachedAnswer(b"application/json", b"{}", 10.0))
        self.assertIsNotNone(cache.find(b"a", 9.9))
        self.assertIsNone(cache.find(b"a", 10.0))
        self.assertEqual((0, 0), (len(cache), cache.bytes))

    def test_bound(self) -> None:
        """The answer used longest ago makes room."""
        cache = ResponseCache(3 * (ENTRY_BYTES + 100))
        for name in (b"a", b"b", b"c"):
            cache.keep(name, CachedAnswer(b"", b"x" * 100, 10.0))
        cache.find(b"a", 0.0)
        cache.keep(b"d", CachedAnswer(b"", b"x" * 100, 10.0))
        kept = [name for name in (b"a", b"b", b"c", b"d") if cache.find(name, 0.0)]
        self.assertEqual([b"a", b"c", b"d"], kept)
        self.assertEqual(3 * (ENTRY_BYTES + 100), cache.bytes)

    def test_replaced(self) -> None:
        """The newer answer to the same request takes the place of the older."""
        cache = ResponseCache()
        cache.keep(b"a", CachedAnswer(b"", b"old", 10.0))
        cache.keep(b"a", CachedAnswer(b"", b"newer", 20.0))
        found = cache.find(b"a", 15.0)
        assert found is not None
        self.assertEqual((b"newer", 1), (found.body, len(cache)))
        self.assertEqual(ENTRY_BYTES + 5, cache.bytes)

    def test_too_large_for_all(self) -> None:
        """An answer larger than the whole cache is not kept."""
        cache = ResponseCache(1000)
        cache.keep(b"a", CachedAnswer(b"", b"x" * 1000, 10.0))
        self.assertEqual((0, 0), (len(cache), cache.bytes))

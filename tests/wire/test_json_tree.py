"""Trees: told from above before they are made, refused where they cost too much, made right."""

import gc
import json
import sys
import time
import tracemalloc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from bench.scan_bodies import ROWS
from omnigate.wire import json_tree
from omnigate.wire.json_body import ScanError
from omnigate.wire.json_scan import BodyScanner, scan_body
from omnigate.wire.json_tree import (
    MAX_TREE_BYTES,
    TreeCost,
    TreeError,
    build_tree,
    tree_cost,
)
from omnigate.wire.json_walk import JsonWalk, TextCounts

texts = st.text(max_size=30) | st.sampled_from(
    ["", "a", "é", "日本", "😀", "a" * 300, "a" * 99 + "😀"]
)
numbers = (
    st.integers(-300, 300)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([10**40, -(10**900), 9e-287, 17e300])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(texts, inner, max_size=12),
    max_leaves=60,
)
bodies = st.builds(
    lambda value, ascii, indent: json.dumps(
        {"model": "m", "x": value}, ensure_ascii=ascii, indent=indent
    ).encode("utf-8", "surrogatepass"),
    values,
    st.booleans(),
    st.sampled_from([None, 1]),
)


def counted(body: bytes) -> TextCounts | None:
    """What the scan of a body counts as it arrives.

    :raises ScanError: it is refused.
    """
    scanner = BodyScanner(len(body))
    for at in range(0, len(body), 65536):
        scanner.feed(body[at : at + 65536])
    return scanner.finish(body).counts


def weight(tree: object) -> int:
    """What a tree takes: each object of it once."""
    seen: set[int] = set()
    waiting = [tree]
    size = 0
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen.add(id(value))
            size += sys.getsizeof(value)
            if isinstance(value, dict):
                waiting += [*value, *value.values()]
            elif isinstance(value, list):
                waiting += value
    return size


def peak(body: bytes) -> int:
    """The most that the making of a tree held."""
    tracemalloc.start()
    try:
        build_tree(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def repeated(unit: str, size: int) -> bytes:
    """An array of one element again and again."""
    return b'{"model":"m","x":[' + b",".join([unit.encode()] * (size // (len(unit) + 1))) + b"]}"


# Elements, each the most of its kind for its length.
UNITS = (
    *("[]", "{}", '{"":0}', '{"a":0}', "[-6]", "-6", "0", "1.5", "9e-287", "17e300", "null"),
    *(
        '""',
        '"a"',
        '"é"',
        '"日"',
        '"😀"',
        '"\\u00e9"',
        '"\\ud83d\\ude00"',
        '"\\n"',
        '"😀aaaaaaaaaa"',
    ),
    *("[" * 61 + "]" * 61, '{"":' * 60 + "0" + "}" * 60, "9" * 20, "9" * 4000, "1" * 16 + ".5"),
    "{" + ",".join(f'"{n}":{n}' for n in range(6)) + "}",
    "{" + ",".join(f'"{n}":{n}' for n in range(1024)) + "}",
    "[" + ",".join("0" for n in range(5)) + "]",
)


class CostTests(SynchronousTestCase):
    def assert_above(self, body: bytes, cost: TreeCost) -> None:
        """Hold an estimate above what the tree takes, and not far above."""
        self.assertLessEqual(weight(build_tree(body)), cost.size, body[:60])
        # What tracemalloc sees beside the tree: a few tables of the interpreter's own.
        self.assertLessEqual(peak(body), cost.size + 2048, body[:60])

    @settings(max_examples=200, deadline=None)
    @given(bodies)
    def test_any_tree(self, body: bytes) -> None:
        """No tree takes more than was told, whether the body was walked or not."""
        cost = tree_cost(body, None)
        self.assert_above(body, cost)
        walked = tree_cost(body, json_tree._walked(body))
        self.assert_above(body, walked)
        self.assertLessEqual(walked.size, 8 * weight(build_tree(body)) + 64 * len(body))

    def test_the_most_of_each_kind(self) -> None:
        """Bodies of one kind alone, short and long, and with a wide character at the end."""
        self.patch(json_tree, "MAX_TREE_NANOSECONDS", 1 << 60)
        self.patch(json_tree, "MAX_TREE_BYTES", 1 << 60)
        for unit in UNITS:
            for size in (3000, 60_000, 400_000):
                body = repeated(unit, size)
                self.assert_above(body, tree_cost(body, counted(body)))
        for end in ("a", "é", "日", "😀", "\\u00e9", "\\ud83d\\ude00"):
            body = b'{"model":"m","x":"' + b"a" * 500_000 + end.encode() + b'"}'
            self.assert_above(body, tree_cost(body, counted(body)))

    def test_what_clients_send(self) -> None:
        """An estimate of a usual body is less than four times its tree, up to 8 MiB."""
        for name in ("chat", "code", "not ASCII", "image"):
            for size in (60_000, 600_000, 6 << 20):
                body = ROWS[name](size)
                cost = tree_cost(body, counted(body))
                if len(body) > 65536:  # in a short one what stands in strings counts too
                    self.assertLess(cost.size, 4 * weight(build_tree(body)), name)

    def test_time(self) -> None:
        """No tree that is allowed is made and freed for longer than the estimate says."""
        self.patch(json_tree, "MAX_TREE_BYTES", 1 << 60)
        # How much slower this machine is than the one that the estimate was taken on.
        usual = ROWS["chat"](1 << 20)
        slower = max(1.0, min(self.time_of(usual) for _ in range(9)) / 0.0008)
        for unit in UNITS:
            body = self.longest(unit)
            cost = tree_cost(body, counted(body))
            took = min(self.time_of(body) for _ in range(3))
            # Told of a machine that may be busy, so with half as much again.
            most = max(cost.nanoseconds, 20_000_000) * 1.5 * slower / 1e9
            self.assertLess(took, most, (unit[:20], len(body)))

    def longest(self, unit: str) -> bytes:
        """The longest of ever longer bodies that is accepted."""
        size = 8000
        body = repeated(unit, size)
        while size < 8 << 20:
            size *= 2
            longer = repeated(unit, size)
            try:
                tree_cost(longer, counted(longer))
            except (TreeError, ScanError):
                break
            body = longer
        return body

    def time_of(self, body: bytes) -> float:
        began = time.thread_time()
        build_tree(body)
        return time.thread_time() - began


class RefusalTests(SynchronousTestCase):
    def code(self, body: bytes) -> str | None:
        try:
            tree_cost(body, counted(body))
        except TreeError as error:
            return error.code
        return None

    def test_members(self) -> None:
        """1,024 members in an object make a tree and one more makes none, wherever it stands."""
        for filler in (b"", b"a" * 70_000, b"a" * 400_000, b"\\n" * 40_000):
            for count, code in ((1024, None), (1025, "request_too_complex")):
                for names in (b'"a"', b'"%d"', b'"\\u0061"'):
                    one = b",".join(
                        [(names % n if b"%" in names else names) + b":0" for n in range(count)]
                    )
                    for body in (
                        b'{"model":"m","f":"%b","x":{%b}}' % (filler, one),
                        b'{"model":"m","f":"%b","x":[{},{"y":[{%b}]}]}' % (filler, one),
                        b'{"model":"m","x":{%b},"f":"%b"}' % (one.replace(b":0", b":[{}]"), filler),
                    ):
                        self.assertEqual(code, self.code(body), (count, names, len(body)))

    def test_members_in_all(self) -> None:
        """Many small objects are not one large one; text in strings is none at all."""
        many = b",".join([b'{"a":0}'] * 3000)
        self.assertIsNone(self.code(b'{"model":"m","x":[%b]}' % many))
        self.assertIsNone(self.code(b'{"model":"m","x":"%b"}' % (b"{" + b"a:" * 3000)))

    def test_memory(self) -> None:
        """A tree over the cap is refused, and one over so many times its text."""
        self.patch(json_tree, "MAX_TREE_NANOSECONDS", 1 << 60)
        body = repeated("[]", MAX_TREE_BYTES // 20)
        self.assertEqual("request_too_complex", self.code(body))
        self.patch(json_tree, "TREE_ROOM_BYTES", 0)
        self.patch(json_tree, "TEXT_TIMES", 1)
        self.assertEqual("request_too_complex", self.code(b'{"model":"m","x":[[],[],[],[]]}'))

    def test_values(self) -> None:
        """So many values that the reactor would stand still are refused."""
        for unit in ("[]", "{}", '"a"', "9e-287", "17e300"):
            self.assertEqual("request_too_complex", self.code(repeated(unit, 4 << 20)), unit)

    def test_usual(self) -> None:
        """What clients send makes a tree, a pretty-printed megabyte too."""
        message = {"role": "user", "content": "word " * 80}
        pretty = json.dumps({"model": "m", "messages": [message] * 2500}, indent=8).encode()
        for body in (pretty, *(ROWS[name](4 << 20) for name in ("chat", "code", "image"))):
            self.assertIsNone(self.code(body), body[:60])


class BuildTests(SynchronousTestCase):
    @settings(max_examples=200, deadline=None)
    @given(values)
    def test_same(self, value: object) -> None:
        """The tree is what Python's own reader makes."""
        body = json.dumps({"model": "m", "x": value}, ensure_ascii=False)
        try:
            text = body.encode()
        except UnicodeEncodeError:
            return
        self.assertEqual(json.loads(text), build_tree(text))

    def test_last_wins(self) -> None:
        """Of a member named twice the last counts, as providers read it."""
        self.assertEqual({"a": {"b": 2}}, build_tree(b'{"a":1,"a":{"b":1,"\\u0062":2}}'))

    def test_not_held(self) -> None:
        """What would be written differently than it was read is refused with its reason."""
        for body, code in (
            (b'{"a":1e400}', "invalid_request"),
            (b'{"a":[-1e400]}', "invalid_request"),
            (b'{"a":%b}' % (b"9" * 4301), "invalid_request"),
        ):
            with self.assertRaises(TreeError) as caught:
                build_tree(body)
            self.assertEqual(code, caught.exception.code, body[:30])
            self.assertNotIn("4301", caught.exception.message)

    def test_collector(self) -> None:
        """The collector is as it was before, after a success and after a failure."""
        for before in (True, False):
            for body in (b"{}", b'{"a":1e400}'):
                (gc.enable if before else gc.disable)()
                try:
                    build_tree(body)
                except TreeError:
                    pass
                after = gc.isenabled()
                gc.enable()
                self.assertEqual(before, after)


class CountTests(SynchronousTestCase):
    @settings(max_examples=200, deadline=None)
    @given(bodies, st.integers(1, 40))
    def test_cuts_change_nothing(self, body: bytes, width: int) -> None:
        """However a body comes, its counts bound what it holds."""
        whole = json_tree._walked(body)
        walk = JsonWalk((), 1000, 65536, 1 << 20, 0, 1024)
        for at in range(0, len(body), width):
            walk.feed(body[at : at + width])
        cut = walk.counts
        self.assertEqual((whole.outside, whole.structure), (cut.outside, cut.structure))
        self.assertGreaterEqual(cut.strings, self.strings(json.loads(body)))
        self.assertGreaterEqual(whole.strings, self.strings(json.loads(body)))

    def strings(self, value: Any) -> int:
        if isinstance(value, dict):
            return sum(1 + self.strings(member) for member in value.values())
        if isinstance(value, list):
            return sum(map(self.strings, value))
        return int(isinstance(value, str))

    def test_where_they_come_from(self) -> None:
        """A body that is walked as it arrives is counted on the way, and no other."""
        self.assertIsNone(scan_body(b'{"model":"m"}').counts)
        counts = scan_body(b'{"model":"m","x":"' + b"a" * 400_000 + b'"}').counts
        assert counts is not None
        self.assertEqual((5, 4), (counts.outside, counts.structure))

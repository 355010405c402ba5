"""The config snapshot compiled for serving, and what outlives a snapshot."""

from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import Snapshot, SnapshotUpstream
from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.dialects.models import models_list
from omnigate.gateway.compiling import ROWS_AT_ONCE, compile_tables
from omnigate.gateway.plane import compile_upstream
from omnigate.gateway.tables import (
    MAX_MODEL_LISTS,
    KeyLimits,
    Tables,
    Upstream,
    retired_upstreams,
)
from omnigate.protocols.addresses import AddressError, parse_address
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.watchdog import Watchdog
from tests.planes.memory import KEY, key, route, upstream

OTHER = "og-other-key-0123456789"


def snapshot(**changes: Any) -> Snapshot:
    """One key, two upstreams, one route."""
    facts: dict[str, Any] = {
        "version": "1",
        "keys": (key(),),
        "upstreams": (upstream("u1"), upstream("u2")),
        "capabilities": (Capabilities(),),
        "routes": (route("small", ("u1", "vendor-1"), ("u2", "vendor-2")),),
        "media_models": (),
    }
    return Snapshot(**{**facts, **changes})


class TablesTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.opened: list[str] = []
        self.watchdog = Watchdog(Clock())

    def open(self, config: SnapshotUpstream) -> Upstream:
        self.opened.append(config.name)
        pool = UpstreamPool(lambda build: Deferred(), self.watchdog)
        return compile_upstream(config, parse_address(config.base_url), pool, {})

    def compile(self, given: Snapshot, before: Tables | None = None) -> Tables:
        compiling = compile_tables(given, before, self.open, 0.0, KeyLimits())
        self.slices = 1
        while True:
            try:
                next(compiling)
            except StopIteration as ended:
                tables: Tables = ended.value
                return tables
            self.slices += 1


class CompileTests(TablesTestCase):
    def test_keys(self) -> None:
        """Keys are found by the digest of their bytes, and know their bounds."""
        tables = self.compile(
            snapshot(keys=(key(rpm=60, max_concurrent=5), key("k2", OTHER, blocked=True)))
        )
        first, second = tables.keys.values()
        self.assertIs(first, tables.keys[sha256(KEY.encode()).digest()])
        self.assertIs(second, tables.keys[sha256(OTHER.encode()).digest()])
        self.assertEqual(("k1", 60, 5), (first.name, first.rpm, first.max_concurrent))
        self.assertFalse(first.blocked)
        assert first.bucket is not None
        self.assertEqual((None, True), (second.bucket, second.blocked))

    def test_allowed_models(self) -> None:
        """A key may use all models, those named, or those with a named beginning."""
        cases: tuple[tuple[tuple[str, ...] | None, str, bool], ...] = (
            (None, "any", True),
            ((), "any", False),
            (("small",), "small", True),
            (("small",), "smaller", False),
            (("claude-*",), "claude-x", True),
            (("claude-*",), "claude-", True),
            (("claude-*",), "claude", False),
            (("*",), "any", True),
            (("a*b",), "a*b", True),
            (("a*b",), "axb", False),
            (("small", "claude-*"), "claude-x", True),
        )
        for models, model, allowed in cases:
            tables = self.compile(snapshot(keys=(key(models=models),)))
            [compiled] = tables.keys.values()
            self.assertEqual(allowed, compiled.allows(model), (models, model))

    def test_routes(self) -> None:
        """A route knows its targets, and which of them serve a kind of endpoint."""
        tables = self.compile(
            snapshot(
                upstreams=(upstream("u1"), upstream("u2", "anthropic")),
                routes=(route("small", ("u2", 'a\u00e9"b'), ("u1", "vendor-1")),),
            )
        )
        compiled = tables.routes["small"]
        self.assertEqual(["u2", "u1"], [target.upstream_name for target in compiled.targets])
        for endpoint in ENDPOINTS.values():
            serving = [target.upstream_name for target in compiled.by_kind[endpoint.kind]]
            both = endpoint.kind not in ("completions", "embeddings")
            self.assertEqual(["u2", "u1"] if both else ["u1"], serving, endpoint.kind)
        self.assertEqual('"a\u00e9\\"b"'.encode(), compiled.targets[0].model_json)

    def test_models(self) -> None:
        """The list holds the text routes and the media routes that the key may use."""
        given = snapshot(media_models=("flux", "veo"), keys=(key(models=("s*", "flux")),))
        tables = self.compile(given)
        [compiled] = tables.keys.values()
        self.assertEqual(["small", "flux"], tables.models_of(compiled))
        for model, allowed in (("small", True), ("flux", True), ("veo", False), ("sx", False)):
            self.assertEqual(allowed, tables.allows(compiled, model), model)

    def test_model_lists_are_kept(self) -> None:
        """Keys that may use the same models share a list; there are only so many."""
        secrets = [f"og-key-{number:020}" for number in range(MAX_MODEL_LISTS + 1)]
        keys = [key(f"k{i}", secret, models=("small", f"x{i}")) for i, secret in enumerate(secrets)]
        tables = self.compile(snapshot(keys=(key("a"), key("b", OTHER), *keys)))
        everything, again, *narrow = tables.keys.values()
        told = tables.model_list(everything, "openai", 7)
        self.assertEqual(models_list("openai", ["small"], 7), told)
        self.assertIs(told, tables.model_list(again, "openai", 7))
        self.assertEqual(
            models_list("anthropic", ["small"], 7), tables.model_list(again, "anthropic", 7)
        )
        for compiled in narrow:
            self.assertEqual(told, tables.model_list(compiled, "openai", 7))
            self.assertLessEqual(len(tables.model_lists), MAX_MODEL_LISTS)

    def test_slices(self) -> None:
        """However many rows there are, no slice has more of them than a few; few are done at once.

        What comes out is the same, and one that is given up half way changes nothing.
        """
        many = [
            key(f"k{i}", f"og-key-{i:020}", rpm=60, tpm=100, expires_ms=10**12, endpoints=("chat",))
            for i in range(5 * ROWS_AT_ONCE)
        ]
        routes = tuple(route(f"m{i}", ("u1", "v")) for i in range(3 * ROWS_AT_ONCE))
        tables = self.compile(snapshot(keys=tuple(many), routes=routes))
        self.assertEqual(1 + 5 + 3, self.slices)
        self.assertEqual([one.name for one in many], [one.name for one in tables.keys.values()])
        self.assertEqual([one.model for one in routes], list(tables.routes))
        before = list(tables.keys.values())
        fewer = snapshot(keys=tuple(reversed(many)), routes=routes[:1])
        given_up = compile_tables(fewer, tables, self.open, 0.0, KeyLimits())
        next(given_up)
        given_up.close()
        self.assertEqual(before, list(tables.keys.values()))
        self.compile(snapshot())
        self.assertEqual(1, self.slices)


class ReloadTests(TablesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.before = self.compile(snapshot(keys=(key(rpm=60),)))
        self.opened.clear()

    def test_what_stays(self) -> None:
        """A key and a route that have not changed are the same ones; others are not."""
        after = self.reload(keys=(key(rpm=60), key("k2", OTHER)))
        self.assertIs(self.before.routes["small"], after.routes["small"])
        digest = next(iter(self.before.keys))
        self.assertIs(self.before.keys[digest], after.keys[digest])
        blocked = self.reload(keys=(key(rpm=60, blocked=True),))
        self.assertTrue(blocked.keys[digest].blocked)
        self.assertFalse(self.before.keys[digest].blocked)
        moved = self.reload(upstreams=(upstream("u1", connect_timeout_ms=1), upstream("u2")))
        self.assertIsNot(self.before.routes["small"], moved.routes["small"])
        self.assertIs(moved.upstreams["u1"], moved.routes["small"].targets[0].upstream)

    def reload(self, **changes: Any) -> Tables:
        return self.compile(snapshot(**{"keys": (key(rpm=60),), **changes}), self.before)

    def test_keys(self) -> None:
        """What a key holds and its bucket outlive a snapshot, whatever else of it changes."""
        [old] = self.before.keys.values()
        cases: tuple[dict[str, Any], ...] = (
            {},
            {"blocked": True},
            {"models": ("small",)},
            {"max_concurrent": 3},
            {"name": "renamed"},
        )
        for changes in cases:
            after = self.reload(keys=(key(**{"rpm": 60, **changes}),))
            [new] = after.keys.values()
            self.assertIs(old.use, new.use, changes)
            self.assertIs(old.bucket, new.bucket, changes)
        assert old.bucket is not None
        for _ in range(60):
            old.bucket.take(0.0)
        [new] = self.reload(keys=(key(rpm=120),)).keys.values()
        self.assertIs(old.use, new.use)
        assert new.bucket is not None
        self.assertEqual(120, new.bucket.rpm)
        self.assertGreater(new.bucket.take(0.0), 0.0, "a change of rate fills no bucket")
        [new] = self.reload(keys=(key("k1", OTHER, rpm=60),)).keys.values()
        self.assertIsNot(old.use, new.use)

    def test_upstreams(self) -> None:
        """An upstream that did not change keeps its connections; one that did begins anew."""
        after = self.reload()
        self.assertIs(self.before.upstreams["u1"], after.upstreams["u1"])
        self.assertEqual(([], []), (self.opened, retired_upstreams(self.before, after)))
        after = self.reload(upstreams=(upstream("u1"), upstream("u2", head_timeout_ms=1)))
        self.assertEqual(["u2"], self.opened)
        self.assertIs(self.before.upstreams["u1"], after.upstreams["u1"])
        self.assertEqual([self.before.upstreams["u2"]], retired_upstreams(self.before, after))

    def test_upstream_that_cannot_be_opened(self) -> None:
        """A snapshot that fails at an upstream leaves each key what it has and its rates."""
        given = tuple(key(f"k{i}", f"og-key-{i:020}", rpm=60, tpm=600) for i in range(3))
        self.before = self.compile(snapshot(keys=given))
        slower = (key("k0", "og-key-" + "0" * 20, rpm=6, tpm=60), *given[1:])
        self.patch(self, "open", self.refused)
        for upstreams in ((upstream("u1"), upstream("u2", head_timeout_ms=1)), (upstream("u3"),)):
            routes = (route("small", (upstreams[-1].name, "x")),)
            self.assertRaises(
                AddressError, self.reload, keys=slower, upstreams=upstreams, routes=routes
            )
            for one in self.before.keys.values():
                assert one.bucket is not None and one.rules is not None
                assert one.rules.tokens is not None
                self.assertEqual((60, 600), (one.bucket.rpm, one.rules.tokens.rate))

    def refused(self, config: SnapshotUpstream) -> Upstream:
        raise AddressError(config.name)

    def test_upstream_that_went(self) -> None:
        """One that is no longer there is retired."""
        after = self.reload(upstreams=(upstream("u1"),), routes=(route("small", ("u1", "x")),))
        self.assertEqual([self.before.upstreams["u2"]], retired_upstreams(self.before, after))
        self.assertEqual([], retired_upstreams(None, after))

    def test_cooldowns(self) -> None:
        """How a target has fared outlives a snapshot as long as it is the same target."""
        old = self.before.routes["small"].targets
        old[0].cooldown.failed(100, 30)
        after = self.reload(
            upstreams=(upstream("u1"), upstream("u2", cooldown_failures=9)),
            routes=(route("small", ("u2", "vendor-2"), ("u1", "vendor-1"), ("u1", "other")),),
        )
        changed, same, other = after.routes["small"].targets
        self.assertIs(old[0].cooldown, same.cooldown)
        self.assertTrue(same.resting(110))
        self.assertIsNot(old[1].cooldown, changed.cooldown)
        self.assertFalse(other.resting(110))

    def test_capabilities(self) -> None:
        """A route whose target can do something else is made anew, however the places are."""
        less = Capabilities(stop=False)
        places = (Capabilities(), less)
        small = route("small", ("u1", "vendor-1"))
        before = self.compile(snapshot(capabilities=places, routes=(small,)))
        self.assertEqual(before.routes["small"].targets[0].caps, Capabilities())
        again = self.compile(snapshot(capabilities=(Capabilities(),), routes=(small,)), before)
        self.assertIs(before.routes["small"], again.routes["small"])
        turned = self.compile(snapshot(capabilities=places[::-1], routes=(small,)), before)
        (target,) = turned.routes["small"].targets
        self.assertEqual(target.caps, less)
        self.assertIs(target.cooldown, before.routes["small"].targets[0].cooldown)

    def test_turn(self) -> None:
        """A route goes on where it stood."""
        self.before.routes["small"].turn = 7
        after = self.reload(routes=(route("small", ("u1", "x")), route("new", ("u1", "x"))))
        self.assertEqual((7, 0), (after.routes["small"].turn, after.routes["new"].turn))

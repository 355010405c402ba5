"""Tests for the snapshot between control and data."""

from __future__ import annotations

import attrs
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.config.schema import CapsConfig, Config, RouteConfig, TargetConfig, UpstreamConfig
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotError,
    SnapshotKey,
    build_snapshot,
    decode_snapshot,
    encode_snapshot,
)

CONFIG = Config(
    upstreams=(
        UpstreamConfig(
            name="openai",
            protocol="openai",
            base_url="https://api.openai.com/v1",
            api_key_env="OPENAI_API_KEY",
        ),
        UpstreamConfig(
            name="claude",
            protocol="anthropic",
            base_url="https://api.anthropic.com/v1",
            anthropic_version="2026-10-21",
            drop_betas=("context-1m",),
            abandon="cancel",
            proxy="http://proxy.example.net:3128",
            ca_file="/etc/ssl/own.pem",
        ),
    ),
    routes=(
        RouteConfig(
            model="fast",
            strategy="weighted",
            targets=(
                TargetConfig(upstream="openai", model="gpt-4o-mini", weight=3),
                TargetConfig(upstream="claude", model="claude-haiku-5-5"),
            ),
        ),
    ),
)
KEYS = [
    SnapshotKey(False, 0, None, "second", 0, "b" * 64),
    SnapshotKey(False, 8, ("fast", "claude-*"), "first", 60, "a" * 64),
]


def edited(**changes: object) -> bytes:
    """Return an encoded snapshot with some members replaced, under the version it had."""
    rows = msgspec.json.decode(encode_snapshot(build_snapshot(CONFIG, KEYS)))
    return msgspec.json.encode({**rows, **changes})


class BuildTests(SynchronousTestCase):
    """What goes into a snapshot, and when its version changes."""

    def test_upstreams_and_routes_are_carried_over(self) -> None:
        snapshot = build_snapshot(CONFIG, KEYS)
        openai, claude = snapshot.upstreams
        self.assertEqual(
            (openai.name, openai.api_key_env, openai.cooldown_failures, openai.cooldown_seconds),
            ("openai", "OPENAI_API_KEY", 3, 30),
        )
        self.assertEqual(
            (claude.drop_betas, claude.abandon, claude.ca_file),
            (("context-1m",), "cancel", "/etc/ssl/own.pem"),
        )
        (route,) = snapshot.routes
        self.assertEqual([target.weight for target in route.targets], [3, 1])
        self.assertEqual(snapshot.media_models, ())

    def test_the_version_does_not_depend_on_the_order_of_keys(self) -> None:
        self.assertEqual(build_snapshot(CONFIG, KEYS), build_snapshot(CONFIG, KEYS[::-1]))

    def test_of_two_keys_with_one_secret_the_first_is_taken(self) -> None:
        twin = attrs.evolve(KEYS[0], name="twin")
        snapshot = build_snapshot(CONFIG, [*KEYS, twin])
        self.assertEqual(snapshot, build_snapshot(CONFIG, KEYS))
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)

    def test_a_key_that_turns_blocked_changes_the_version(self) -> None:
        blocked = [KEYS[0], attrs.evolve(KEYS[1], blocked=True)]
        self.assertNotEqual(
            build_snapshot(CONFIG, KEYS).version, build_snapshot(CONFIG, blocked).version
        )

    def test_no_price_and_no_budget_is_in_it(self) -> None:
        encoded = encode_snapshot(build_snapshot(CONFIG, KEYS))
        for word in (b"price", b"budget_usd", b"budget_period", b"usd"):
            self.assertNotIn(word, encoded)

    def test_targets_share_the_records_of_what_their_models_can_do(self) -> None:
        """Each record is there once, with the operator's changes and the upstream's version."""
        config = attrs.evolve(
            CONFIG,
            routes=(
                *CONFIG.routes,
                RouteConfig(
                    model="more",
                    targets=(
                        TargetConfig(upstream="openai", model="gpt-4o-mini-2024-07-18"),
                        TargetConfig(
                            upstream="openai",
                            model="gpt-4o",
                            caps=CapsConfig(stop=False),
                            default_max_tokens=99,
                        ),
                        TargetConfig(upstream="openai", model="x", caps=CapsConfig(stop=False)),
                        TargetConfig(upstream="openai", model="y", caps=CapsConfig(stop=False)),
                        TargetConfig(upstream="claude", model="claude-opus-4-6"),
                    ),
                ),
            ),
        )
        snapshot = build_snapshot(config, KEYS)
        first, second = snapshot.routes
        self.assertEqual([target.caps for target in first.targets], [0, 1])
        self.assertEqual([target.caps for target in second.targets], [0, 2, 3, 3, 4])
        records = snapshot.capabilities
        self.assertEqual(len(records), 5)
        self.assertEqual((records[2].stop, records[2].default_max_tokens), (False, 99))
        self.assertEqual(records[3], Capabilities(stop=False))
        self.assertFalse(records[4].sampling)
        self.assertNotEqual(snapshot.version, build_snapshot(CONFIG, KEYS).version)
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)


class CodecTests(SynchronousTestCase):
    """A snapshot survives the wire, and nothing else passes for one."""

    def test_round_trip(self) -> None:
        snapshot = build_snapshot(CONFIG, KEYS)
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)
        empty = build_snapshot(Config(), [])
        self.assertEqual(decode_snapshot(encode_snapshot(empty)), empty)

    def assert_refused(self, data: bytes, part: str) -> None:
        with self.assertRaises(SnapshotError) as caught:
            decode_snapshot(data)
        self.assertIn(part, str(caught.exception))

    def test_every_cut_is_refused(self) -> None:
        encoded = encode_snapshot(build_snapshot(CONFIG, KEYS))
        for length in range(len(encoded)):
            with self.assertRaises(SnapshotError):
                decode_snapshot(encoded[:length])
        self.assert_refused(encoded + b"x", "cannot be read")

    def test_members_in_another_order_are_the_same_snapshot(self) -> None:
        """What counts is what it says: a plane of another version may write it differently."""
        snapshot = build_snapshot(CONFIG, KEYS)
        rows = msgspec.json.decode(encode_snapshot(snapshot))
        turned = msgspec.json.encode(dict(reversed(rows.items())))
        self.assertEqual(decode_snapshot(turned), snapshot)

    def test_a_changed_value_does_not_add_up(self) -> None:
        encoded = encode_snapshot(build_snapshot(CONFIG, KEYS))
        self.assert_refused(encoded.replace(b'"weight":3', b'"weight":4'), "does not add up")

    def test_unknown_and_missing_members_are_refused(self) -> None:
        self.assert_refused(edited(surprise=1), "does not know")
        rows = msgspec.json.decode(edited())
        del rows["routes"]
        self.assert_refused(msgspec.json.encode(rows), "routes")
        rows = msgspec.json.decode(edited())
        rows["keys"][0]["extra"] = True
        self.assert_refused(msgspec.json.encode(rows), "does not know")

    def test_rows_are_judged(self) -> None:
        key = {
            "sha256": "a" * 64,
            "name": "first",
            "rpm": 1,
            "models": None,
            "blocked": False,
            "max_concurrent": 0,
        }
        self.assert_refused(edited(keys=[{**key, "rpm": -1}]), "keys[0]")
        self.assert_refused(edited(keys=[{**key, "sha256": "A" * 64}]), "lower case")
        self.assert_refused(edited(keys=[{**key, "blocked": 0}]), "blocked")
        self.assert_refused(edited(keys=[key, key]), "keys[1] is there twice")
        target = {"upstream": "gone", "model": "m", "weight": 1, "caps": 0}
        route = {"model": "fast", "strategy": "failover", "cache_ttl_s": 0, "targets": [target]}
        self.assert_refused(edited(routes=[route]), 'no upstream named "gone"')
        self.assert_refused(edited(routes=[{**route, "targets": []}]), "no target")
        self.assert_refused(edited(routes=[{**route, "strategy": "luck"}]), "luck")
        self.assert_refused(edited(routes=[{**route, "cache_ttl_s": -1}]), "must be from 0")
        target["upstream"] = "openai"
        for place in (-1, 2):
            target["caps"] = place
            self.assert_refused(edited(routes=[route]), f"no capabilities at place {place}")

    def test_capabilities_are_judged(self) -> None:
        """Each of their values, and that each record is there once."""
        usual = attrs.asdict(Capabilities())
        for name, value in (
            ("thinking", "deep"),
            ("max_tokens_field", "max"),
            ("user_field", ""),
            ("upstream_api", "soap"),
            ("efforts", ["low", "lots"]),
            ("max_output", -1),
            ("default_max_tokens", 0),
            ("sampling", 1),
        ):
            self.assert_refused(edited(capabilities=[{**usual, name: value}]), "capabilities[0]")
        self.assert_refused(edited(capabilities=[{**usual, "surprise": 1}]), "does not know")
        self.assert_refused(edited(capabilities=[usual, usual]), "capabilities[1] is there twice")

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=200) | st.text(max_size=50).map(lambda t: f'{{"{t}":1}}'.encode()))
    def test_junk_is_refused_and_nothing_worse(self, data: bytes) -> None:
        """Any bytes end in a SnapshotError."""
        self.assertRaises(SnapshotError, decode_snapshot, data)

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.builds(
                SnapshotKey,
                sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
                name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
                rpm=st.integers(0, 10**6),
                models=st.none() | st.just(("a", "b-*")),
                blocked=st.booleans(),
                max_concurrent=st.integers(0, 10**6),
            ),
            max_size=5,
            unique_by=lambda key: key.sha256,
        )
    )
    def test_any_keys_survive(self, keys: list[SnapshotKey]) -> None:
        snapshot: Snapshot = build_snapshot(CONFIG, keys)
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)

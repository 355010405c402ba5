"""Tests for the snapshot between control and data."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.config import snapshot_checks
from omnigate.config.key_values import ENDPOINT_KINDS, MAX_TPM
from omnigate.config.schema import CapsConfig, Config, RouteConfig, TargetConfig, UpstreamConfig
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotError,
    SnapshotKey,
    SnapshotSecret,
    build_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from omnigate.periods import END_MS

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


def made_key(name: str, sha256: str, **changes: Any) -> SnapshotKey:
    """Make a key without limits but for those given."""
    plain = {"blocked": False, "max_concurrent": 0, "models": None, "rpm": 0}
    return SnapshotKey(name=name, sha256=sha256, **{**plain, **changes})


KEYS = [
    made_key("second", "b" * 64),
    made_key("first", "a" * 64, max_concurrent=8, models=("fast", "claude-*"), rpm=60),
]

#: A key with every limit there is, rotated twice.
FULL = made_key(
    "full",
    "c" * 64,
    allowed_ips=("192.0.2.7", "10.0.0.0/8", "2001:db8::/32"),
    endpoints=("chat", "models"),
    expires_ms=1_800_000_000_000,
    secrets=(SnapshotSecret("e" * 64), SnapshotSecret("d" * 64, 1_700_000_000_000)),
    tpm=60_000,
)

#: What a version before ``tpm`` and its like made of :data:`KEYS` and an empty config.
BEFORE_LIMITS = (
    b'{"version":"e844212f854dc7ccf487930f8af200f10921b59b2b97e52b1460da482aaa0e43","keys":['
    b'{"blocked":false,"max_concurrent":8,"models":["fast","claude-*"],"name":"first","rpm":60,'
    b'"sha256":"' + b"a" * 64 + b'"},'
    b'{"blocked":false,"max_concurrent":0,"models":null,"name":"second","rpm":0,'
    b'"sha256":"' + b"b" * 64 + b'"}'
    b'],"upstreams":[],"capabilities":[],"routes":[],"media_models":[]}'
)

any_sha256 = st.integers(0, 2**256 - 1).map("{:064x}".format)
any_instant = st.just(0) | st.integers(1, END_MS - 1)


def own_hashes(keys: list[SnapshotKey]) -> bool:
    """Tell whether no hash is two keys'."""
    seen = [{key.sha256, *(secret.sha256 for secret in key.secrets or ())} for key in keys]
    return sum(map(len, seen)) == len(set().union(*seen))


#: Up to eight keys with any limits, which can stand in one snapshot.
any_keys = st.lists(
    st.builds(
        SnapshotKey,
        allowed_ips=st.none() | st.just(FULL.allowed_ips),
        blocked=st.booleans(),
        endpoints=st.none()
        | st.lists(st.sampled_from(ENDPOINT_KINDS), min_size=1, max_size=7).map(tuple),
        expires_ms=any_instant,
        max_concurrent=st.integers(0, 10**6),
        models=st.none()
        | st.tuples(st.from_regex(r"[A-Za-z0-9][a-z0-9/:-]{0,20}", fullmatch=True)),
        name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
        rpm=st.integers(0, 10**7),
        secrets=st.none()
        | st.lists(
            st.builds(SnapshotSecret, any_sha256, any_instant),
            min_size=1,
            max_size=3,
            unique_by=lambda secret: secret.sha256,
        ).map(tuple),
        sha256=any_sha256,
        tpm=st.just(0) | st.integers(1, MAX_TPM),
    ),
    max_size=8,
    unique_by=lambda key: key.sha256,
).filter(own_hashes)


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
        twin = msgspec.structs.replace(KEYS[0], name="twin")
        snapshot = build_snapshot(CONFIG, [*KEYS, twin])
        self.assertEqual(snapshot, build_snapshot(CONFIG, KEYS))
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)

    def test_a_key_that_turns_blocked_changes_the_version(self) -> None:
        blocked = [KEYS[0], msgspec.structs.replace(KEYS[1], blocked=True)]
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

    def test_limits_at_their_defaults_are_left_out(self) -> None:
        """Each alone changes the version; without any, the text is that of older versions."""
        snapshot = build_snapshot(Config(), KEYS)
        self.assertEqual(encode_snapshot(snapshot), BEFORE_LIMITS)
        self.assertEqual(decode_snapshot(BEFORE_LIMITS), snapshot)
        versions = {snapshot.version}
        for name in ("allowed_ips", "endpoints", "expires_ms", "secrets", "tpm"):
            key = msgspec.structs.replace(KEYS[0], **{name: getattr(FULL, name)})
            limited = build_snapshot(Config(), [key, KEYS[1]])
            self.assertEqual(decode_snapshot(encode_snapshot(limited)), limited)
            versions.add(limited.version)
        self.assertEqual(len(versions), 6)
        row = msgspec.to_builtins(KEYS[0])
        self.assert_refused(edited(keys=[{**row, "tpm": 0}]), "does not know")

    def test_limits_are_judged(self) -> None:
        """None that this version could not hold gets in."""
        row = msgspec.to_builtins(FULL)
        secret = {"sha256": "e" * 64}
        for member, value, part in (
            ("tpm", -1, "must be from 0"),
            ("tpm", MAX_TPM + 1, "must be from 0"),
            ("expires_ms", -5, "must be from 0"),
            ("expires_ms", 10**18, "must be from 0"),
            ("allowed_ips", [], "1 to 64 entries"),
            ("allowed_ips", ["10.0.0.0/8"] * 65, "1 to 64 entries"),
            ("allowed_ips", ["10.0.0.1/8"], "bits behind its prefix"),
            ("allowed_ips", ["10.0.0.1/32"], "another spelling"),
            ("allowed_ips", ["2001:DB8::/32"], "another spelling"),
            ("endpoints", [], "1 to 8 entries"),
            ("endpoints", ["chats"], 'did you mean "chat"'),
            ("secrets", [], "1 to 9 entries"),
            ("secrets", [{"sha256": f"{n:064x}"} for n in range(10)], "1 to 9 entries"),
            ("secrets", [{"sha256": "E" * 64}], "lower case"),
            ("secrets", [{**secret, "until_ms": -1}], "must be from 0"),
            ("secrets", [{**secret, "surprise": 1}], "does not know"),
            ("secrets", [secret, secret], "is there twice"),
        ):
            self.assert_refused(edited(keys=[{**row, member: value}]), part)

    def test_keys_that_are_known(self) -> None:
        """A key is not judged again as long as it is the same; whatever else came is."""
        known = decode_snapshot(encode_snapshot(build_snapshot(CONFIG, [*KEYS, FULL])))
        judged: list[str] = []
        self.patch(snapshot_checks, "_check_key", lambda key: judged.append(key.name))
        changed = msgspec.structs.replace(FULL, rpm=7)
        snapshot = build_snapshot(CONFIG, [*KEYS, changed, made_key("new", "f" * 64)])
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot), known), snapshot)
        self.assertEqual(sorted(judged), sorted([FULL.name, "new"]))
        twice = edited(keys=[msgspec.to_builtins(FULL)] * 2)
        with self.assertRaises(SnapshotError):
            decode_snapshot(twice, known)

    def test_a_secret_is_one_keys(self) -> None:
        """No secret opens two keys, nor is it what another key is counted by."""
        other = made_key("other", "f" * 64)
        for sha256 in (FULL.sha256, "d" * 64, "e" * 64):
            twin = msgspec.structs.replace(other, secrets=(SnapshotSecret(sha256),))
            snapshot = build_snapshot(CONFIG, [twin, FULL])
            self.assert_refused(encode_snapshot(snapshot), "is there twice")
        for sha256 in ("d" * 64, "e" * 64):
            snapshot = build_snapshot(CONFIG, [FULL, made_key("other", sha256)])
            self.assert_refused(encode_snapshot(snapshot), "is there twice")
        with_own = msgspec.structs.replace(
            FULL, secrets=(SnapshotSecret("e" * 64), SnapshotSecret(FULL.sha256, 5))
        )
        snapshot = build_snapshot(CONFIG, [other, with_own])
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)

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
    @given(any_keys)
    def test_any_keys_survive(self, keys: list[SnapshotKey]) -> None:
        snapshot: Snapshot = build_snapshot(CONFIG, keys)
        self.assertEqual(decode_snapshot(encode_snapshot(snapshot)), snapshot)

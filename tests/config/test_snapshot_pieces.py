"""A snapshot out of pieces is the snapshot."""

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import Config, RouteConfig, TargetConfig
from omnigate.config.snapshot import (
    SnapshotKey,
    build_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from omnigate.config.snapshot_pieces import encode_frame, encode_key, seal
from tests.config.test_snapshot import CONFIG, any_keys

#: A config whose text holds what the place of the keys is found by.
TRAP = attrs.evolve(
    CONFIG,
    routes=(
        *CONFIG.routes,
        RouteConfig(
            model="trap", targets=(TargetConfig(upstream="openai", model='"keys":[ "version":"'),)
        ),
    ),
)


class PieceTests(SynchronousTestCase):
    """Pieces."""

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from([Config(), CONFIG, TRAP]), any_keys)
    def test_the_same_bytes(self, config: Config, made: list[SnapshotKey]) -> None:
        """Version and text are those of a snapshot that is encoded in one go."""
        whole = build_snapshot(config, made)
        rows = [encode_key(key) for key in sorted(made, key=lambda key: key.sha256)]
        version, data = seal(encode_frame(config), rows)
        self.assertEqual((version, data), (whole.version, encode_snapshot(whole)))
        self.assertEqual(decode_snapshot(data), whole)

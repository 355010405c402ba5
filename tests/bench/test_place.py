"""What the planes of a benchmark are given."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import traffic
from bench.place import NGINX_CONFIG, Place
from bench.proc import Cores
from omnigate.config.schema import load_config
from omnigate.config.snapshot import decode_snapshot
from omnigate.demo_children import Children


class ConfigTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.place = Place(Path(self.mktemp()).absolute(), Children(), Cores(None, None))
        self.place.provider_port = 12345
        self.place.secure_port = 12346

    def test_config_is_good(self) -> None:
        """Every model of the benchmark has a route, at a price, behind a key with limits."""
        config = load_config(self.place.config_text())
        self.assertEqual(
            {route.model: route.targets[0].model for route in config.routes},
            {model: traffic.UPSTREAM_MODELS[kind] for kind, model in traffic.CLIENT_MODELS.items()},
        )
        self.assertTrue(all(route.targets[0].price for route in config.routes))
        (key,) = config.keys
        self.assertTrue(key.rpm and key.max_concurrent and key.models and key.budget_nano)

    def test_snapshot_is_good(self) -> None:
        """The data plane would start from it."""
        snapshot = decode_snapshot(self.place.snapshot_bytes())
        self.assertEqual(
            [one.base_url for one in snapshot.upstreams],
            [
                "http://127.0.0.1:12345/v1",
                "https://127.0.0.1:12346/v1",
                "http://127.0.0.1:12345/v1",
            ],
        )
        self.assertEqual(len(snapshot.routes), len(traffic.CLIENT_MODELS))
        self.assertFalse(snapshot.keys[0].blocked)

    def test_secrets_are_of_one_place(self) -> None:
        """No secret is used twice, and none stands in the config."""
        other = Place(Path("x"), Children(), Cores(None, None)).secrets
        mine = self.place.secrets
        names = ("client_key", "provider_key", "internal_token", "admin_token")
        secrets = [getattr(of, name) for of in (mine, other) for name in names]
        self.assertEqual(len(set(secrets)), 8)
        text = self.place.config_text()
        self.assertEqual([secret for secret in secrets if secret in text], [])

    def test_nginx_config(self) -> None:
        """Every place in it is filled in, and every brace has its other."""
        text = NGINX_CONFIG.format(folder="/f", port=1, provider_port=2)
        self.assertEqual(text.count("{"), text.count("}"))
        self.assertIn("listen 127.0.0.1:1 ", text)
        self.assertIn("server 127.0.0.1:2;", text)

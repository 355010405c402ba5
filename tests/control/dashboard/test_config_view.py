"""Tests for omnigate.control.dashboard.config_view."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import load_config
from omnigate.config.structure import Fault
from omnigate.control.dashboard.config_view import (
    MAX_FAULTS,
    ChangeLine,
    KeyLine,
    MediaLine,
    RouteLine,
    UpstreamLine,
    change_lines,
    change_words,
    fault_lines,
    key_line,
    media_line,
    route_line,
    upstream_line,
)

CONFIG = load_config("""
[[keys]]
name = "plain"
key_env = "PLAIN"

[[keys]]
name = "tight"
key_sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
rpm = 60
soft_budget_usd = 5
budget_period = "daily"
allowed_ips = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7",
               "10.0.0.8", "10.0.0.9", "10.0.0.10"]

[[upstreams]]
name = "plain"
protocol = "openai"
base_url = "https://api.example.com/v1"

[[upstreams]]
name = "odd"
protocol = "anthropic"
base_url = "https://other.example.com/v1"
api_key_env = "ODD_KEY"
head_timeout_ms = 900
cooldown = { failures = 1 }

[[routes]]
model = "one"
targets = [{ upstream = "plain", model = "m", weight = 3 }]

[[routes]]
model = "many"
strategy = "weighted"
cache_ttl_s = 60
targets = [
  { upstream = "plain", model = "m0", price = { input = 0.15, output = 0.6 } },
  { upstream = "odd", model = "m1" }, { upstream = "odd", model = "m2" },
  { upstream = "odd", model = "m3" }, { upstream = "odd", model = "m4" },
  { upstream = "odd", model = "m5" }, { upstream = "odd", model = "m6" },
  { upstream = "odd", model = "m7" }, { upstream = "odd", model = "m8" },
  { upstream = "odd", model = "m9" },
]
""")


MEDIA = load_config("""
[[media.routes]]
model = "flux"
timeout_s = 60
targets = [{ adapter = "fal", model = "m", base_url = "http://h:1/fal" }]

[[media.routes]]
model = "film"
cache_ttl_s = 5
allowed_input = ["prompt", "size", "duration"]
price_multipliers = { size = { big = 2 } }
targets = [
  {adapter = "xai_video", model = "v", api_key_env = "X", price={per_second=0.050, per_job=1}},
  { adapter = "sume", model = "s", price = {} },
]
""").media


class MediaTests(SynchronousTestCase):
    """Routes of media jobs in words."""

    def test_lines(self) -> None:
        plain, film = map(media_line, MEDIA.routes)
        words = "m at fal (http://h:1/fal), no credential, no price"
        self.assertEqual(plain, MediaLine("flux", [words], 0, "any field", 60, 0))
        self.assertEqual(
            film.targets,
            [
                "v at xai_video, credential X, $1 a job and $0.05 a second",
                "s at sume, no credential, free",
            ],
        )
        self.assertEqual(film.inputs, "prompt, size, duration; the price depends on size")


class TableTests(SynchronousTestCase):
    """Rows of the config in words."""

    def test_upstreams(self) -> None:
        """What is as it comes is not told."""
        plain, odd = map(upstream_line, CONFIG.upstreams)
        self.assertEqual(
            plain,
            UpstreamLine(
                "plain",
                "/models/upstream?name=plain",
                "openai",
                "https://api.example.com/v1",
                "",
                [],
            ),
        )
        self.assertEqual(odd.credential, "ODD_KEY")
        self.assertEqual(
            odd.odd,
            ["head timeout ms: 900", "cooldown: failures 1, window s 30, seconds 30"],
        )

    def test_routes(self) -> None:
        """Weights where they count, prices of one's own, and not hundreds of targets."""
        one, many = map(route_line, CONFIG.routes)
        self.assertEqual(
            one, RouteLine("one", "/models/one?model=one", "failover", ["m at plain"], 0, 0)
        )
        self.assertEqual((many.strategy, many.more, many.cache_ttl_s), ("weighted", 2, 60))
        self.assertEqual(
            many.targets[:2],
            [
                "m0 at plain, weight 1, $0.15 in and $0.6 out per million tokens",
                "m1 at odd, weight 1",
            ],
        )

    def test_keys(self) -> None:
        """Their limits, long lists cut."""
        plain, tight = map(key_line, CONFIG.keys)
        self.assertEqual(plain, KeyLine("plain", "/keys/plain", "variable PLAIN", []))
        self.assertEqual(tight.secret, "hash")
        self.assertEqual(
            tight.limits,
            [
                "requests a minute: 60",
                "soft budget in dollars: 5",
                "addresses: 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, "
                "10.0.0.6, 10.0.0.7, 10.0.0.8 and 2 more",
                "budget period: daily, UTC",
            ],
        )

    def test_faults(self) -> None:
        """The first ones, each with its place."""
        faults = [Fault(f"routes[{n}]", "is odd", "route x") for n in range(MAX_FAULTS + 1)]
        found = fault_lines(faults)
        self.assertEqual(len(found), MAX_FAULTS)
        self.assertEqual(
            (found[1].place, found[1].row, found[1].message), ("routes[1]", "route x", "is odd")
        )


class ChangeTests(SynchronousTestCase):
    """What was new."""

    def test_all_kinds(self) -> None:
        """By table and by what happened, and in a few words."""
        lines = change_lines(
            {
                "retention": True,
                "routes": {"added": ["a", "b"], "removed": ["c"], "more": 3},
                "keys": {"changed": ["k"]},
            }
        )
        self.assertEqual(
            lines,
            [
                ChangeLine("keys", "changed", ["k"]),
                ChangeLine("routes", "added", ["a", "b"]),
                ChangeLine("routes", "removed", ["c"]),
                ChangeLine("routes", "more", ["and 3 more"]),
                ChangeLine("retention", "changed", ["how long things are kept"]),
            ],
        )
        self.assertEqual(
            change_words(lines),
            "1 key changed, 2 routes added, 1 route removed, more routes, retention changed",
        )

    def test_what_is_no_change(self) -> None:
        """A file that somebody has edited is no reason to fail."""
        self.assertEqual(change_lines({}), [])
        self.assertEqual(change_lines({"keys": 7, "routes": {"added": "x"}}), [])
        self.assertEqual(change_words([]), "")

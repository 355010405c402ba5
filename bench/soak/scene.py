"""What the planes of a soak are configured with: upstreams, routes, keys, prices and short times.

Times are short and rests are shorter, so that every deadline is met often and routes recover.
"""

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import attrs

PROVIDER_KEY: Final = "sk-soak-provider-credential"
PROVIDER_KEY_VARIABLE: Final = "SOAK_PROVIDER_KEY"

#: The settings of the data plane that a soak changes, in milliseconds and megabytes.
CLIENT_TIMEOUT_SECONDS: Final = 3.0
STALL_SECONDS: Final = 2.0
STREAM_IDLE_SECONDS: Final = 3.5
HEAD_SECONDS: Final = 4.0
DRAIN_SECONDS: Final = 4.0
MAX_REQUEST_MB: Final = 2
DATA_SETTINGS: Final = {
    "OMNIGATE_CLIENT_TIMEOUT_MS": str(int(CLIENT_TIMEOUT_SECONDS * 1000)),
    "OMNIGATE_CLIENT_STALL_TIMEOUT_MS": str(int(STALL_SECONDS * 1000)),
    "OMNIGATE_STREAM_IDLE_TIMEOUT_MS": str(int(STREAM_IDLE_SECONDS * 1000)),
    "OMNIGATE_ABORT_DRAIN_MS": str(int(DRAIN_SECONDS * 1000)),
    "OMNIGATE_MAX_REQUEST_MB": str(MAX_REQUEST_MB),
    "OMNIGATE_HEARTBEAT_MS": "500",
    "OMNIGATE_POLL_MS": "500",
    "OMNIGATE_FLUSH_MS": "200",
    "OMNIGATE_SHUTDOWN_GRACE_MS": "5000",
}


@attrs.frozen
class Upstream:
    """One provider as the config names it.

    :ivar cancels: whether its work is ended when the client leaves.
    :ivar absent: nobody ever listens on its port.
    """

    name: str
    protocol: str
    cancels: bool = False
    absent: bool = False

    @property
    def model(self) -> str:
        """What it calls its only model."""
        return f"{self.name}-model-2026"


UPSTREAMS: Final = (
    Upstream("alpha", "openai"),
    Upstream("beta", "openai"),
    Upstream("gamma", "anthropic"),
    Upstream("delta", "anthropic", cancels=True),
    Upstream("nobody", "openai", absent=True),
)
BY_NAME: Final = {upstream.name: upstream for upstream in UPSTREAMS}

#: The upstream whose listener is closed at times.
SHY: Final = "beta"

#: Model, strategy, seconds in the cache, targets. Those of a route speak one protocol: what passes
#: is held to the byte, and what is translated has tests of its own.
ROUTES: Final = (
    ("soak-first", "failover", 0, ("alpha", "beta")),
    ("soak-turns", "round_robin", 0, ("beta", "alpha")),
    ("soak-weights", "weighted", 0, ("alpha", "beta")),
    ("soak-nobody", "failover", 0, ("nobody", "alpha")),
    ("soak-alone", "failover", 0, ("beta",)),
    ("soak-messages", "failover", 0, ("gamma", "delta")),
    ("soak-cancels", "failover", 0, ("delta", "gamma")),
    ("soak-messages-turns", "round_robin", 0, ("gamma", "delta")),
    ("soak-messages-weights", "weighted", 0, ("gamma", "delta")),
    ("soak-cached", "round_robin", 3, ("alpha", "beta")),
    ("soak-messages-cached", "round_robin", 3, ("gamma",)),
    ("soak-secret", "failover", 0, ("alpha",)),
)
#: Routes for ordinary requests, by the protocol of their targets.
MODELS: Final = {
    "openai": ("soak-first", "soak-turns", "soak-weights", "soak-nobody", "soak-alone"),
    "anthropic": (
        "soak-messages",
        "soak-cancels",
        "soak-messages-turns",
        "soak-messages-weights",
    ),
}
CACHED_MODELS: Final = {"openai": "soak-cached", "anthropic": "soak-messages-cached"}

#: US dollars a million tokens, by upstream: input, cached, written, output. With a thousandth of
#: a cent in each, so that events have halves of a nano-dollar to round.
PRICES: Final = {
    "alpha": ("0.1503", "0.0751", "0.2107", "0.6011"),
    "beta": ("1.1009", "0.2753", "1.3763", "4.4021"),
    "gamma": ("3.0001", "0.3003", "3.7507", "15.0001"),
    "delta": ("0.8003", "0.0801", "1.0007", "4.0009"),
    "nobody": ("9", "9", "9", "9"),
}

#: The keys, with what they are refused for: ``soak`` for nothing.
KEYS: Final = ("soak", "slow", "narrow", "barred", "spent")
SLOW_RPM: Final = 60


def secret_of(name: str) -> str:
    """Return the gateway key of a name."""
    return f"soak-gateway-key-{name}"


def digest_of(name: str) -> str:
    """Return the SHA-256 of a key, as the ledger names it."""
    return hashlib.sha256(secret_of(name).encode()).hexdigest()


_LIMITS = {
    "soak": "budget_usd = 100000000",
    "slow": f"rpm = {SLOW_RPM}",
    "narrow": "max_concurrent = 1",
    "barred": 'models = ["soak-f*"]',
    "spent": "budget_usd = 0.000001",
}


def config_text(ports: Mapping[str, int]) -> str:
    """Return the config of a soak.

    :param ports: of the upstreams on loopback, by name.
    """
    parts = [
        f'[[keys]]\nname = "{name}"\nkey_sha256 = "{digest_of(name)}"\n{_LIMITS[name]}'
        for name in KEYS
    ]
    for upstream in UPSTREAMS:
        parts.append(
            f'[[upstreams]]\nname = "{upstream.name}"\nprotocol = "{upstream.protocol}"\n'
            f'base_url = "http://127.0.0.1:{ports[upstream.name]}/v1"\n'
            f'api_key_env = "{PROVIDER_KEY_VARIABLE}"\nconnect_timeout_ms = 1000\n'
            f"head_timeout_ms = {int(HEAD_SECONDS * 1000)}\n"
            f'abandon = "{"cancel" if upstream.cancels else "read_on"}"\n'
            "cooldown = { failures = 3, window_s = 2, seconds = 1 }"
        )
    for model, strategy, ttl, targets in ROUTES:
        parts.append(f'[[routes]]\nmodel = "{model}"\nstrategy = "{strategy}"\ncache_ttl_s = {ttl}')
        for name in targets:
            plain, cached, written, output = PRICES[name]
            parts.append(
                f'  [[routes.targets]]\n  upstream = "{name}"\n  model = "{BY_NAME[name].model}"\n'
                f"  price = {{ input = {plain}, cached_input = {cached}, "
                f"cache_write = {written}, output = {output} }}"
            )
    return "\n\n".join(parts) + "\n"


def cost_nano(upstream: str | None, tokens: tuple[int, int, int, int]) -> int:
    """Return what tokens cost in nano-dollars, rounded once and half up.

    Worked out apart from the product, which the soak holds against it.

    :param tokens: input, cached, written, output.
    """
    if upstream is None:
        return 0
    pairs = zip(tokens, PRICES[upstream], strict=True)
    exact = sum((count * Fraction(price) * 1000 for count, price in pairs), Fraction(0))
    return (exact + Fraction(1, 2)).__floor__()

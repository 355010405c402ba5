"""Gateway keys of every kind that can be made, for tests that try them all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from omnigate.config.key_values import ENDPOINT_KINDS

_AMOUNTS = st.integers(1, 10**12).map(lambda nano: Decimal(nano).scaleb(-9))
_WORDS = st.from_regex(r"[A-Za-z0-9@~][A-Za-z0-9._:/@+~-]{0,20}\*?", fullmatch=True)
_NETWORKS = st.sampled_from(("10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1"))
_RECIPIENTS = st.sampled_from(
    (
        "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m",
        "age1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5z5tpwxqergd3c8g7rusqmwn7f2",
    )
)
_INSTANTS = st.sampled_from(
    (
        "2027-01-31T00:00:00Z",
        "2027-01-31T00:00:05+01:00",
        "2027-01-31T12:30:00.250Z",
        "9999-12-31T23:59:59.999Z",
    )
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Members of a key but for its name, as decoded JSON has them, that agree with each other."""
    members: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "rpm": st.integers(0, 10_000_000),
                "tpm": st.integers(0, 1_000_000_000),
                "max_concurrent": st.integers(0, 1_000_000),
                "max_open_jobs": st.integers(0, 10_000_000),
                "max_jobs_per_day": st.integers(0, 10_000_000),
                "age_recipients": st.lists(_RECIPIENTS, min_size=1, max_size=3),
                "models": st.lists(_WORDS, min_size=1, max_size=4),
                "allowed_ips": st.lists(_NETWORKS, min_size=1, max_size=4),
                "endpoints": st.sets(st.sampled_from(ENDPOINT_KINDS), min_size=1).map(
                    lambda kinds: [kind for kind in ENDPOINT_KINDS if kind in kinds]
                ),
                "expires_at": _INSTANTS,
                "disabled": st.booleans(),
            },
        )
    )
    amounts = sorted(draw(st.lists(_AMOUNTS, min_size=2, max_size=2)))
    for name, amount in zip(("soft_budget_usd", "budget_usd"), amounts, strict=True):
        if draw(st.booleans()):
            members[name] = amount
    if "budget_usd" in members or "soft_budget_usd" in members:
        members["budget_period"] = draw(st.sampled_from(("daily", "weekly", "monthly", "total")))
        if members["budget_period"] != "total" and draw(st.booleans()):
            members["budget_timezone"] = draw(st.sampled_from(("UTC", "Europe/Stockholm")))
    return members

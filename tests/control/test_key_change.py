"""A change of a key makes what could have been made in one go."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import changed
from omnigate.control.key_members import FIELDS, read_members
from omnigate.errors import GatewayError

MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "rpm": st.sampled_from([0, 60]),
    "models": st.sampled_from([["fast"], ["fast", "claude-*"]]),
    "max_concurrent": st.sampled_from([0, 8]),
    "budget_usd": st.sampled_from([1, Decimal("0.5")]),
    "soft_budget_usd": st.sampled_from([1, Decimal("0.000000001")]),
    "budget_period": st.sampled_from(["daily", "weekly", "monthly", "total"]),
    "budget_timezone": st.sampled_from(["UTC", "Europe/Stockholm"]),
    "tpm": st.sampled_from([0, 60_000]),
    "allowed_ips": st.sampled_from([["10.0.0.0/8"], ["192.0.2.7", "::1"]]),
    "endpoints": st.sampled_from([["chat"], ["messages", "models"]]),
    "expires_at": st.sampled_from(["2027-01-31T00:00:00Z", "2027-01-31T01:00:00+01:00"]),
    "disabled": st.booleans(),
}
bodies = st.fixed_dictionaries({}, optional=MEMBERS)
changes = st.fixed_dictionaries(
    {}, optional={member: value | st.none() for member, value in MEMBERS.items()}
)


def made(body: dict[str, Any]) -> GatewayKey | None:
    """The key that is made of a body, if one is."""
    try:
        members = read_members({"name": "a", **body}, FIELDS, ("name",))
    except GatewayError:
        return None
    return GatewayKey(**members, sha256="0" * 64, source="managed", created_ms=1)


def change(key: GatewayKey, body: dict[str, Any]) -> GatewayKey | None:
    """The key that a change leaves, if it is not refused."""
    try:
        return changed(key, body)
    except GatewayError:
        return None


class ChangeTests(SynchronousTestCase):
    """Changes."""

    @settings(max_examples=200, deadline=None)
    @given(bodies, bodies)
    def test_all_members_given(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """A change that tells every member, or null, leaves what a new key of it would be."""
        key = made(before)
        if key is not None:
            told = {member: after.get(member) for member in MEMBERS}
            self.assertEqual(change(key, told), made(after))

    @settings(max_examples=200, deadline=None)
    @given(
        bodies, st.fixed_dictionaries({}, optional={m: s | st.none() for m, s in MEMBERS.items()})
    )
    def test_some_members_given(self, before: dict[str, Any], body: dict[str, Any]) -> None:
        """What is given is as given, what is not is as it was; the same again is no change."""
        key = made(before)
        after = None if key is None else change(key, body)
        if key is None or after is None:
            return
        for member, (attribute, check) in FIELDS.items():
            if body.get(member) is not None:
                self.assertEqual(getattr(after, attribute), check(body[member]))
            elif member not in body and not attribute.startswith("budget_"):
                self.assertEqual(getattr(after, attribute), getattr(key, attribute))
        self.assertEqual(change(after, body), after)
        self.assertEqual(change(after, {}), after)

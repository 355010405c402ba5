"""What is typed into the form of a key, and what it means."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.key_form import (
    KeyForm,
    changes,
    filled,
    mark,
    members,
    typed,
)
from omnigate.control.dashboard.rotations import rotation_mark
from omnigate.control.forms import read_form
from omnigate.control.gateway_key import MANAGED, GatewayKey
from omnigate.control.key_change import changed
from omnigate.control.key_members import FIELDS, BadMembersError, read_members
from tests.control.dashboard.key_cases import bodies


def key_of(body: dict[str, Any]) -> GatewayKey:
    made = read_members({"name": "k", **body}, FIELDS, ("name",))
    return GatewayKey(**made, sha256="a" * 64, source=MANAGED)


def sent(form: KeyForm) -> KeyForm:
    """The form as it comes out of a browser that was shown it."""
    fields: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in attrs.asdict(form).items()
        if name != "disabled" or value
    }
    body = urlencode(fields, doseq=True).replace("%0A", "%0D%0A")
    return typed(read_form(body.encode()))


class RoundTripTests(SynchronousTestCase):
    """What is shown and sent again is what was."""

    @given(bodies())
    def test_a_key_that_is_not_touched(self, body: dict[str, Any]) -> None:
        """Nothing of it is changed, and made anew of the same form it is the same key."""
        key = key_of(body)
        form = sent(filled(key))
        self.assertEqual(changes(filled(key), form), {})
        self.assertEqual(key_of(members(form)), key)

    @given(bodies(), bodies())
    def test_any_key_becomes_any_other(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        """The form of one, filled in as the other's, makes the one the other."""
        before, after = key_of(one), key_of(other)
        body = changes(filled(before), sent(filled(after)))
        self.assertEqual(changed(before, body), after)

    @given(bodies(), bodies())
    def test_marks(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        """They differ where the members do, and not where another secret opens the key."""
        before, after = key_of(one), key_of(other)
        self.assertEqual(mark(before) == mark(after), before == after)
        rotated = attrs.evolve(before, secret_sha256="b" * 64)
        self.assertEqual(mark(rotated), mark(before))
        self.assertNotEqual(rotation_mark(rotated), rotation_mark(before))


class TypedTests(SynchronousTestCase):
    """What people type."""

    def read(self, **fields: Any) -> dict[str, Any]:
        return members(sent(attrs.evolve(KeyForm(name="k"), **fields)))

    def test_amounts(self) -> None:
        """They are exact, with a dollar sign or without."""
        for text, shown in (("0.1", "0.1"), ("$5", "5"), (".5", "0.5"), ("5.", "5")):
            self.assertEqual(str(self.read(budget_usd=text)["budget_usd"]), shown)

    def test_a_sign_without_an_amount(self) -> None:
        """It is a fault of its field, and makes no key without a budget."""
        for name in ("budget_usd", "soft_budget_usd"):
            for text in ("$", "$ "):
                error = self.assertRaises(BadMembersError, key_of, self.read(**{name: text}))
                self.assertEqual({member for member, _ in error.faults}, {name})

    def test_lists(self) -> None:
        """One a line, with commas or with blanks."""
        read = self.read(models="a, b\r\n\nc d*,", allowed_ips="  10.0.0.0/8\n")
        self.assertEqual(read["models"], ["a", "b", "c", "d*"])
        self.assertEqual(read["allowed_ips"], ["10.0.0.0/8"])

    def test_times(self) -> None:
        """What a browser writes is in UTC; all else is the reader's."""
        for text, read in (
            ("2027-01-31T00:00", "2027-01-31T00:00:00Z"),
            ("2027-01-31 00:00:07.5", "2027-01-31 00:00:07.5Z"),
            ("2027-01-31T00:00:00+01:00", "2027-01-31T00:00:00+01:00"),
            ("tomorrow", "tomorrow"),
        ):
            self.assertEqual(self.read(expires_at=text)["expires_at"], read)

    def test_a_period_without_a_budget(self) -> None:
        """It says nothing, whatever is chosen."""
        read = self.read(budget_period="daily", budget_timezone="Europe/Stockholm")
        self.assertEqual(read, {"name": "k"})

    def test_fields_for_times(self) -> None:
        """A field of a browser is as fine as what is in it, and shows no other text."""
        for text, kind, step in (
            ("", "datetime-local", "60"),
            ("2027-01-31T00:00", "datetime-local", "60"),
            ("2027-01-31T00:00:05", "datetime-local", "1"),
            ("2027-01-31T00:00:05.250", "datetime-local", "0.001"),
        ):
            form = KeyForm(expires_at=text)
            self.assertEqual((form.expires_kind, form.expires_step), (kind, step))
        self.assertEqual(KeyForm(expires_at="2027-01-31T00:00:00Z").expires_kind, "text")

    @given(
        st.sampled_from(
            ("budget_usd", "rpm", "tpm", "max_concurrent", "models", "allowed_ips", "expires_at")
        ),
        st.text(max_size=50),
    )
    def test_any_text(self, name: str, text: str) -> None:
        """Whatever is typed is read, or is a fault of this field and no other."""
        try:
            key_of(self.read(**{name: text}))
        except BadMembersError as error:
            self.assertEqual({member for member, _ in error.faults}, {name})

"""What is typed to make an admin key, and how one is shown."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.key_values import instant_ms
from omnigate.control.admin_key import FULL, READ_ONLY, AdminKey
from omnigate.control.admin_key_members import changed
from omnigate.control.credential import LAST_MS, EarlierSecret
from omnigate.control.dashboard.admin_key_form import (
    AdminKeyForm,
    changes,
    filled,
    mark,
)
from omnigate.control.dashboard.admin_key_rows import SOON_MS, badges, row_of
from omnigate.control.dashboard.rotations import rotation_mark
from omnigate.control.dashboard.typed_texts import entries, instant, is_local, local, step

NOW = 1_795_982_400_000

KEY = AdminKey("ann", "a" * 64, FULL, NOW - 1)

networks = st.sampled_from(("10.0.0.0/8", "192.0.2.7", "2001:db8::/32"))
keys = st.builds(
    AdminKey,
    name=st.sampled_from(("ann", "bob")),
    sha256=st.just("a" * 64),
    scope=st.sampled_from((FULL, READ_ONLY)),
    created_ms=st.just(NOW),
    allowed_ips=st.none() | st.lists(networks, min_size=1, max_size=3).map(tuple),
    expires_ms=st.just(0) | st.integers(1, LAST_MS),
)


class FormTests(SynchronousTestCase):
    """Forms and keys."""

    @given(keys, keys)
    def test_what_is_filled_in_is_what_the_key_is(self, key: AdminKey, other: AdminKey) -> None:
        """A form as it is shown changes nothing; filled in as another key, it makes that."""
        self.assertEqual(changes(filled(key), filled(key)), {})
        wanted = attrs.evolve(other, name=key.name)
        self.assertEqual(changed(key, changes(filled(key), filled(wanted))), wanted)

    def test_marks(self) -> None:
        """One changes with what a key may do, the other with its secret."""
        other = attrs.evolve(KEY, scope=READ_ONLY)
        rotated = attrs.evolve(KEY, sha256="b" * 64)
        self.assertEqual(mark(KEY), mark(rotated))
        self.assertNotEqual(mark(KEY), mark(other))
        self.assertEqual(rotation_mark(KEY), rotation_mark(other))
        self.assertNotEqual(rotation_mark(KEY), rotation_mark(rotated))
        self.assertNotIn(KEY.sha256[:8], rotation_mark(KEY))

    def test_a_new_one(self) -> None:
        """It may look only unless somebody chooses otherwise."""
        self.assertEqual(AdminKeyForm().scope, READ_ONLY)


class TextTests(SynchronousTestCase):
    """Lists and times."""

    def test_entries(self) -> None:
        """Lines, commas and blanks part them."""
        self.assertEqual(entries(" a, b\r\n\n c\td,"), ["a", "b", "c", "d"])
        self.assertIsNone(entries(" ,\n"))

    def test_instants(self) -> None:
        """What a browser writes is UTC; anything else is left to be judged."""
        for text, expected in (
            ("2027-01-31T09:30", "2027-01-31T09:30:00Z"),
            ("2027-01-31T09:30:15", "2027-01-31T09:30:15Z"),
            ("2027-01-31T09:30:15.5", "2027-01-31T09:30:15.5Z"),
            ("2027-01-31T09:30:00+02:00", "2027-01-31T09:30:00+02:00"),
            ("tomorrow", "tomorrow"),
            ("", None),
        ):
            self.assertEqual(instant(text), expected)
        self.assertEqual(
            [is_local(""), is_local("2027-01-31T09:30"), is_local("x")], [True, True, False]
        )

    def test_steps(self) -> None:
        """As fine as the time."""
        for text, expected in (
            ("", "60"),
            ("2027-01-31T09:30", "60"),
            ("2027-01-31T09:30:15", "1"),
            ("2027-01-31T09:30:15.500", "0.001"),
        ):
            self.assertEqual(step(text), expected)

    @given(st.integers(1, LAST_MS))
    def test_there_and_back(self, ms: int) -> None:
        """A time that is shown is read as the same one."""
        text = local(ms)
        self.assertTrue(is_local(text))
        written = instant(text)
        assert written is not None
        self.assertEqual(instant_ms(written), ms)


class RowTests(SynchronousTestCase):
    """How a key is shown."""

    def told(self, **members: Any) -> list[str]:
        return [badge.text for badge in badges(attrs.evolve(KEY, **members), NOW)]

    def test_badges(self) -> None:
        """Whether it works, for how long, and whether an old secret does."""
        self.assertEqual(self.told(), ["active"])
        self.assertEqual(self.told(expires_ms=NOW + SOON_MS + 1), ["active"])
        self.assertEqual(self.told(expires_ms=NOW + SOON_MS), ["expires soon"])
        self.assertEqual(self.told(expires_ms=NOW, disabled=True), ["disabled", "expired"])
        earlier = (EarlierSecret("b" * 64, NOW + 1),)
        self.assertEqual(self.told(earlier=earlier), ["active", "old secret works"])
        self.assertEqual(
            row_of(attrs.evolve(KEY, earlier=earlier), NOW, "").grace_until_ms, NOW + 1
        )

    def test_ones_own(self) -> None:
        """Whoever looks is told which key they look with."""
        self.assertTrue(row_of(KEY, NOW, KEY.actor).is_own)
        self.assertFalse(row_of(KEY, NOW, "admin-key:another").is_own)

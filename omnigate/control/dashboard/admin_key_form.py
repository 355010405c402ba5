"""What is typed to make or change an admin key, and what it means to the admin API."""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgspec

from omnigate.control.admin_key import FULL, READ_ONLY, AdminKey
from omnigate.control.dashboard.typed_texts import (
    changed_members,
    entries,
    instant,
    is_local,
    local,
    step,
)
from omnigate.control.forms import Form
from omnigate.control.key_secret import sha256_hex

#: What a key may do, as the form offers it; the lesser first, so that nobody gives more unawares.
SCOPE_CHOICES: Final = (
    (READ_ONLY, "read-only: see everything, change nothing"),
    (FULL, "full: change keys and config, create admin keys, too"),
)

_encode = msgspec.json.Encoder(order="sorted").encode


@attrs.frozen
class AdminKeyForm:
    """The fields of the form, as they are shown.

    :ivar allowed_ips: one a line.
    :ivar expires_at: as browsers write a date and time, which is meant in UTC, or RFC 3339.
    """

    name: str = ""
    scope: str = READ_ONLY
    expires_at: str = ""
    allowed_ips: str = ""

    @property
    def expires_kind(self) -> str:
        """The kind of field that can show what is in it: not every text is a browser's time."""
        return "datetime-local" if is_local(self.expires_at) else "text"

    @property
    def expires_step(self) -> str:
        """How fine a time the field takes, in seconds."""
        return step(self.expires_at)


def typed(form: Form) -> AdminKeyForm:
    """Return what somebody has typed."""
    return AdminKeyForm(**{name: form.get(name) for name in attrs.fields_dict(AdminKeyForm)})


def filled(key: AdminKey) -> AdminKeyForm:
    """Return the form as it is shown to somebody who wants to change a key."""
    return AdminKeyForm(
        name=key.name,
        scope=key.scope,
        expires_at=local(key.expires_ms) if key.expires_ms else "",
        allowed_ips="\n".join(key.allowed_ips or ()),
    )


def members(form: AdminKeyForm) -> dict[str, Any]:
    """Return what a form says, as the admin API's JSON would; what is left empty is not in it."""
    said = {
        "name": form.name,
        "scope": form.scope,
        "expires_at": instant(form.expires_at),
        "allowed_ips": entries(form.allowed_ips),
    }
    return {name: value for name, value in said.items() if value}


def changes(before: AdminKeyForm, after: AdminKeyForm) -> dict[str, Any]:
    """Return the members that are others, ``null`` for those that say nothing any more."""
    return changed_members(members(before), members(after))


def mark(key: AdminKey) -> str:
    """Return what tells a key with these members from the same key with others."""
    return sha256_hex(_encode(key.told()).decode())[:32]

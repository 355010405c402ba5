"""What is typed to make or change a gateway key, and what it means to the admin API.

A field holds text as a person sees it; the members that come out are judged by the readers of the
API, so that the faults have the same words. A field that is left empty says nothing.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import attrs
import msgspec

from omnigate.config.key_values import ENDPOINT_KINDS
from omnigate.control.dashboard.typed_texts import (
    changed_members,
    entries,
    instant,
    is_local,
    local,
    step,
)
from omnigate.control.forms import Form
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import written
from omnigate.control.key_secret import sha256_hex
from omnigate.money import usd
from omnigate.periods import MONTHLY, TOTAL, UTC

#: What a new key's budget counts for, unless somebody chooses otherwise.
DEFAULT_PERIOD: Final = MONTHLY

#: Longer texts are no numbers, and are told as such.
MAX_NUMBER_CHARS: Final = 40

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)", re.ASCII)

_encode = msgspec.json.Encoder(decimal_format="string", order="sorted").encode


@attrs.frozen
class KeyForm:
    """The fields of the form, as they are shown.

    :ivar models: one a line, and so are ``allowed_ips`` and ``age_recipients``.
    :ivar endpoints: the boxes that are ticked.
    :ivar expires_at: as browsers write a date and time, which is meant in UTC, or RFC 3339.
    """

    name: str = ""
    budget_usd: str = ""
    soft_budget_usd: str = ""
    budget_period: str = DEFAULT_PERIOD
    budget_timezone: str = UTC
    rpm: str = ""
    tpm: str = ""
    max_concurrent: str = ""
    max_open_jobs: str = ""
    max_jobs_per_day: str = ""
    age_recipients: str = ""
    models: str = ""
    allowed_ips: str = ""
    endpoints: tuple[str, ...] = ()
    expires_at: str = ""
    disabled: bool = False

    @property
    def expires_kind(self) -> str:
        """The kind of field that can show what is in it: not every text is a browser's time."""
        return "datetime-local" if is_local(self.expires_at) else "text"

    @property
    def expires_step(self) -> str:
        """How fine a time the field takes, in seconds: as fine as the one that is in it."""
        return step(self.expires_at)


def typed(form: Form) -> KeyForm:
    """Return what somebody has typed."""
    return KeyForm(
        **{
            name: form.get(name)
            for name in attrs.fields_dict(KeyForm)
            if name not in ("endpoints", "disabled")
        },
        endpoints=form.all("endpoints"),
        disabled=bool(form.get("disabled")),
    )


def filled(key: GatewayKey) -> KeyForm:
    """Return the form as it is shown to somebody who wants to change a key."""
    budgeted = (
        {"budget_period": key.budget_period, "budget_timezone": key.budget_timezone}
        if key.has_budget
        else {}
    )
    return KeyForm(
        name=key.name,
        budget_usd="" if key.budget_nano is None else usd(key.budget_nano),
        soft_budget_usd="" if key.soft_budget_nano is None else usd(key.soft_budget_nano),
        **budgeted,
        rpm=str(key.rpm or ""),
        tpm=str(key.tpm or ""),
        max_concurrent=str(key.max_concurrent or ""),
        max_open_jobs=str(key.max_open_jobs or ""),
        max_jobs_per_day=str(key.max_jobs_per_day or ""),
        age_recipients="\n".join(key.age_recipients),
        models="\n".join(key.models or ()),
        allowed_ips="\n".join(key.allowed_ips or ()),
        endpoints=tuple(kind for kind in ENDPOINT_KINDS if kind in (key.endpoints or ())),
        expires_at=local(key.expires_ms) if key.expires_ms else "",
        disabled=key.disabled,
    )


def members(form: KeyForm) -> dict[str, Any]:
    """Return what a form says, as the admin API's JSON would; what is left empty is not in it.

    A period counts with a budget only, and a zone with a period that turns.
    """
    said: dict[str, Any] = {
        "name": form.name,
        "budget_usd": _amount(form.budget_usd),
        "soft_budget_usd": _amount(form.soft_budget_usd),
        "rpm": _number(form.rpm),
        "tpm": _number(form.tpm),
        "max_concurrent": _number(form.max_concurrent),
        "max_open_jobs": _number(form.max_open_jobs),
        "max_jobs_per_day": _number(form.max_jobs_per_day),
        "age_recipients": entries(form.age_recipients),
        "models": entries(form.models),
        "allowed_ips": entries(form.allowed_ips),
        "endpoints": list(form.endpoints) or None,
        "expires_at": instant(form.expires_at),
        "disabled": form.disabled or None,
    }
    if form.budget_usd or form.soft_budget_usd:
        said["budget_period"] = form.budget_period or None
        if form.budget_period != TOTAL:
            said["budget_timezone"] = form.budget_timezone or None
    return {name: value for name, value in said.items() if value is not None}


def changes(before: KeyForm, after: KeyForm) -> dict[str, Any]:
    """Return the members that are others, ``null`` for those that say nothing any more."""
    return changed_members(members(before), members(after))


def mark(key: GatewayKey) -> str:
    """Return what tells a key with these members from the same key with others."""
    return sha256_hex(_encode(written(key)).decode())[:32]


def _amount(text: str) -> object:
    """Return the number of dollars that a text is; a sign without any is no empty field."""
    number = text.removeprefix("$")
    return _number(number) if number.strip() else text or None


def _number(text: str) -> object:
    """Return the number that a text is; a text that is none, for others to refuse."""
    text = text.strip()
    if len(text) <= MAX_NUMBER_CHARS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Decimal(text)
    return text or None

"""What an operator may say about a managed key: the members of a JSON object, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from omnigate.config import key_values, media_values, values
from omnigate.config.agreement import budget_disagreements
from omnigate.config.media import MAX_RECIPIENTS
from omnigate.config.schema import MAX_PATTERNS
from omnigate.errors import GatewayError
from omnigate.money import parse_usd
from omnigate.periods import PERIODS

#: Faults of one body that are told. For no others is a known member looked for: that takes 25 µs,
#: and a body of nothing but unknown members would hold the reactor for half a second.
MAX_SHOWN: Final = 20


def _models(value: object) -> tuple[str, ...] | None:
    """Check ``models``: null for all, or a list of ids and prefixes."""
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PATTERNS:
        raise values.BadValueError(
            f"must be an array of 1 to {MAX_PATTERNS} model names; leave it out for all models"
        )
    return tuple(values.model_pattern(pattern) for pattern in value)


def _budget(value: object) -> int | None:
    """Check ``budget_usd``: null for none, or an amount; returns nano-dollars."""
    return None if value is None else parse_usd(values.budget(value))


def networks(value: object) -> tuple[str, ...] | None:
    """Check ``allowed_ips``: null for all, or a list of addresses and networks."""
    if value is None:
        return None
    most = key_values.MAX_NETWORKS
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise values.BadValueError(
            f"must be an array of 1 to {most} addresses and networks; leave it out for all"
        )
    return tuple(key_values.network(entry) for entry in value)


def _endpoints(value: object) -> tuple[str, ...] | None:
    """Check ``endpoints``: null for all, or a list of their kinds."""
    if value is None:
        return None
    most = len(key_values.ENDPOINT_KINDS)
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise values.BadValueError(
            f"must be an array of 1 to {most} endpoints; leave it out for all"
        )
    return tuple(key_values.endpoint_kind(entry) for entry in value)


def _recipients(value: object) -> tuple[str, ...]:
    """Check ``age_recipients``: null for those of the config, or a list of recipients."""
    if value is None:
        return ()
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_RECIPIENTS:
        raise values.BadValueError(
            f"must be an array of 1 to {MAX_RECIPIENTS} recipients of age; leave it out for those "
            "of [media]"
        )
    return tuple(media_values.age_recipient(entry) for entry in value)


def expiry(value: object) -> int:
    """Check ``expires_at``: null for never, or an instant; returns milliseconds since 1970."""
    return 0 if value is None else key_values.instant_ms(value)


#: The attribute of a key that a member of JSON becomes, and the check that it has to pass.
Field = tuple[str, Callable[[object], Any]]

#: JSON member → attribute of a key, and check. The checks are those of the config file, so that a
#: snapshot with either kind of key is a snapshot.
FIELDS: Final[Mapping[str, Field]] = {
    "name": ("name", values.name),
    "rpm": ("rpm", values.whole(0, values.MAX_RPM)),
    "models": ("models", _models),
    "max_concurrent": ("max_concurrent", values.whole(0, values.MAX_CONCURRENT)),
    "budget_usd": ("budget_nano", _budget),
    "budget_period": ("budget_period", values.one_of(*PERIODS)),
    "budget_timezone": ("budget_timezone", values.time_zone),
    "soft_budget_usd": ("soft_budget_nano", _budget),
    "tpm": ("tpm", values.whole(0, key_values.MAX_TPM)),
    "allowed_ips": ("allowed_ips", networks),
    "endpoints": ("endpoints", _endpoints),
    "expires_at": ("expires_ms", expiry),
    "disabled": ("disabled", values.flag),
    "max_open_jobs": ("max_open_jobs", values.whole(0, key_values.MAX_JOBS)),
    "max_jobs_per_day": ("max_jobs_per_day", values.whole(0, key_values.MAX_JOBS)),
    "age_recipients": ("age_recipients", _recipients),
}

_ROTATION: Final[Mapping[str, Field]] = {
    "grace_s": ("grace_s", values.whole(0, key_values.MAX_GRACE_S)),
}


class BadMembersError(GatewayError):
    """Members that cannot be; ``invalid_request``, with ``param`` the first of them.

    :ivar faults: each member that is at fault, and what is wrong with it.
    """

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        self.faults = tuple(faults[:MAX_SHOWN])
        shown = "; ".join(f"{values.quoted(member)}: {fault}" for member, fault in self.faults)
        super().__init__("invalid_request", shown, param=faults[0][0][: values.MAX_NAME_CHARS])


def read_members(
    value: object,
    fields: Mapping[str, Field],
    required: Iterable[str],
) -> dict[str, Any]:
    """Judge the members of one JSON object and return them by attribute name.

    :raises GatewayError: ``invalid_request``; where members are at fault, :class:`BadMembersError`
        with all of them.
    """
    if not isinstance(value, dict):
        raise GatewayError("invalid_request", "the body must be one JSON object")
    faults: list[tuple[str, str]] = []
    read: dict[str, Any] = {}
    for member, content in value.items():
        if member not in fields:
            known = values.did_you_mean(member, fields) if len(faults) < MAX_SHOWN else ""
            faults.append((member, f"there is no such member{known}"))
            continue
        attribute, check = fields[member]
        try:
            read[attribute] = check(content)
        except ValueError as fault:
            faults.append((member, str(fault)))
    faults.extend((member, "must be given") for member in required if member not in value)
    if not faults:
        faults.extend(budget_disagreements(value))
    if faults:
        raise BadMembersError(faults)
    return read


def read_grace(body: object, default_s: int = 0) -> int:
    """Judge the body of a rotation; return the seconds that older secrets work on.

    :param default_s: what a body means that does not say.
    :raises GatewayError: ``invalid_request``.
    """
    return int(read_members(body, _ROTATION, ()).get("grace_s", default_s))

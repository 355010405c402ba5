"""What the limits of a gateway key may be beside plain numbers: networks, endpoints, instants.

The config file, the admin API and the snapshot share these checks. Like those of
:mod:`omnigate.config.values` they return the value to keep or raise
:class:`~omnigate.config.values.BadValueError` with a message that fits behind a dotted path.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import re
from functools import lru_cache
from typing import Final

from omnigate.config.values import BadValueError, did_you_mean, quoted, text
from omnigate.periods import END_MS, rfc3339

#: Sixty-four networks are a company's; a longer list is kept where the networks are, in a firewall.
MAX_NETWORKS: Final = 64

#: The kinds of the model endpoints (:mod:`omnigate.dialects.endpoints`), the model list, and media
#: jobs with their files.
ENDPOINT_KINDS: Final = (
    "chat",
    "completions",
    "responses",
    "embeddings",
    "messages",
    "count_tokens",
    "models",
    "jobs",
)

#: A billion tokens a minute is ten times what the largest accounts have at any provider.
MAX_TPM: Final = 1_000_000_000

#: Jobs of one key, open or in a day, that a limit may name.
MAX_JOBS: Final = 10_000_000

#: Secrets of one key that still work after newer ones took their place: rotated every hour with a
#: grace of eight, which is more than anybody follows.
MAX_EARLIER_SECRETS: Final = 8

#: What a webhook secret begins with, and how many bytes its base64 stands for
#: (https://github.com/standard-webhooks/standard-webhooks, "Signature scheme").
WEBHOOK_PREFIX: Final = "whsec_"
MIN_WEBHOOK_BYTES: Final = 24
MAX_WEBHOOK_BYTES: Final = 64

#: A month: who has not taken the new secret by then needs another way to be told.
MAX_GRACE_S: Final = 30 * 86_400

#: Many keys have the same networks, and to look at one takes 20 µs. A megabyte of them.
MAX_KNOWN_NETWORKS: Final = 4096

#: The longest address of IPv6 with its prefix has 49 characters.
_MAX_NETWORK_CHARS: Final = 64

#: An instant with nine decimals and its offset has 35 characters.
_MAX_INSTANT_CHARS: Final = 40

_NETWORK = re.compile(r"(?P<address>[0-9A-Fa-f.:]+)(?:/(?P<prefix>[0-9]{1,3}))?", re.ASCII)
_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>[Zz]|[+-]\d\d:[0-5]\d)",
    re.ASCII,
)
_EXAMPLE: Final = ', such as "2027-01-31T00:00:00Z" or "2027-01-31T00:00:00+01:00"'
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def network(value: object) -> str:
    """Check an address or a network (CIDR) of IPv4 or IPv6, and return its one spelling.

    A network of a single address is spelled as the address.
    """
    return _network(text(value))


@lru_cache(maxsize=MAX_KNOWN_NETWORKS)
def _network(word: str) -> str:
    found = _NETWORK.fullmatch(word) if len(word) <= _MAX_NETWORK_CHARS else None
    if found is None:
        raise BadValueError(f'{quoted(word)} is no address and no network such as "10.0.0.0/8"')
    try:
        interface = ipaddress.ip_interface(word)
    except ValueError:
        raise BadValueError(f"{quoted(word)} is no address of IPv4 or IPv6, or no prefix") from None
    meant = interface.network
    if isinstance(interface, ipaddress.IPv6Interface) and interface.ip.ipv4_mapped is not None:
        prefix = meant.prefixlen - 96 if meant.prefixlen >= 96 else 32
        inner = ipaddress.ip_network((interface.ip.ipv4_mapped, prefix), strict=False)
        raise BadValueError(f'{quoted(word)}: write IPv4 networks as such: "{_spelled(inner)}"')
    if interface.ip != meant.network_address:
        raise BadValueError(
            f'{quoted(word)} has bits behind its prefix: write "{_spelled(meant)}", or '
            f'"{interface.ip}" for the one address'
        )
    return _spelled(meant)


def _spelled(meant: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """Return the one spelling of a network; of one with a single address, the address."""
    single = meant.prefixlen == meant.max_prefixlen
    return str(meant.network_address if single else meant)


def webhook_secret(value: object) -> str:
    """Check a secret that webhooks are signed with; no message repeats it."""
    word = text(value)
    try:
        if not word.startswith(WEBHOOK_PREFIX):
            raise ValueError
        secret = base64.b64decode(word.removeprefix(WEBHOOK_PREFIX), validate=True)
    except ValueError:
        raise BadValueError(
            f"must be {WEBHOOK_PREFIX} and base64, such as the output of: "
            f"echo {WEBHOOK_PREFIX}$(openssl rand -base64 32)"
        ) from None
    if not MIN_WEBHOOK_BYTES <= len(secret) <= MAX_WEBHOOK_BYTES:
        raise BadValueError(
            f"stands for {len(secret)} bytes; it must be {MIN_WEBHOOK_BYTES} to "
            f"{MAX_WEBHOOK_BYTES} of them"
        )
    return word


def endpoint_kind(value: object) -> str:
    """Check the name of an endpoint that a key may use."""
    word = text(value)
    if word not in ENDPOINT_KINDS:
        listed = ", ".join(f'"{kind}"' for kind in ENDPOINT_KINDS)
        hint = did_you_mean(word, ENDPOINT_KINDS)
        raise BadValueError(f"{quoted(word)} is none of {listed}{hint}")
    return word


def instant_ms(value: object) -> int:
    """Check a date and time with its offset from UTC, and return milliseconds since 1970.

    :param value: text as RFC 3339 has it, or what the TOML reader makes of it without quotes.
        Less than a millisecond is cut off.
    """
    if isinstance(value, datetime.datetime):
        moment, nanoseconds = value, 0
    else:
        short = isinstance(value, str) and len(value) <= _MAX_INSTANT_CHARS
        found = _INSTANT.fullmatch(str(value)) if short else None
        if found is None:
            raise BadValueError(f"must be a date and time with its offset from UTC{_EXAMPLE}")
        nanoseconds = int((found["fraction"] or "0").ljust(9, "0"))
        zone = "+00:00" if found["zone"] in "Zz" else found["zone"]
        try:
            moment = datetime.datetime.fromisoformat(f"{found['date']}T{found['time']}{zone}")
        except ValueError:
            raise BadValueError("is no date and time that there is") from None
    if moment.tzinfo is None:
        raise BadValueError(f"lacks its offset from UTC{_EXAMPLE}")
    milliseconds = (moment - _EPOCH) // _MILLISECOND + nanoseconds // 1_000_000
    if not 0 < milliseconds < END_MS:
        raise BadValueError("must be after 1970 and before the year 10000")
    return milliseconds


def instant(value: object) -> str:
    """Check a date and time with its offset from UTC, and return its one spelling, in UTC."""
    return rfc3339(instant_ms(value))

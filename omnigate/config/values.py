"""What a single value of the config may be: one check per kind of value, each saying what is wrong.

Every check takes what the TOML reader (or a snapshot's JSON) gave and returns the value to keep, or
raises :class:`BadValueError` with a message that fits behind a dotted path. No message repeats a
value that may hold a secret by mistake (a URL with a password, a key pasted in place of a name).
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import attrs

from omnigate import periods

#: Names go into log lines, metrics, response headers and admin paths: short and plain.
MAX_NAME_CHARS: Final = 64

#: The longest model ids in use (deployment paths of hosting providers) stay under 150 characters.
MAX_MODEL_CHARS: Final = 256

#: A host name is at most 253 characters; the path before ``/v1`` gets as much again.
MAX_URL_CHARS: Final = 512

#: The longest name of a time zone has 32 characters.
MAX_ZONE_CHARS: Final = 64

#: Linux refuses a path that is longer (PATH_MAX).
MAX_PATH_CHARS: Final = 4096

#: A day: no wait of the gateway is meant to be longer.
MAX_MS: Final = 86_400_000

#: Larger numbers than these are slips, not limits.
MAX_RPM: Final = 10_000_000
MAX_CONCURRENT: Final = 1_000_000
MAX_WEIGHT: Final = 1_000_000
MAX_OUTPUT_TOKENS: Final = 10_000_000
MAX_COOLDOWN_FAILURES: Final = 1_000

#: An hour: a target that is to rest longer is taken out of its route.
MAX_COOLDOWN_S: Final = 3_600

# A cached answer older than a month answers a question of another time.
MAX_CACHE_TTL_S: Final = 31 * 86_400

#: A million dollars per million tokens, or of budget times a thousand, is a slip of the comma.
MAX_PRICE_USD: Final = Decimal(1_000_000)
MAX_BUDGET_USD: Final = Decimal(1_000_000_000)

#: Amounts are kept in whole nano-dollars.
USD_DECIMALS: Final = 9

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9@~][A-Za-z0-9._:/@+~-]*", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+/-]*", re.ASCII)
_HEADER_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_URL = re.compile(
    r"[a-z]+://(?P<host>\[[^\]]*\]|[^:/\[]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/.*)?",
    re.ASCII | re.IGNORECASE,
)
_HOST_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)


class BadValueError(ValueError):
    """A value that cannot be used; the text says what is wrong and what to write instead."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean "…"?)`` for the closest known word, or the empty string."""
    # Longer than any that is known, and to compare a megabyte takes a tenth of a second.
    close = difflib.get_close_matches(word[:MAX_MODEL_CHARS], list(known), n=1, cutoff=0.6)
    return f' (did you mean "{close[0]}"?)' if close else ""


def quoted(word: str) -> str:
    """Return a word of the file in quotes, on one line and cut to a readable length."""
    shown = word if len(word) <= 80 else word[:77] + "..."
    return '"' + "".join(c if c.isprintable() and c != '"' else "?" for c in shown) + '"'


def text(value: object) -> str:
    """Return the value if it is a string."""
    if not isinstance(value, str):
        raise BadValueError(f"must be a string, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """Return the TOML word for the kind of a value, with its article."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, (float, Decimal)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, dict):
        return "a table"
    return "nothing" if value is None else "a date or time"


def flag(value: object) -> bool:
    """Return the value if it is ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise BadValueError(f"must be true or false, not {kind_of(value)}")
    return value


@attrs.frozen
class Whole:
    """A check for an integer within ``low`` and ``high``, both included."""

    low: int
    high: int

    def __call__(self, value: object) -> int:
        """Return the integer."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValueError(f"must be an integer, not {kind_of(value)}")
        if not self.low <= value <= self.high:
            raise BadValueError(f"must be from {self.low} to {self.high}")
        return value


def whole(low: int, high: int) -> Whole:
    """Return a check for an integer within ``low`` and ``high``, both included."""
    return Whole(low, high)


@attrs.frozen
class OneOf:
    """A check for a string out of a closed list."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> str:
        """Return the string."""
        word = text(value)
        if word not in self.words:
            listed = ", ".join(f'"{word}"' for word in self.words)
            hint = did_you_mean(word, self.words)
            raise BadValueError(f"{quoted(word)} is none of {listed}{hint}")
        return word


def one_of(*words: str) -> OneOf:
    """Return a check for a string out of a closed list."""
    return OneOf(words)


@attrs.frozen
class Usd:
    """A check for an amount of dollars from 0 to ``highest``, exact to a nano-dollar."""

    highest: Decimal

    def __call__(self, value: object) -> Decimal:
        """Return the amount."""
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise BadValueError(f"must be a number of US dollars, not {kind_of(value)}")
        if isinstance(value, int):
            # To make a decimal of a megabyte of digits holds the interpreter for half a minute.
            value = min(max(value, -1), int(self.highest) + 1)
        amount = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
        if not amount.is_finite() or not 0 <= amount <= self.highest:
            raise BadValueError(f"must be from 0 to {self.highest} US dollars")
        if amount != round(amount, USD_DECIMALS):
            raise BadValueError(f"has more than {USD_DECIMALS} decimals")
        return amount


def usd(highest: Decimal) -> Usd:
    """Return a check for an amount of dollars from 0 to ``highest``, exact to a nano-dollar."""
    return Usd(highest)


def name(value: object) -> str:
    """Check the name of a key or an upstream."""
    word = text(value)
    if len(word) > MAX_NAME_CHARS or not _NAME.fullmatch(word):
        raise BadValueError(
            f"must be 1 to {MAX_NAME_CHARS} letters, digits, dots, underscores or hyphens, "
            "starting with a letter or a digit"
        )
    return word


def model_id(value: object) -> str:
    """Check a model id that clients write (it also stands in the path of ``GET /v1/models/…``)."""
    word = text(value)
    if len(word) > MAX_MODEL_CHARS or not _MODEL.fullmatch(word):
        raise BadValueError(
            f"must be 1 to {MAX_MODEL_CHARS} characters out of letters, digits and . _ : / @ + ~ -"
        )
    return word


def model_pattern(value: object) -> str:
    """Check an entry of a key's ``models``: a model id, a prefix and ``*``, or ``*`` alone."""
    word = text(value)
    stem = word.removesuffix("*")
    if "*" in stem:
        raise BadValueError(f"{quoted(word)}: a * may only stand at the end")
    if stem:
        model_id(stem)
    elif not word:
        raise BadValueError("must not be empty")
    return word


def upstream_model(value: object) -> str:
    """Check a model id as an upstream is sent it: any printable text."""
    word = text(value)
    if not word or len(word) > MAX_MODEL_CHARS or not word.isprintable():
        raise BadValueError(f"must be 1 to {MAX_MODEL_CHARS} printable characters")
    return word


def env_name(value: object) -> str:
    """Check the name of an environment variable; a secret pasted here is never repeated."""
    word = text(value)
    if len(word) > 128 or not _ENV_NAME.fullmatch(word):
        raise BadValueError(
            "must be the name of an environment variable (letters, digits and underscores); "
            "a secret itself never stands in this file"
        )
    return word


def sha256_hex(value: object) -> str:
    """Check the SHA-256 of a key in hexadecimal and return it in lower case."""
    word = text(value)
    if not _SHA256.fullmatch(word):
        raise BadValueError(
            "must be the 64 hexadecimal digits of the key's SHA-256 "
            '(printf %s "$KEY" | sha256sum), never the key itself'
        )
    return word.lower()


def plain_sha256(value: object) -> str:
    """Check a SHA-256 in hexadecimal and return it in lower case."""
    word = text(value)
    if not _SHA256.fullmatch(word):
        raise BadValueError("must be the 64 hexadecimal digits of a SHA-256")
    return word.lower()


def header_token(value: object) -> str:
    """Check a value that goes into an ``anthropic-version`` or ``anthropic-beta`` header."""
    word = text(value)
    if len(word) > 128 or not _HEADER_TOKEN.fullmatch(word):
        raise BadValueError("must be 1 to 128 letters, digits, dots, underscores or hyphens")
    return word


def absolute_path(value: object) -> str:
    """Check the absolute path of a file."""
    word = text(value)
    if not word.startswith("/") or len(word) > MAX_PATH_CHARS or not word.isprintable():
        raise BadValueError("must be an absolute path")
    return word


def base_url(value: object) -> str:
    """Check an upstream's address: http or https, a host, a path that ends with ``/v1``."""
    word = text(value)
    path = _url_path(word, ("http", "https"))
    if not path.endswith("/v1"):
        hint = word.rstrip("/")
        if not hint.endswith("/v1"):
            hint += "/v1"
        raise BadValueError(f"must go up to and with /v1 (did you mean {quoted(hint)}?)")
    if not all(
        _PATH_SEGMENT.fullmatch(part) and part not in (".", "..") for part in path[1:].split("/")
    ):
        raise BadValueError(
            "the path before /v1 may hold letters, digits and . _ ~ - between single slashes"
        )
    return word


def service_url(value: object) -> str:
    """Check the address of a server that paths are put behind: http or https, a host, any path.

    A slash at its end is taken off.
    """
    word = text(value)
    path = _url_path(word, ("http", "https")).rstrip("/")
    if path and not all(
        _PATH_SEGMENT.fullmatch(part) and part not in (".", "..") for part in path[1:].split("/")
    ):
        raise BadValueError("the path may hold letters, digits and . _ ~ - between single slashes")
    return word.rstrip("/")


def origin_url(value: object) -> str:
    """Check an address of a scheme, a host and perhaps a port; a slash at its end is taken off."""
    word = service_url(value)
    if "/" in word.partition("://")[2]:
        raise BadValueError("has no path: write https://host, with a port if need be")
    return word


def proxy_url(value: object) -> str:
    """Check the address of a CONNECT proxy: ``http://host:port`` and nothing behind it."""
    word = text(value)
    path = _url_path(word, ("http",))
    if path not in ("", "/"):
        raise BadValueError("a proxy's address has no path: write http://host:port")
    return word.rstrip("/")


def _url_path(word: str, schemes: tuple[str, ...]) -> str:
    """Judge scheme, host and port of an address and return its path."""
    allowed = " or ".join(f"{scheme}://" for scheme in schemes)
    if len(word) > MAX_URL_CHARS:
        raise BadValueError(f"must be at most {MAX_URL_CHARS} characters")
    if not any(word.lower().startswith(f"{scheme}://") for scheme in schemes):
        raise BadValueError(f"must start with {allowed}")
    if "@" in word:
        raise BadValueError("must hold no user name or password")
    if "?" in word or "#" in word:
        raise BadValueError("must hold no query and no fragment")
    found = _URL.fullmatch(word)
    if found is None or not _is_host(found["host"]):
        raise BadValueError(
            f"must be {allowed}, a host name in ASCII or an address, a port if need be, and a path"
        )
    if found["port"] is not None and not 1 <= int(found["port"]) <= 65535:
        raise BadValueError("the port must be from 1 to 65535")
    return found["path"] or ""


def _is_host(host: str) -> bool:
    """Judge a host: a name of plain labels, an IPv4 address, or an IPv6 address in brackets."""
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return False
        return "%" not in host
    labels = host.split(".")
    if labels[-1].isdigit():  # no top-level domain is a number, so this must be an address
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
        return True
    return len(host) <= 253 and all(_HOST_LABEL.fullmatch(label) for label in labels)


def budget(value: object) -> Decimal:
    """Check a budget in US dollars: more than nothing."""
    amount = usd(MAX_BUDGET_USD)(value)
    if not amount:
        raise BadValueError("must be more than 0; leave it out for a key without a budget")
    return amount


def time_zone(value: object) -> str:
    """Check the name of a time zone, which the machine's zone files must have."""
    word = text(value)
    if len(word) > MAX_ZONE_CHARS or not _ZONE.fullmatch(word):
        raise BadValueError('must be the name of a time zone, such as "Europe/Stockholm" or "UTC"')
    try:
        periods.time_zone(word)
    except periods.UnknownZoneError as error:
        raise BadValueError(str(error)) from None
    return word

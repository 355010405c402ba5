"""The table of settings: every variable of both planes, with its bounds and its meaning.

A row says what may be written and what it means. :mod:`omnigate.settings` reads the rows; the
page on configuration is checked against them.
"""

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import attrs

from omnigate.client_address import AddressFaultError, TrustedProxies

# Shorter tokens can be guessed: 16 characters of base64 are 96 bits.
MIN_SECRET_CHARS = 16

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_DIGITS = re.compile(r"[0-9]{1,18}")
_ENDPOINT = re.compile(r"[a-z][a-z0-9]*:.+")
_HOST = re.compile(r"[A-Za-z0-9._\-:%]+")


class BadValueError(Exception):
    """One value is wrong: what it is not, and the remedy."""


@attrs.frozen
class Setting:
    """One row of the table.

    :ivar name: the environment variable.
    :ivar planes: which daemons read it: ``"data"``, ``"control"``.
    :ivar field: the attribute of the settings record.
    :ivar default: as it would be written; ``None`` where one must be given.
    :ivar meaning: one sentence for the page on configuration.
    :ivar option: the option of the ``twistd`` subcommand that wins over it, without dashes.
    :ivar secret: whether it may come from a file, and is never shown.
    :ivar parse: reads the text, or raises what is wrong with it.
    """

    name: str
    planes: tuple[str, ...]
    field: str
    default: str | None
    meaning: str
    parse: Callable[[str], Any] = attrs.field(repr=False)
    option: str | None = None
    secret: bool = False


def _integer(unit: str, least: int, most: int, zero: bool = False) -> Callable[[str], int]:
    """Return a reader of whole numbers between two bounds; ``zero`` lets 0 in beside them."""
    wanted = f"give {unit} from {least} to {most}" + (", or 0 to switch it off" if zero else "")

    def parse(text: str) -> int:
        if not _DIGITS.fullmatch(text):
            raise BadValueError(f"is no whole number; {wanted}")
        number = int(text)
        if not (least <= number <= most or (zero and number == 0)):
            raise BadValueError(f"is out of range; {wanted}")
        return number

    return parse


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise BadValueError("is neither 0 nor 1; give 1 to switch it on, 0 to switch it off")
    return text == "1"


def path(text: str) -> str:
    """Judge a file or a folder; made absolute once the state folder is known."""
    if "\0" in text:
        raise BadValueError("holds a zero byte; give a file path")
    return text


def _log_path(text: str) -> str:
    return text if text in ("-", "off") else os.path.abspath(path(text))


def _endpoint(text: str) -> str:
    """Judge a listener as far as it can be judged without opening it."""
    if not _ENDPOINT.fullmatch(text):
        raise BadValueError(
            "is no Twisted endpoint string; write it like tcp:8080 or tcp:8080:interface=127.0.0.1"
        )
    kind, _, rest = text.partition(":")
    port = rest.partition(":")[0].removeprefix("port=")
    if kind == "https" and port == "systemd":
        return text
    if kind in ("tcp", "tcp6", "ssl", "https") and not (
        _DIGITS.fullmatch(port) and int(port) < 65536
    ):
        raise BadValueError(f"has no port from 0 to 65535; write it like {kind}:8080")
    return text


def _endpoint_or_off(text: str) -> str:
    """Judge a listener that may be absent; ``off`` becomes the empty text."""
    return "" if text == "off" else _endpoint(text)


def _url(text: str) -> str:
    remedy = "give an address like http://127.0.0.1:8081"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadValueError(f"is no URL; {remedy}") from None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.hostname or ""):
        raise BadValueError(f"is no http or https URL; {remedy}")
    if parts.query or parts.fragment or "@" in parts.netloc or port == 0:
        raise BadValueError(f"may hold a scheme, a host, a port and a path only; {remedy}")
    if not _VISIBLE.fullmatch(text):
        raise BadValueError(f"holds a space or a character beyond ASCII; {remedy}")
    return text.rstrip("/")


def _trusted_proxies(text: str) -> TrustedProxies:
    """Judge who is believed about the address of a client; ``off`` is nobody."""
    try:
        return TrustedProxies.parse("" if text == "off" else text)
    except AddressFaultError as fault:
        raise BadValueError(f"cannot be used: {fault}") from None


def _token(text: str) -> str:
    """Judge a token between the planes, or of an operator; messages never quote it."""
    if len(text) < MIN_SECRET_CHARS:
        raise BadValueError(
            f"is shorter than {MIN_SECRET_CHARS} characters; make one with: openssl rand -hex 32"
        )
    return credential(text)


def credential(text: str) -> str:
    """Return a credential that a header can carry; messages never quote it."""
    if not _VISIBLE.fullmatch(text):
        raise BadValueError(
            "holds a space, a line end or a character beyond ASCII, which no header can carry; "
            "give the bare token"
        )
    return text


_DATA = ("data",)
_CONTROL = ("control",)
_BOTH = ("data", "control")

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "OMNIGATE_DATA_LISTEN",
        _DATA,
        "listen",
        "tcp:8080",
        "Where the data plane listens for applications: a Twisted endpoint string.",
        _endpoint,
        option="listen",
    ),
    Setting(
        "OMNIGATE_DATA_METRICS_LISTEN",
        _DATA,
        "metrics_listen",
        "off",
        "Where the data plane answers GET /metrics, privately: a Twisted endpoint string, or off.",
        _endpoint_or_off,
    ),
    Setting(
        "OMNIGATE_CONTROL_LISTEN",
        _CONTROL,
        "listen",
        "tcp:8081:interface=127.0.0.1",
        "Where the control plane listens for operators and data planes: a Twisted endpoint string.",
        _endpoint,
        option="listen",
    ),
    Setting(
        "OMNIGATE_WORKERS",
        _DATA,
        "workers",
        "1",
        "How many processes serve the data plane's port: one for each core that it may use.",
        _integer("a number", 1, 64),
        option="workers",
    ),
    Setting(
        "OMNIGATE_CONTROL_URL",
        _DATA,
        "control_url",
        "http://127.0.0.1:8081",
        "Where the data plane finds the control plane.",
        _url,
        option="control-url",
    ),
    Setting(
        "OMNIGATE_DATA_URL",
        _CONTROL,
        "data_url",
        "http://127.0.0.1:8080",
        "Where the dashboard finds the data plane, to try requests.",
        _url,
    ),
    Setting(
        "OMNIGATE_CONFIG",
        _CONTROL,
        "config",
        "/etc/omnigate/omnigate.toml",
        "The config file.",
        path,
        option="config",
    ),
    Setting(
        "OMNIGATE_STATE_DIR",
        _BOTH,
        "state_dir",
        "/var/lib/omnigate",
        "The folder of the files that a plane keeps; systemd's STATE_DIRECTORY where absent.",
        path,
        option="state-dir",
    ),
    Setting(
        "OMNIGATE_TRUSTED_PROXIES",
        _BOTH,
        "trusted_proxies",
        "off",
        "Whose X-Forwarded-For is believed: addresses, networks and unix, with commas, or off.",
        _trusted_proxies,
        option="trusted-proxies",
    ),
    Setting(
        "OMNIGATE_INTERNAL_TOKEN",
        _BOTH,
        "internal_token",
        None,
        "The secret that data planes show the control plane; the same on both.",
        _token,
        secret=True,
    ),
    Setting(
        "OMNIGATE_ADMIN_TOKEN",
        _CONTROL,
        "admin_token",
        None,
        "The secret that operators show the admin API.",
        _token,
        secret=True,
    ),
    Setting(
        "OMNIGATE_SPOOL",
        _DATA,
        "spool",
        "{state_dir}/omnigate-usage.spool",
        "The file of usage events that the control plane has not acknowledged yet.",
        path,
    ),
    Setting(
        "OMNIGATE_CONFIG_CACHE",
        _DATA,
        "config_cache",
        "{state_dir}/omnigate-config.cache.json",
        "The copy of the last config, to start from while the control plane is away.",
        path,
    ),
    Setting(
        "OMNIGATE_LEDGER",
        _CONTROL,
        "ledger",
        "{state_dir}/ledger.jsonl",
        "The ledger's active segment.",
        path,
    ),
    Setting(
        "OMNIGATE_KEYS",
        _CONTROL,
        "keys",
        "{state_dir}/keys.json",
        "The file of managed keys; it holds their hashes, never a key.",
        path,
    ),
    Setting(
        "OMNIGATE_ADMIN_KEYS",
        _CONTROL,
        "admin_keys",
        "{state_dir}/admin_keys.json",
        "The file of admin keys; it holds their hashes, never a key.",
        path,
    ),
    Setting(
        "OMNIGATE_CONFIG_HISTORY",
        _CONTROL,
        "config_history",
        "{state_dir}/config_history.json",
        "The configs that were in force, without secrets: when, by whom, and what was new.",
        path,
    ),
    Setting(
        "OMNIGATE_AUDIT",
        _CONTROL,
        "audit",
        "{state_dir}/audit.jsonl",
        "The audit log: who changed what, a line for each change.",
        path,
    ),
    Setting(
        "OMNIGATE_AUDIT_MAX_MB",
        _CONTROL,
        "audit_max_mb",
        "50",
        "How long the audit log may become before it is renamed; three older ones are kept.",
        _integer("megabytes", 1, 65_536),
    ),
    Setting(
        "OMNIGATE_JOBS",
        _CONTROL,
        "jobs",
        "{state_dir}/jobs.jsonl",
        "The log of media jobs; long inputs lie in the folder beside it that ends with .inputs.",
        path,
    ),
    Setting(
        "OMNIGATE_RECEIPTS",
        _CONTROL,
        "receipts",
        "{state_dir}/receipts.json",
        "What attested upstreams signed of their answers, and whether it fits.",
        path,
    ),
    Setting(
        "OMNIGATE_MEDIA_DIR",
        _CONTROL,
        "media_dir",
        "{state_dir}/media",
        "The folder of the outputs of media jobs, and of what is being downloaded.",
        path,
    ),
    Setting(
        "OMNIGATE_POLL_MS",
        _DATA,
        "poll_ms",
        "2000",
        "How often the config is fetched from the control plane.",
        _integer("milliseconds", 50, _HOUR_MS),
    ),
    Setting(
        "OMNIGATE_FLUSH_MS",
        _DATA,
        "flush_ms",
        "1000",
        "How often usage and refusal counts are sent to the control plane.",
        _integer("milliseconds", 10, _HOUR_MS),
    ),
    Setting(
        "OMNIGATE_MAX_CONNECTIONS",
        _DATA,
        "max_connections",
        "10000",
        "Client connections open at once; one more is answered 503 and closed.",
        _integer("a number", 1, 1_000_000),
    ),
    Setting(
        "OMNIGATE_CLIENT_TIMEOUT_MS",
        _DATA,
        "client_timeout_ms",
        "30000",
        "How long a client may take to deliver a whole request.",
        _integer("milliseconds", 100, _HOUR_MS),
    ),
    Setting(
        "OMNIGATE_CLIENT_STALL_TIMEOUT_MS",
        _DATA,
        "client_stall_timeout_ms",
        "30000",
        "How long a client may take nothing of its answer before its connection is closed.",
        _integer("milliseconds", 100, _HOUR_MS),
    ),
    Setting(
        "OMNIGATE_STREAM_IDLE_TIMEOUT_MS",
        _DATA,
        "stream_idle_timeout_ms",
        "300000",
        "How long an upstream may be silent within its answer.",
        _integer("milliseconds", 100, _DAY_MS),
    ),
    Setting(
        "OMNIGATE_ABORT_DRAIN_MS",
        _DATA,
        "abort_drain_ms",
        "120000",
        "How long an answer is read on for its usage after its client left.",
        _integer("milliseconds", 1, _HOUR_MS, zero=True),
    ),
    Setting(
        "OMNIGATE_ABORT_DRAIN_MAX_MB",
        _DATA,
        "abort_drain_max_mb",
        "64",
        "How much of an answer is read on for its usage after its client left.",
        _integer("megabytes", 1, 65_536, zero=True),
    ),
    Setting(
        "OMNIGATE_MAX_CONCURRENT_PER_KEY",
        _DATA,
        "max_concurrent_per_key",
        "512",
        "Requests of one key in flight at once, where the key has no number of its own.",
        _integer("a number", 1, 1_000_000),
    ),
    Setting(
        "OMNIGATE_REQUEST_MEMORY_MB",
        _DATA,
        "request_memory_mb",
        "1024",
        "Memory for request bodies, each counted twice; one key may hold a quarter of it.",
        _integer("megabytes", 1, 1_048_576),
    ),
    Setting(
        "OMNIGATE_PARSE_MEMORY_MB",
        _DATA,
        "parse_memory_mb",
        "1024",
        "Memory for requests that must be taken apart; one key may hold half of it.",
        _integer("megabytes", 1, 1_048_576),
    ),
    Setting(
        "OMNIGATE_MAX_REQUEST_MB",
        _DATA,
        "max_request_mb",
        "8",
        "The largest request body.",
        _integer("megabytes", 1, 64),
    ),
    Setting(
        "OMNIGATE_HEARTBEAT_MS",
        _DATA,
        "heartbeat_ms",
        "15000",
        "After how much silence within a stream a comment or a ping keeps proxies from cutting it.",
        _integer("milliseconds", 100, _HOUR_MS, zero=True),
    ),
    Setting(
        "OMNIGATE_DEBUG_HEADERS",
        _DATA,
        "debug_headers",
        "1",
        "Whether answers name the upstream and the number of attempts.",
        _switch,
    ),
    Setting(
        "OMNIGATE_SHUTDOWN_GRACE_MS",
        _DATA,
        "shutdown_grace_ms",
        "30000",
        "How long requests in flight may take to finish at a stop.",
        _integer("milliseconds", 1, _HOUR_MS, zero=True),
    ),
    Setting(
        "OMNIGATE_ACCESS_LOG",
        _DATA,
        "access_log",
        "-",
        "Where a line for each request goes: a path, - for standard output, or off.",
        _log_path,
    ),
)
"""Every setting of both planes, in the order of the page on configuration."""

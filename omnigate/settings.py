"""What the operator set: environment and options in, a frozen record of settings out.

Every setting is one row of a table, with its variable, default, bounds and meaning; the page on
configuration is checked against the same rows. An option of the ``twistd`` subcommand wins over
the variable. A secret is never an option; it may stand in a file instead, named by ``X_FILE``, or
found under its lower-case name in the folder of systemd's ``LoadCredential=``. All faults are
reported at once, one line each, and no line holds a secret.

Variables that are empty count as absent, since that is how an environment file leaves one out.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs

from omnigate.text import one_line

PREFIX = "OMNIGATE_"

# Variables whose names operators choose themselves: ``key_env = "OMNIGATE_KEY_APP"``.
FREE_PREFIX = "OMNIGATE_KEY_"

# Shorter tokens can be guessed: 16 characters of base64 are 96 bits.
MIN_SECRET_CHARS = 16

# A credential is one line. The bound keeps a mistaken path (a log, a device) from filling memory.
MAX_SECRET_BYTES = 16 * 1024

# How much of a bad value a message quotes.
_QUOTED_CHARS = 60

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_DIGITS = re.compile(r"[0-9]{1,18}")
_ENDPOINT = re.compile(r"[a-z][a-z0-9]*:.+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[A-Za-z0-9._\-:%]+")


class SettingsError(Exception):
    """The settings have faults; ``faults`` holds them all, and the text is one line for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class _FaultError(Exception):
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
            raise _FaultError(f"is no whole number; {wanted}")
        number = int(text)
        if not (least <= number <= most or (zero and number == 0)):
            raise _FaultError(f"is out of range; {wanted}")
        return number

    return parse


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise _FaultError("is neither 0 nor 1; give 1 to switch it on, 0 to switch it off")
    return text == "1"


def _path(text: str) -> str:
    if "\0" in text:
        raise _FaultError("holds a zero byte; give a file path")
    return text


def _endpoint(text: str) -> str:
    """Judge a listener as far as it can be judged without opening it."""
    if not _ENDPOINT.fullmatch(text):
        raise _FaultError(
            "is no Twisted endpoint string; write it like tcp:8080 or tcp:8080:interface=127.0.0.1"
        )
    kind, _, rest = text.partition(":")
    port = rest.partition(":")[0].removeprefix("port=")
    if kind in ("tcp", "tcp6", "ssl") and not (_DIGITS.fullmatch(port) and int(port) < 65536):
        raise _FaultError(f"has no port from 0 to 65535; write it like {kind}:8080")
    return text


def _url(text: str) -> str:
    remedy = "give an address like http://127.0.0.1:8081"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _FaultError(f"is no URL; {remedy}") from None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.hostname or ""):
        raise _FaultError(f"is no http or https URL; {remedy}")
    if parts.query or parts.fragment or "@" in parts.netloc or port == 0:
        raise _FaultError(f"may hold a scheme, a host, a port and a path only; {remedy}")
    if not _VISIBLE.fullmatch(text):
        raise _FaultError(f"holds a space or a character beyond ASCII; {remedy}")
    return text.rstrip("/")


def _token(text: str) -> str:
    """Judge a token between the planes, or of an operator; messages never quote it."""
    if len(text) < MIN_SECRET_CHARS:
        raise _FaultError(
            f"is shorter than {MIN_SECRET_CHARS} characters; make one with: openssl rand -hex 32"
        )
    return _credential(text)


def _credential(text: str) -> str:
    if not _VISIBLE.fullmatch(text):
        raise _FaultError(
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
        "OMNIGATE_CONTROL_LISTEN",
        _CONTROL,
        "listen",
        "tcp:8081:interface=127.0.0.1",
        "Where the control plane listens for operators and data planes: a Twisted endpoint string.",
        _endpoint,
        option="listen",
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
        "OMNIGATE_CONFIG",
        _CONTROL,
        "config",
        "/etc/omnigate/omnigate.toml",
        "The config file.",
        _path,
        option="config",
    ),
    Setting(
        "OMNIGATE_STATE_DIR",
        _BOTH,
        "state_dir",
        "/var/lib/omnigate",
        "The folder of the files that a plane keeps; systemd's STATE_DIRECTORY where absent.",
        _path,
        option="state-dir",
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
        _path,
    ),
    Setting(
        "OMNIGATE_CONFIG_CACHE",
        _DATA,
        "config_cache",
        "{state_dir}/omnigate-config.cache.json",
        "The copy of the last config, to start from while the control plane is away.",
        _path,
    ),
    Setting(
        "OMNIGATE_LEDGER",
        _CONTROL,
        "ledger",
        "{state_dir}/ledger.jsonl",
        "The ledger's active segment.",
        _path,
    ),
    Setting(
        "OMNIGATE_KEYS",
        _CONTROL,
        "keys",
        "{state_dir}/keys.json",
        "The file of managed keys; it holds their hashes, never a key.",
        _path,
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
        _path,
    ),
)
"""Every setting of both planes, in the order of the page on configuration."""

LATER_SETTINGS: tuple[str, ...] = (
    "OMNIGATE_AUDIT",
    "OMNIGATE_AUDIT_MAX_MB",
    "OMNIGATE_JOBS",
    "OMNIGATE_MEDIA_DIR",
    "OMNIGATE_PARSE_MEMORY_MB",
    "OMNIGATE_RECEIPTS",
)
"""Names that are kept for parts which this version does not have; set, they change nothing."""


@attrs.frozen(kw_only=True)
class DataSettings:
    """The settings of the data plane; see :data:`SETTINGS` for each one's meaning."""

    listen: str
    control_url: str
    state_dir: str
    internal_token: str = attrs.field(repr=False)
    spool: str
    config_cache: str
    poll_ms: int
    flush_ms: int
    max_connections: int
    client_timeout_ms: int
    client_stall_timeout_ms: int
    stream_idle_timeout_ms: int
    abort_drain_ms: int
    abort_drain_max_mb: int
    max_concurrent_per_key: int
    request_memory_mb: int
    max_request_mb: int
    heartbeat_ms: int
    debug_headers: bool
    shutdown_grace_ms: int
    access_log: str


@attrs.frozen(kw_only=True)
class ControlSettings:
    """The settings of the control plane; see :data:`SETTINGS` for each one's meaning."""

    listen: str
    config: str
    state_dir: str
    internal_token: str = attrs.field(repr=False)
    admin_token: str = attrs.field(repr=False)
    ledger: str
    keys: str


def read_data_settings(
    environ: Mapping[str, str], options: Mapping[str, str | None] | None = None
) -> tuple[DataSettings, list[str]]:
    """Return the data plane's settings, and warnings about what was set in vain.

    :param options: options of the subcommand by name (``listen``, ``control-url``,
        ``state-dir``); ``None`` as a value is an option that was not given.
    :raises SettingsError: with every fault.
    """
    values, faults = _read("data", environ, options or {})
    if faults:
        raise SettingsError(faults)
    settings = DataSettings(**values)
    return settings, _unknown_names(environ) + _memory_warnings(settings)


def read_control_settings(
    environ: Mapping[str, str], options: Mapping[str, str | None] | None = None
) -> tuple[ControlSettings, list[str]]:
    """Return the control plane's settings, and warnings about what was set in vain.

    :param options: options of the subcommand by name (``listen``, ``config``, ``state-dir``);
        ``None`` as a value is an option that was not given.
    :raises SettingsError: with every fault.
    """
    values, faults = _read("control", environ, options or {})
    tokens = (values.get("admin_token"), values.get("internal_token"))
    if tokens[0] is not None and tokens[0] == tokens[1]:
        faults.append(
            "OMNIGATE_ADMIN_TOKEN: is the same as OMNIGATE_INTERNAL_TOKEN; operators and data "
            "planes need secrets of their own"
        )
    if faults:
        raise SettingsError(faults)
    return ControlSettings(**values), _unknown_names(environ)


def provider_key(environ: Mapping[str, str], name: str) -> str | None:
    """Return the credential that a config names (``api_key_env``, ``key_env``).

    It stands in the variable ``name``, in the file that ``name_FILE`` names, or under the
    lower-case name in ``$CREDENTIALS_DIRECTORY``.

    :returns: ``None`` where it stands in none of them.
    :raises SettingsError: it cannot be read, or could not be sent in a header.
    """
    try:
        text, source = _secret_text(environ, name)
        return None if text is None else _judged(source, text, _credential, secret=True)
    except _FaultError as fault:
        raise SettingsError([str(fault)]) from None


def _read(
    plane: str, environ: Mapping[str, str], options: Mapping[str, str | None]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of one plane by field, and every fault."""
    values: dict[str, Any] = {}
    faults: list[str] = []
    given = {name.replace("_", "-"): value for name, value in options.items()}
    for setting in SETTINGS:
        if plane not in setting.planes:
            continue
        try:
            text, source = _text_of(setting, environ, given)
            if text is None:
                raise _FaultError(
                    f"{setting.name}: is not set; give it a secret of at least "
                    f"{MIN_SECRET_CHARS} characters, or {setting.name}_FILE the path of one"
                )
            values[setting.field] = _judged(source, text, setting.parse, setting.secret)
        except _FaultError as fault:
            faults.append(str(fault))
    state_dir = values.get("state_dir", "")
    for field, value in values.items():
        if isinstance(value, str) and value.startswith("{state_dir}"):
            values[field] = os.path.join(state_dir, value.partition("/")[2])
    return values, faults


def _text_of(
    setting: Setting, environ: Mapping[str, str], options: Mapping[str, str | None]
) -> tuple[str | None, str]:
    """Return a setting's text and where it was found; ``None`` where one is missing."""
    if setting.option is not None:
        option = options.get(setting.option)
        if option:
            return option, f"--{setting.option}"
    if setting.secret:
        return _secret_text(environ, setting.name)
    text = environ.get(setting.name, "")
    if not text and setting.field == "state_dir":
        # systemd gives a list where the unit names several folders; the first is ours.
        text = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return text or setting.default, setting.name


def _judged(source: str, text: str, parse: Callable[[str], Any], secret: bool) -> Any:
    """Return what ``text`` means; a fault is told with its place and, unless secret, the value."""
    try:
        return parse(text)
    except _FaultError as fault:
        shown = "" if secret else f'"{one_line(text, _QUOTED_CHARS)}" '
        raise _FaultError(f"{source}: {shown}{fault}") from None


def _secret_text(environ: Mapping[str, str], name: str) -> tuple[str | None, str]:
    """Return a secret and where it was found."""
    text = environ.get(name, "")
    path = environ.get(f"{name}_FILE", "")
    if text and path:
        raise _FaultError(f"{name}: is given twice; set {name} or {name}_FILE, not both")
    if text:
        return text, name
    if path:
        return _file_text(f"{name}_FILE", path), f"{name}_FILE"
    folder = environ.get("CREDENTIALS_DIRECTORY", "")
    if folder and _VARIABLE.fullmatch(name):
        path = os.path.join(folder, name.lower())
        if os.path.exists(path):
            return _file_text(name, path), name
    return None, name


def _file_text(source: str, path: str) -> str:
    """Return a secret file's content without its one closing line end."""
    shown = one_line(path, _QUOTED_CHARS)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = one_line(getattr(error, "strerror", None) or str(error), _QUOTED_CHARS)
        raise _FaultError(
            f'{source}: "{shown}" cannot be read ({reason}); name a file this process may read'
        ) from None
    if len(data) > MAX_SECRET_BYTES:
        raise _FaultError(
            f'{source}: "{shown}" holds more than {MAX_SECRET_BYTES} bytes; name the file that '
            "holds the bare secret"
        )
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


def _unknown_names(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable of ours that nothing reads."""
    known = [setting.name for setting in SETTINGS] + list(LATER_SETTINGS)
    files = [f"{setting.name}_FILE" for setting in SETTINGS if setting.secret]
    warnings = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.startswith(FREE_PREFIX):
            continue
        if name in known or name in files:
            continue
        near = difflib.get_close_matches(name[:100], known + files, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else "it changes nothing"
        warnings.append(f"{one_line(name, 100)}: there is no such setting; {hint}")
    return warnings


def _memory_warnings(settings: DataSettings) -> list[str]:
    """Warn where one request of the largest size could never be admitted."""
    needed = 8 * settings.max_request_mb
    if settings.request_memory_mb >= needed:
        return []
    return [
        f"OMNIGATE_REQUEST_MEMORY_MB: with {settings.request_memory_mb} no key can send a body of "
        f"OMNIGATE_MAX_REQUEST_MB={settings.max_request_mb}, since a body counts twice and a key "
        f"may hold a quarter; give at least {needed}"
    ]

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

import attrs

from omnigate.client_address import TrustedProxies
from omnigate.settings_table import (
    MIN_SECRET_CHARS,
    SETTINGS,
    BadValueError,
    Setting,
    credential,
    path,
)
from omnigate.text import one_line

PREFIX = "OMNIGATE_"

# Variables whose names operators choose themselves: ``key_env = "OMNIGATE_KEY_APP"``.
FREE_PREFIX = "OMNIGATE_KEY_"

# A credential is one line. The bound keeps a mistaken path (a log, a device) from filling memory.
MAX_SECRET_BYTES = 16 * 1024

# How much of a bad value a message quotes.
_QUOTED_CHARS = 60

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SettingsError(Exception):
    """The settings have faults; ``faults`` holds them all, and the text is one line for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@attrs.frozen(kw_only=True)
class DataSettings:
    """The settings of the data plane; see :data:`SETTINGS` for each one's meaning."""

    listen: str
    metrics_listen: str
    workers: int
    control_url: str
    state_dir: str
    trusted_proxies: TrustedProxies
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
    parse_memory_mb: int
    max_request_mb: int
    heartbeat_ms: int
    debug_headers: bool
    shutdown_grace_ms: int
    access_log: str


@attrs.frozen(kw_only=True)
class ControlSettings:
    """The settings of the control plane; see :data:`SETTINGS` for each one's meaning."""

    listen: str
    data_url: str
    config: str
    state_dir: str
    trusted_proxies: TrustedProxies
    internal_token: str = attrs.field(repr=False)
    admin_token: str = attrs.field(repr=False)
    ledger: str
    keys: str
    admin_keys: str
    config_history: str
    audit: str
    audit_max_mb: int
    jobs: str
    media_dir: str
    receipts: str


def read_data_settings(
    environ: Mapping[str, str], options: Mapping[str, str | None] | None = None
) -> tuple[DataSettings, list[str]]:
    """Return the data plane's settings, and warnings about what was set in vain.

    :param options: options of the subcommand by name (``listen``, ``workers``, ``control-url``,
        ``state-dir``, ``trusted-proxies``); ``None`` as a value is an option that was not given.
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

    :param options: options of the subcommand by name (``listen``, ``config``, ``state-dir``,
        ``trusted-proxies``); ``None`` as a value is an option that was not given.
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


def ledger_path(environ: Mapping[str, str]) -> str:
    """Return where the ledger's active segment is, as the control plane would find it.

    Nothing else that a control plane needs has to be set.
    """
    texts = {
        setting.field: _text_of(setting, environ, {})[0] or ""
        for setting in SETTINGS
        if setting.field in ("state_dir", "ledger")
    }
    return os.path.abspath(texts["ledger"].replace("{state_dir}", texts["state_dir"], 1))


def provider_key(environ: Mapping[str, str], name: str) -> str | None:
    """Return the credential that a config names (``api_key_env``, ``key_env``).

    It stands in the variable ``name``, in the file that ``name_FILE`` names, or under the
    lower-case name in ``$CREDENTIALS_DIRECTORY``.

    :returns: ``None`` where it stands in none of them.
    :raises SettingsError: it cannot be read, or could not be sent in a header.
    """
    try:
        text, source = _secret_text(environ, name)
        return None if text is None else _judged(source, text, credential, secret=True)
    except BadValueError as fault:
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
                raise BadValueError(
                    f"{setting.name}: is not set; give it a secret of at least "
                    f"{MIN_SECRET_CHARS} characters, or {setting.name}_FILE the path of one"
                )
            values[setting.field] = _judged(source, text, setting.parse, setting.secret)
        except BadValueError as fault:
            faults.append(str(fault))
    state_dir = values.get("state_dir", "")
    for setting in SETTINGS:
        if setting.parse is path and setting.field in values:
            # Absolute from here on: twistd may change the folder later (--rundir).
            text = values[setting.field].replace("{state_dir}", state_dir, 1)
            values[setting.field] = os.path.abspath(text)
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
    except BadValueError as fault:
        shown = "" if secret else f'"{one_line(text, _QUOTED_CHARS)}" '
        raise BadValueError(f"{source}: {shown}{fault}") from None


def _secret_text(environ: Mapping[str, str], name: str) -> tuple[str | None, str]:
    """Return a secret and where it was found."""
    text = environ.get(name, "")
    path = environ.get(f"{name}_FILE", "")
    if text and path:
        raise BadValueError(f"{name}: is given twice; set {name} or {name}_FILE, not both")
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
        raise BadValueError(
            f'{source}: "{shown}" cannot be read ({reason}); name a file this process may read'
        ) from None
    if len(data) > MAX_SECRET_BYTES:
        raise BadValueError(
            f'{source}: "{shown}" holds more than {MAX_SECRET_BYTES} bytes; name the file that '
            "holds the bare secret"
        )
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


def _unknown_names(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable of ours that nothing reads."""
    known = [setting.name for setting in SETTINGS]
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

"""What ``omnigate doctor`` finds out before it judges: answers of both planes, disks, hosts.

Every question is asked once, with a short time to answer, and a plane that is down is a fact like
any other.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from omnigate.admin_client import DEFAULT_URL, connection_to, cut_off, shown_url
from omnigate.commands.doctor_media import NamedSecret, media_routes, named_secrets
from omnigate.commands.plane_environ import PlaneEnvirons, control_url, url_of
from omnigate.config.schema import MAX_CONFIG_BYTES, ConfigError, load_config
from omnigate.config.values import BadValueError, env_name
from omnigate.settings import SettingsError, provider_key
from omnigate.text import one_line

#: Planes answer within milliseconds, a loaded one within a second.
ANSWER_SECONDS: Final = 4.0
#: A connection across an ocean takes 0.3 seconds, and one lost packet another second.
CONNECT_SECONDS: Final = 3.0
#: A scrape of a plane with thousands of routes has some megabytes.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
#: So many hosts are tried, all at once, so that it takes no longer than one.
MAX_HOSTS: Final = 64

DEFAULT_DATA_URL: Final = "http://127.0.0.1:8080"


@attrs.frozen
class Answer:
    """What was answered, or why nothing was.

    :ivar error: why there is no answer; None where there is one.
    :ivar skew: by how many seconds the clock there is ahead of ours, by the ``date`` it sent.
    """

    status: int = 0
    text: str = ""
    error: str | None = None
    skew: float | None = None

    def json(self) -> Any:
        """The JSON of the answer; None where it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


@attrs.frozen
class Disk:
    """The folder that a plane keeps its state in; nothing is known of one that is elsewhere."""

    plane: str
    path: str
    there: bool
    free_bytes: int = 0
    total_bytes: int = 0


@attrs.frozen
class UpstreamFact:
    """What is known of one upstream of the config.

    :ivar held: whether its credential is in the data plane's environment as it is known here; None
        where it needs none.
    :ivar credential_fault: what is wrong with it where it stands.
    :ivar connect_fault: why its host cannot be reached from here; None where it can, or was not
        tried.
    """

    name: str
    address: str
    variable: str | None = None
    held: bool | None = None
    credential_fault: str | None = None
    connect_fault: str | None = None


@attrs.frozen
class Config:
    """What is known of the config: from the control plane, or else from its file.

    :ivar faults: of the file, each with its place.
    :ivar media: the secrets that media jobs need.
    """

    source: str
    in_force: bool
    faults: tuple[str, ...] = ()
    routes: int = 0
    upstreams: tuple[UpstreamFact, ...] = ()
    media: tuple[NamedSecret, ...] = ()


@attrs.frozen(kw_only=True)
class Facts:
    """All that was found.

    :ivar admin: the answer to a call with the admin token; None where there is no token.
    :ivar internal: the answer to a call with the data plane's internal token.
    :ivar data_settings: whether anything of the data plane's environment is known here.
    :ivar control_settings: the same of the control plane's.
    """

    folder: str | None = None
    folder_faults: tuple[str, ...] = ()
    control_url: str = DEFAULT_URL
    control_live: Answer = Answer()
    control_ready: Answer = Answer()
    admin: Answer | None = None
    admin_fault: str | None = None
    internal: Answer | None = None
    internal_fault: str | None = None
    tokens_differ: bool = False
    control_metrics: Mapping[str, float] | None = None
    data_url: str = DEFAULT_DATA_URL
    data_live: Answer = Answer()
    data_ready: Answer = Answer()
    metrics_url: str | None = None
    data_metrics: Mapping[str, float] | None = None
    metrics_fault: str | None = None
    data_settings: bool = False
    control_settings: bool = False
    config: Config | None = None
    disks: tuple[Disk, ...] = ()
    now: float = 0.0


def gather(environs: PlaneEnvirons, data_url: str | None) -> Facts:
    """Ask everything that there is to ask."""
    control = control_url(environs, DEFAULT_URL).rstrip("/")
    data = data_url or url_of(environs.data.get("OMNIGATE_DATA_LISTEN", "")) or DEFAULT_DATA_URL
    admin_token, admin_fault = _secret(environs.control, "OMNIGATE_ADMIN_TOKEN")
    internal_token, internal_fault = _secret(environs.data, "OMNIGATE_INTERNAL_TOKEN")
    other_token, _ = _secret(environs.control, "OMNIGATE_INTERNAL_TOKEN")
    admin = scrape = internal = None
    live = fetch(f"{control}/livez")
    if live.error is None and admin_token:
        bearer = {"authorization": f"Bearer {admin_token}"}
        admin = fetch(f"{control}/admin/config", bearer)
        if admin.status == 200:
            scrape = fetch(f"{control}/metrics", bearer)
    if live.error is None and internal_token:
        internal = fetch(f"{control}/internal/config", {"x-omnigate-internal": internal_token})
    metrics_listen = environs.data.get("OMNIGATE_DATA_METRICS_LISTEN", "")
    metrics_url = url_of(metrics_listen)
    told = fetch(f"{metrics_url}/metrics") if metrics_url else None
    # Of a listener on this machine the name need not be the certificate's.
    judged = data_url is not None
    data_live = fetch(f"{data}/livez", judged=judged)
    return Facts(
        folder=environs.folder,
        folder_faults=environs.faults,
        control_url=shown_url(control),
        control_live=live,
        control_ready=_unless_away(live, f"{control}/readyz"),
        admin=admin,
        admin_fault=admin_fault,
        internal=internal,
        internal_fault=internal_fault,
        tokens_differ=bool(internal_token and other_token and internal_token != other_token),
        control_metrics=None if scrape is None else samples(scrape),
        data_url=shown_url(data),
        data_live=data_live,
        data_ready=_unless_away(data_live, f"{data}/readyz", judged=judged),
        metrics_url=metrics_url,
        data_metrics=None if told is None else samples(told),
        metrics_fault=None if told is None else told.error or _unexpected(told),
        data_settings=_is_set(environs.data),
        control_settings=_is_set(environs.control),
        config=_config(admin, environs),
        disks=tuple(_disk(plane, environs) for plane in ("control", "data")),
        now=time.time(),
    )


def _is_set(environ: Mapping[str, str]) -> bool:
    """Whether an environment is one of a plane: such a one has the internal token."""
    return _secret(environ, "OMNIGATE_INTERNAL_TOKEN")[0] is not None


def _secret(environ: Mapping[str, str], name: str) -> tuple[str | None, str | None]:
    """A secret, or what is wrong with it."""
    try:
        return provider_key(environ, name), None
    except SettingsError as error:
        return None, str(error)


def _unexpected(answer: Answer) -> str | None:
    return None if answer.status == 200 else f"it answers {answer.status}"


# -- calls ------------------------------------------------------------------------------------


def fetch(url: str, headers: Mapping[str, str] | None = None, *, judged: bool = True) -> Answer:
    """Make one GET; whatever comes of it is an answer.

    :param judged: whether a certificate must be one that is trusted here.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return Answer(error="that is no address; write it like http://127.0.0.1:8080")
    context = None
    if parts.scheme == "https" and not judged:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with contextlib.closing(connection_to(parts, ANSWER_SECONDS, context)) as connection:
            connection.request("GET", parts.path, headers=dict(headers or {}))
            with cut_off(connection, 2 * ANSWER_SECONDS):
                answer = connection.getresponse()
                text = answer.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
        return Answer(answer.status, text, skew=_skew(answer.getheader("date"), time.time()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(error=_reason(error))


def _unless_away(live: Answer, url: str, *, judged: bool = True) -> Answer:
    """Ask a plane one thing more, unless it has let the first question run into its time."""
    return live if live.error is not None else fetch(url, judged=judged)


def _reason(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or repr(error), 200)


def _skew(date: str | None, now: float) -> float | None:
    """By how much a clock is ahead; a ``date`` is cut to whole seconds."""
    if date is None:
        return None
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return theirs + 0.5 - now


def samples(answer: Answer) -> dict[str, float] | None:
    """Return the samples of a scrape by name and labels as they stand; None where it is none."""
    if answer.error is not None or answer.status != 200:
        return None
    found: dict[str, float] = {}
    for line in answer.text.splitlines():
        if line.startswith("omnigate_"):
            name, _, value = line.rpartition(" ")
            with contextlib.suppress(ValueError):
                number = float(value)
                if math.isfinite(number):
                    found[name] = number
    return found


# -- disks, config, hosts ---------------------------------------------------------------------


def _disk(plane: str, environs: PlaneEnvirons) -> Disk:
    environ = environs.control if plane == "control" else environs.data
    path = environ.get("OMNIGATE_STATE_DIR") or environ.get("STATE_DIRECTORY", "").partition(":")[0]
    path = os.path.abspath(path or f"/var/lib/omnigate/{plane}")
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return Disk(plane, path, there=False)
    return Disk(plane, path, True, usage.free, usage.total)


def _config(admin: Answer | None, environs: PlaneEnvirons) -> Config | None:
    """The config in force; else what its file says, where it can be read here."""
    told = None if admin is None or admin.status != 200 else admin.json()
    if isinstance(told, dict) and isinstance(told.get("config"), dict):
        faults = tuple(
            one_line(f"{row.get('path')}: {row.get('message')}", 300)
            for row in _rows(told.get("faults"))
        )
        source = one_line(str(told.get("path")), 200)
        return _read_config(source, True, faults, told["config"], environs)
    path = environs.control.get("OMNIGATE_CONFIG") or "/etc/omnigate/omnigate.toml"
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1).decode()
        config = attrs.asdict(load_config(text))
    except (OSError, UnicodeDecodeError):
        return None
    except ConfigError as error:
        return Config(path, False, tuple(map(str, error.faults)))
    return _read_config(path, False, (), config, environs)


def _read_config(
    source: str, in_force: bool, faults: tuple[str, ...], config: Any, environs: PlaneEnvirons
) -> Config:
    upstreams = list(_rows(config.get("upstreams")))
    with ThreadPoolExecutor(MAX_HOSTS) as threads:
        reached = list(threads.map(_connect, upstreams[:MAX_HOSTS]))
    reached += [None] * (len(upstreams) - len(reached))
    return Config(
        source=source,
        in_force=in_force,
        faults=faults,
        routes=len(list(_rows(config.get("routes")))) + media_routes(config),
        upstreams=tuple(
            _upstream(row, fault, environs.data)
            for row, fault in zip(upstreams, reached, strict=True)
        ),
        media=named_secrets(config, environs.control),
    )


def _rows(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, Iterable):
        yield from (row for row in value if isinstance(row, dict))


def _upstream(row: dict[str, Any], fault: str | None, data: Mapping[str, str]) -> UpstreamFact:
    variable = _variable(row)
    secret, wrong = (None, None) if variable is None else _secret(data, variable)
    return UpstreamFact(
        name=one_line(str(row.get("name")), 100),
        address=one_line(_address(row), 200),
        variable=variable,
        held=None if variable is None else secret is not None,
        credential_fault=wrong,
        connect_fault=fault,
    )


def _variable(row: Mapping[str, Any]) -> str | None:
    """The variable of an upstream's credential; None where there is none, or it can be none."""
    try:
        return env_name(row.get("api_key_env"))
    except BadValueError:
        return None


def _address(row: Mapping[str, Any]) -> str:
    """Whom a connection for this upstream goes to."""
    return str(row.get("proxy") or row.get("base_url"))


def _connect(row: Mapping[str, Any]) -> str | None:
    """Why the host of an upstream, or its proxy, takes no connection."""
    try:
        parts = urlsplit(_address(row))
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        return _reason(error)
    return None

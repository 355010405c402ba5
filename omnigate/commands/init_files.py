"""The work of ``omnigate init``: what is found, the files, and what is told of them."""

from __future__ import annotations

import argparse
import errno
import http.client
import json
import os
import secrets
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs

from omnigate.admin_client import connection_to, cut_off
from omnigate.commands.arguments import SYSTEM_FOLDER, CommandError
from omnigate.commands.first_config import config_text, env_text, models_of
from omnigate.commands.media_providers import (
    FoundMedia,
    find_media,
    media_credentials,
    media_text,
)
from omnigate.commands.providers import AskError, Found, find_upstreams
from omnigate.config.schema import load_config
from omnigate.control.key_secret import new_secret, sha256_hex
from omnigate.files import PRIVATE_MODE, replace_file
from omnigate.text import one_line

_DEFAULT_FOLDER = "run"
_TOKEN_BYTES = 32
#: A server of one's own answers at once; one that does not is left out.
ASK_SECONDS: Final = 3.0
MAX_ASKED_BYTES: Final = 1024 * 1024
#: What the planes listen on where nothing else is said.
_PORTS = {"OMNIGATE_DATA_LISTEN": 8080, "OMNIGATE_CONTROL_LISTEN": 8081}
_METRICS_PORT = 9464
_KEPT_SUFFIX = ".old"


@attrs.frozen
class Secrets:
    """What is made anew for each config."""

    internal_token: str = attrs.field(repr=False)
    admin_token: str = attrs.field(repr=False)
    key: str = attrs.field(repr=False)


def run_init(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the files and tell what to do next.

    :raises CommandError: there are files already, or they cannot be written.
    """
    folder = Path(options.dir or (SYSTEM_FOLDER if options.systemd else _DEFAULT_FOLDER)).absolute()
    new = Secrets(
        internal_token=secrets.token_hex(_TOKEN_BYTES),
        admin_token=secrets.token_hex(_TOKEN_BYTES),
        key=new_secret(),
    )
    found, notes = find_upstreams(environ, ask_models)
    media, more = find_media(environ)
    files = texts(folder, found, media, new, systemd=options.systemd)
    # What is written must start; a fault here is one of ours.
    load_config(files["omnigate.toml"])
    written = write_files(folder, files, force=options.force)
    for path in written:
        print(f"wrote {path}")
    for note in (*notes, *more):
        print(f"omnigate: {note}", file=sys.stderr)
    _tell_found(found, models_of(files["omnigate.toml"]), media)
    _tell_secrets(new)
    for port in _taken(environ):
        remedy = _ports_remedy(port, folder, options.systemd)
        print(f"\nSomething listens on port {port} already: {remedy}")
    print("\nNext:\n")
    asked = asks(new.key, models_of(files["omnigate.toml"]), media)
    for line in next_steps(folder, asked, options.systemd):
        print(f"    {line}" if line else "")
    return 0


# -- the files --------------------------------------------------------------------------------


def texts(
    folder: Path,
    found: Sequence[Found],
    media: Sequence[FoundMedia],
    new: Secrets,
    *,
    systemd: bool,
) -> dict[str, str]:
    """Return the text of each file, by its path within the folder.

    :raises CommandError: a path or a credential cannot stand in an environment file.
    """
    try:
        files = {
            "omnigate.toml": config_text(found, sha256_hex(new.key)) + media_text(media),
            "control.env": env_text("control", _control_lines(folder, new, media, systemd)),
            "data.env": env_text("data", _data_lines(folder, new, found, systemd)),
        }
    except ValueError as error:
        raise CommandError(
            f"{one_line(str(folder), 200)} holds a quote or a control character, or a credential "
            "does, which no environment file can say; choose another folder with --dir, or put "
            "the credential into a file that NAME_FILE names"
        ) from error
    if systemd:
        files["credentials/omnigate_internal_token"] = f"{new.internal_token}\n"
        files["credentials/omnigate_admin_token"] = f"{new.admin_token}\n"
    return files


def _control_lines(
    folder: Path, new: Secrets, media: Sequence[FoundMedia], systemd: bool
) -> list[tuple[str, dict[str, str]]]:
    """What the control plane is told; units bring the tokens and the folder for state."""
    config = {"OMNIGATE_CONFIG": f"{folder}/omnigate.toml"}
    credentials = [("Credentials of media providers.", media_credentials(media))] if media else []
    if systemd:
        lines = [] if str(folder) == SYSTEM_FOLDER else [("The config.", config)]
        return [*lines, *credentials]
    return [
        _internal_token(new),
        ("What operators show the admin API.", {"OMNIGATE_ADMIN_TOKEN": new.admin_token}),
        (
            "The config, and the folder for the ledger, managed keys and media jobs.",
            {**config, "OMNIGATE_STATE_DIR": f"{folder}/control"},
        ),
        *credentials,
    ]


def _data_lines(
    folder: Path, new: Secrets, found: Sequence[Found], systemd: bool
) -> list[tuple[str, dict[str, str]]]:
    """What the data plane is told."""
    own = [
        _internal_token(new),
        (
            "The folder for usage that waits to be sent, and for a copy of the last config.",
            {"OMNIGATE_STATE_DIR": f"{folder}/data"},
        ),
    ]
    return [
        *([] if systemd else own),
        ("Credentials of providers.", _credentials(found)),
        (
            "Where GET /metrics is answered, on this machine alone; omnigate doctor asks there.",
            {"OMNIGATE_DATA_METRICS_LISTEN": f"tcp:{_METRICS_PORT}:interface=127.0.0.1"},
        ),
    ]


def _internal_token(new: Secrets) -> tuple[str, dict[str, str]]:
    told = {"OMNIGATE_INTERNAL_TOKEN": new.internal_token}
    return ("What data planes show the control plane.", told)


def _credentials(found: Sequence[Found]) -> dict[str, str]:
    """The variables of the data plane that hold credentials, or name files that do."""
    lines: dict[str, str] = {}
    for upstream in found:
        if upstream.variable is not None and upstream.file is not None:
            lines[f"{upstream.variable}_FILE"] = upstream.file
        elif upstream.variable is not None:
            lines[upstream.variable] = upstream.credential or ""
    return lines


def write_files(folder: Path, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write them all, readable for nobody else; nothing where one of them is there already.

    :raises CommandError: one is, or one cannot be written.
    """
    there = [name for name in files if os.path.lexists(folder / name)]
    if there and not force:
        raise CommandError(
            f"{folder} has {', '.join(there)} already; nothing was written. Choose another folder "
            f"with --dir, or give --force, which keeps each file as NAME{_KEPT_SUFFIX}"
        )
    written: dict[Path, Path | None] = {}
    try:
        for name, text in files.items():
            path = folder / name
            _make_folder(path.parent)
            spare = _spare(path) if name in there else None
            # Noted before: it may stand there though the call failed, at the sync of the folder.
            written[path] = spare
            replace_file(str(path), text.encode(), spare=str(spare) if spare else None)
            os.chmod(path, PRIVATE_MODE)
    except OSError as error:
        _take_back(written)
        reason = error.strerror or error
        raise CommandError(
            f"{error.filename or path}: {reason}; nothing was changed. Make that possible, or "
            "choose another folder with --dir"
        ) from None
    return list(written)


def _make_folder(folder: Path) -> None:
    """Make the folder for some of the files.

    :raises OSError: it cannot be made, or what is there is none.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "this is no folder", str(folder)) from None


def _spare(path: Path) -> Path:
    """A name for the file that was there, which no other has."""
    names = (path.with_name(f"{path.name}{_KEPT_SUFFIX}{end}") for end in chain([""], count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _take_back(written: Mapping[Path, Path | None]) -> None:
    """Leave no half of a config behind: what was there comes back, what is new goes."""
    for path, spare in written.items():
        with suppress(OSError):
            if spare is None:
                path.unlink()
            else:
                spare.replace(path)


# -- what is told -----------------------------------------------------------------------------


def _tell_found(found: Sequence[Found], models: Sequence[str], media: Sequence[FoundMedia]) -> None:
    print()
    for upstream in found:
        source = f"{upstream.variable}{'_FILE' if upstream.file else ''}"
        source = source if upstream.variable else upstream.base_url
        print(f"found {upstream.name} ({source})")
    if found:
        print(f"models: {', '.join(models)}")
    else:
        of_what, nothing = (" of text", "no text") if media else ("", "nothing")
        print(
            f"No credential of a provider{of_what} is in the environment, so {nothing} is routed "
            "yet: the config has a commented example.\nSet one, such as OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY, and run this again with --force; or edit the config."
        )
    for one in media:
        print(f"media job: {one.media.name} ({one.media.variable}{'_FILE' if one.file else ''})")


def _tell_secrets(new: Secrets) -> None:
    print(
        f"\nadmin token      {new.admin_token}\n"
        f"internal token   {new.internal_token}\n"
        f"application key  {new.key}\n\n"
        "The key is shown this once; the config has its hash alone. The tokens stand in the files "
        "for the planes."
    )


#: A comment among commands; the dashboard is where the control plane is.
_BROWSER = "# the dashboard: http://127.0.0.1:8081/ in a browser; sign in with the admin token"


def asks(key: str, models: Sequence[str], media: Sequence[FoundMedia]) -> list[str]:
    """Return commands that ask a model of text, and have a media job made."""
    lines = []
    shown = f"-H 'authorization: Bearer {key}'"
    if models:
        lines.append(
            f"curl http://127.0.0.1:8080/v1/chat/completions {shown} "
            f"""-d '{{"model": "{models[0]}", """
            """"messages": [{"role": "user", "content": "Hello"}]}\'"""
        )
    # Speech wants a voice, which no two accounts need have alike.
    prompted = [one.media for one in media if one.media.adapter != "elevenlabs"]
    if prompted:
        lines += [
            f"curl http://127.0.0.1:8080/v1/jobs {shown} "
            f"""-d '{{"model": "{prompted[0].name}", "input": {{"prompt": "a lake"}}}}\'""",
            f"curl 'http://127.0.0.1:8080/v1/jobs?limit=1' {shown}    # until it has succeeded",
        ]
    return lines


def next_steps(folder: Path, asked: Sequence[str], systemd: bool) -> list[str]:
    """Return the commands that start what was written, in their order."""
    omnigate = _program("omnigate")
    check = f"{omnigate} doctor --dir {shlex.quote(str(folder))}"
    if systemd:
        token = shlex.quote(f"{folder}/credentials/omnigate_admin_token")
        return [
            "# with the units and what belongs to them in place, see docs/operations.md:",
            "systemd-sysusers && systemd-tmpfiles --create omnigate.conf",
            "systemctl daemon-reload",
            "systemctl enable --now omnigate-data.socket omnigate.target",
            check,
            *asked,
            _BROWSER,
            f"export OMNIGATE_ADMIN_TOKEN_FILE={token}",
            f"{omnigate} usage --by model",
        ]
    twistd = f"{_program('twistd')} --nodaemon --pidfile= --reactor=omnigate"
    control, data = (shlex.quote(f"{folder}/{plane}.env") for plane in ("control", "data"))
    return [
        "# each in a terminal of its own, until Ctrl-C:",
        f"( set -a; . {control}; exec {twistd} omnigate-control )",
        f"( set -a; . {data}; exec {twistd} omnigate-data )",
        "",
        "# and in a third one:",
        check,
        *asked,
        _BROWSER,
        f"set -a; . {control}; set +a",
        f"{omnigate} usage --by model",
        f"{omnigate} keys create another-app --budget-usd 20 --budget-period monthly",
    ]


def _program(name: str) -> str:
    """A program of this installation, as a shell has to name it."""
    beside = Path(sys.executable).with_name(name)
    on_path = shutil.which(name)
    if on_path is not None and Path(on_path).parent == beside.parent:
        return name
    return shlex.quote(str(beside)) if beside.exists() else name


def _taken(environ: Mapping[str, str]) -> list[int]:
    """The ports of the planes that something on this machine listens on."""
    taken = []
    for port in (*(port for name, port in _PORTS.items() if not environ.get(name)), _METRICS_PORT):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                taken.append(port)
    return taken


def _ports_remedy(port: int, folder: Path, systemd: bool) -> str:
    if port == _PORTS["OMNIGATE_DATA_LISTEN"]:
        if systemd:
            # The units have the port opened by systemd, and a setting does not move it.
            return "change ListenStream= of omnigate-data.socket by a drop-in"
        return (
            f"write OMNIGATE_DATA_LISTEN=tcp:8082 into {folder}/data.env, "
            f"and OMNIGATE_DATA_URL=http://127.0.0.1:8082 into {folder}/control.env"
        )
    if port == _METRICS_PORT:
        return f"change OMNIGATE_DATA_METRICS_LISTEN in {folder}/data.env"
    return (
        f"write OMNIGATE_CONTROL_LISTEN=tcp:8083:interface=127.0.0.1 into {folder}/control.env, "
        f"and OMNIGATE_CONTROL_URL=http://127.0.0.1:8083 into both"
    )


# -- servers of one's own ---------------------------------------------------------------------


def ask_models(base_url: str, protocol: str, secret: str | None) -> list[str]:
    """Ask a server which models it has, as ``GET /v1/models`` tells it.

    :raises AskError: it does not.
    """
    parts = urlsplit(base_url)
    headers = {"accept": "application/json"}
    if secret and protocol == "anthropic":
        headers |= {"x-api-key": secret, "anthropic-version": "2023-06-01"}
    elif secret:
        headers["authorization"] = f"Bearer {secret}"
    try:
        with closing(connection_to(parts, ASK_SECONDS)) as connection:
            connection.request("GET", f"{parts.path}/models", headers=headers)
            with cut_off(connection, 2 * ASK_SECONDS):
                answer = connection.getresponse()
                text = answer.read(MAX_ASKED_BYTES)
        if answer.status != 200:
            raise AskError(f"{base_url}/models answers {answer.status}")
        rows = json.loads(text)["data"]
        return [row["id"] for row in rows if isinstance(row["id"], str)]
    except (OSError, http.client.HTTPException) as error:
        reason = one_line(getattr(error, "strerror", None) or str(error) or repr(error), 200)
        raise AskError(f"{base_url} cannot be asked for its models ({reason})") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise AskError(f"{base_url}/models answers something else than a list of models") from None

"""The settings of both planes as somebody beside them finds them: environment files, listeners.

An environment file is one that systemd and a shell both read: lines of ``NAME=value``, the value
plain or in quotes.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

import attrs

from omnigate.commands.arguments import SYSTEM_FOLDER
from omnigate.text import one_line

#: Where the units of systemd keep a plane's state.
SYSTEM_STATE: Final = "/var/lib/omnigate"

#: A file of settings has some dozens of lines.
MAX_ENV_BYTES: Final = 256 * 1024

# Kinds of listeners on a port of TCP; https is our own.
_PLAIN, _TLS = ("tcp", "tcp4", "tcp6"), ("https", "ssl", "tls")
_ANYWHERE = ("", "0.0.0.0", "::")


@attrs.frozen
class PlaneEnvirons:
    """The environment of each plane, as far as it is known here.

    :ivar folder: where environment files were looked for, or None.
    :ivar faults: files that are there and could not be read, or that there are none.
    """

    control: Mapping[str, str] = attrs.field(repr=False)
    data: Mapping[str, str] = attrs.field(repr=False)
    folder: str | None = None
    faults: tuple[str, ...] = ()


def plane_environs(environ: Mapping[str, str], folder: str | None) -> PlaneEnvirons:
    """Read the environment files of a folder; what they set wins over the environment.

    :param folder: as ``omnigate init`` wrote it; None for the units' own, where the environment
        says nothing of omnigate.
    """
    named = folder is not None
    if folder is None and not any(name.startswith("OMNIGATE_") for name in environ):
        folder = SYSTEM_FOLDER if os.path.isdir(SYSTEM_FOLDER) else None
    if folder is None:
        return PlaneEnvirons(environ, environ)
    folder = os.path.abspath(folder)
    faults: list[str] = []
    missing = 0
    environs = []
    for plane in ("control", "data"):
        own = {**environ}
        credentials = os.path.join(folder, "credentials")
        if os.path.isdir(credentials):
            own["CREDENTIALS_DIRECTORY"] = credentials
            own["STATE_DIRECTORY"] = os.path.join(SYSTEM_STATE, plane)
        path = os.path.join(folder, f"{plane}.env")
        try:
            with open(path, "rb") as file:
                own |= read_env(file.read(MAX_ENV_BYTES).decode("utf-8", "replace"))
        except FileNotFoundError:
            missing += 1
        except OSError as error:
            faults.append(f"{one_line(path, 200)}: {error.strerror or error}")
        environs.append(own)
    if named and missing == len(environs):
        faults.append(f"{one_line(folder, 200)} holds neither control.env nor data.env")
    return PlaneEnvirons(environs[0], environs[1], folder, tuple(faults))


def read_env(text: str) -> dict[str, str]:
    """Return the variables of an environment file; lines that are none are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.strip().partition("=")
        # No process can have a variable with a NUL in it.
        if not sign or not name.isidentifier() or "\0" in value:
            continue
        try:
            words = shlex.split(value, comments=False)
        except ValueError:
            words = [value]
        found[name] = words[0] if len(words) == 1 else value.strip()
    return found


def control_url(environs: PlaneEnvirons, default: str) -> str:
    """Return where the control plane is, as the data plane or the listener has it."""
    for environ in (environs.control, environs.data):
        if environ.get("OMNIGATE_CONTROL_URL"):
            return environ["OMNIGATE_CONTROL_URL"]
    return url_of(environs.control.get("OMNIGATE_CONTROL_LISTEN", "")) or default


def url_of(listen: str) -> str | None:
    """Return the URL of a Twisted endpoint string for who is on the same machine.

    None where that is no port of TCP, or is not known from the string.
    """
    kind, *words = _words(listen)
    named = dict(word.partition("=")[::2] for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    port = named.get("port") or (plain[0] if plain else "")
    if kind not in (*_PLAIN, *_TLS) or not port.isdigit():
        return None
    host = named.get("interface", "")
    if host in _ANYWHERE:
        host = "127.0.0.1"
    scheme = "https" if kind in _TLS else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _words(listen: str) -> list[str]:
    """The parts of an endpoint string; a colon behind a backslash parts nothing."""
    words, word, quoted = [], "", False
    for char in listen:
        if quoted or char not in ":\\":
            word, quoted = word + char, False
        elif char == "\\":
            quoted = True
        else:
            words.append(word)
            word = ""
    return [*words, word]

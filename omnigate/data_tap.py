"""``twistd omnigate-data``: the options, and what they start."""

from __future__ import annotations

import os
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

from omnigate.daemon import DaemonOptions, Ending, refuse_start
from omnigate.data_parts import PROGRAM, data_service
from omnigate.settings import DataSettings, SettingsError, read_data_settings

_log = Logger(namespace="omnigate.data")


class Options(DaemonOptions):
    """Options of ``twistd omnigate-data``."""

    program = PROGRAM
    synopsis = "[options]"
    longdesc = (
        "The data plane of omnigate: the public port that applications talk to. "
        "OMNIGATE_INTERNAL_TOKEN and the providers' keys stand in the environment, or in files "
        "that NAME_FILE names; they are never options. SIGHUP opens the access log again, and "
        "has every ca_file read anew."
    )
    examples = (
        "  twistd --nodaemon --pidfile= --reactor=omnigate omnigate-data --state-dir .\n"
        "  twistd --nodaemon --pidfile= --reactor=omnigate omnigate-data --listen tcp:80 \\\n"
        "      --control-url http://10.0.0.5:8081\n"
    )
    optParameters = [
        ["listen", "l", None, "Where to listen, as a Twisted endpoint. [OMNIGATE_DATA_LISTEN, or "
         "tcp:8080]"],
        ["control-url", "u", None, "Where the control plane is. [OMNIGATE_CONTROL_URL, or "
         "http://127.0.0.1:8081]"],
        ["state-dir", "s", None, "The folder of the spool and of the last config. "
         "[OMNIGATE_STATE_DIR, or /var/lib/omnigate]"],
    ]  # fmt: skip


def makeService(options: Options) -> Service:
    """Put the data plane together; what is wrong ends the start with status 1 and its line."""
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    settings = _read_settings(options)
    return data_service(settings, reactor, Ending(PROGRAM, reactor, options.stays_in_front))


def _read_settings(options: Options) -> DataSettings:
    try:
        settings, warnings = read_data_settings(os.environ, dict(options))
    except SettingsError as error:
        refuse_start(PROGRAM, error.faults)
    for warning in warnings:
        _log.warn("{warning}", warning=warning)
    return settings

"""``twistd omnigate-data``: the options, and what they start: a plane, a parent, or its worker."""

from __future__ import annotations

import os
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

from omnigate.daemon import DaemonOptions, Ending, endpoint_of, refuse_start
from omnigate.open_files import allow_open_files, needed_files
from omnigate.settings import DataSettings, SettingsError, read_data_settings
from omnigate.workers.seat import SeatError, take_seat

PROGRAM = "omnigate-data"

#: Where the listener is set.
LISTEN = "OMNIGATE_DATA_LISTEN or --listen"
#: Where the listener for metrics is set.
METRICS_LISTEN = "OMNIGATE_DATA_METRICS_LISTEN"
#: The port in use may be the plane's own.
METRICS_PORT = f"{METRICS_LISTEN}, not the port of OMNIGATE_DATA_LISTEN"

#: The options that a parent hands on to its workers.
PASSED_ON = ("listen", "control-url", "state-dir", "trusted-proxies")

_log = Logger(namespace="omnigate.data")


class Options(DaemonOptions):
    """Options of ``twistd omnigate-data``."""

    program = PROGRAM
    synopsis = "[options]"
    longdesc = (
        "The data plane of omnigate: the public port that applications talk to. "
        "OMNIGATE_INTERNAL_TOKEN and the providers' keys stand in the environment, or in files "
        "that NAME_FILE names; they are never options. SIGHUP opens the access log again, and "
        "has the certificate and every ca_file read anew."
    )
    examples = (
        "  twistd --nodaemon --pidfile= --reactor=omnigate omnigate-data --state-dir .\n"
        "  twistd --nodaemon --pidfile= --reactor=omnigate omnigate-data --workers 4\n"
        "  twistd --nodaemon --pidfile= --reactor=omnigate omnigate-data --listen tcp:80 \\\n"
        "      --control-url http://10.0.0.5:8081\n"
    )
    optParameters = [
        ["listen", "l", None, "Where to listen, as a Twisted endpoint. [OMNIGATE_DATA_LISTEN, or "
         "tcp:8080]"],
        ["workers", "w", None, "How many processes serve the port: one for each core. "
         "[OMNIGATE_WORKERS, or 1]"],
        ["control-url", "u", None, "Where the control plane is. [OMNIGATE_CONTROL_URL, or "
         "http://127.0.0.1:8081]"],
        ["state-dir", "s", None, "The folder of the spool and of the last config. "
         "[OMNIGATE_STATE_DIR, or /var/lib/omnigate]"],
        ["trusted-proxies", None, None, "Whose X-Forwarded-For is believed: addresses, networks "
         "and unix, with commas. [OMNIGATE_TRUSTED_PROXIES, or nobody's]"],
    ]  # fmt: skip


def makeService(options: Options) -> Service:
    """Put the data plane together; what is wrong ends the start with status 1 and its line."""
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    try:
        seat = take_seat(os.environ)
    except SeatError as error:
        refuse_start(PROGRAM, [str(error)])
    settings, warnings = _read_settings(options)
    # Of what is the same for all processes of a daemon, the first one tells.
    if seat is None:
        short = allow_open_files(needed_files(settings.max_connections))
        for warning in warnings if short is None else [*warnings, short]:
            _log.warn("{warning}", warning=warning)
    # Each imports what it needs and no more: a parent has no use for the plane in its memory.
    if seat is not None:
        from omnigate.workers.worker import worker_service

        return worker_service(settings, seat, reactor)
    if settings.workers > 1:
        from omnigate.workers.parent import parent_service
        from omnigate.workers.run import worker_command

        chosen = None if options.parent is None else options.parent.get("reactor")
        given = {name: options[name] for name in PASSED_ON}
        command = worker_command(chosen, PROGRAM, given)
        return parent_service(settings, reactor, command, options.stays_in_front)
    from omnigate.data_parts import data_service

    ending = Ending(PROGRAM, reactor, options.stays_in_front)
    endpoint = endpoint_of(PROGRAM, reactor, settings.listen, LISTEN)
    return data_service(settings, reactor, ending, endpoint)


def _read_settings(options: Options) -> tuple[DataSettings, list[str]]:
    try:
        return read_data_settings(os.environ, dict(options))
    except SettingsError as error:
        refuse_start(PROGRAM, error.faults)

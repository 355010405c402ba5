# mypy: allow-untyped-calls
# (twisted's services, options and endpoint strings carry no types)
"""``twistd omnigate-control``: the options, and the parts of the control plane put together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.collector import set_apart, take_back
from omnigate.config.schema import ConfigError
from omnigate.config.structure import Fault
from omnigate.control.admin_key_file import AdminKeysFileError
from omnigate.control.auth import Credentials
from omnigate.control.config_file import ConfigFile
from omnigate.control.dashboard.data_plane import DataPlane
from omnigate.control.dashboard.entrance import make_entrance
from omnigate.control.generation import Generation, guard_stores, record_config
from omnigate.control.guard import Guard
from omnigate.control.key_file import KeysFileError
from omnigate.control.lasting import Lasting
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.request import Gate
from omnigate.control.service import ControlParts, ControlService
from omnigate.control.state_folder import StateFolderError, check_writable, claim_folder
from omnigate.control.turns import Turns
from omnigate.control.web import ControlFactory
from omnigate.daemon import DaemonOptions, Ending, endpoint_of, listen_fault, refuse_start
from omnigate.data_client import DataClient
from omnigate.folder_watch import FolderWatch
from omnigate.protocols.addresses import AddressError
from omnigate.reactor_lag import ReactorLag
from omnigate.settings import ControlSettings, SettingsError, provider_key, read_control_settings
from omnigate.writer_thread import WriterThread

PROGRAM = "omnigate-control"

#: For how long the threads that write keep the interpreter from the reactor's thread, each time it
#: comes back from the kernel. By Python's own measure it is 5 ms, and a turn has several such.
SWITCH_SECONDS = 0.001

#: Where the listener is set.
LISTEN = "OMNIGATE_CONTROL_LISTEN or --listen"

_log = Logger(namespace="omnigate.control")


#: The options that stand for a setting.
OPTIONS = ("listen", "config", "state-dir", "trusted-proxies")


class Options(DaemonOptions):
    """Options of ``twistd omnigate-control``."""

    program = PROGRAM
    synopsis = "[options]"
    longdesc = (
        "The control plane of omnigate: config, keys, ledger, budgets and metrics, on a private "
        "port. Secrets are never options: OMNIGATE_INTERNAL_TOKEN and OMNIGATE_ADMIN_TOKEN stand "
        "in the environment, or OMNIGATE_INTERNAL_TOKEN_FILE and OMNIGATE_ADMIN_TOKEN_FILE name "
        "files that hold them. SIGHUP reads the config file and the certificate again."
    )
    examples = (
        "  twistd --nodaemon --pidfile= omnigate-control --config ./omnigate.toml --state-dir .\n"
        "  twistd --nodaemon --pidfile= omnigate-control --listen tcp:8081:interface=10.0.0.5\n"
    )
    optParameters = [
        [
            "listen",
            "l",
            None,
            "Where to listen, as a Twisted endpoint. [OMNIGATE_CONTROL_LISTEN, "
            "or tcp:8081:interface=127.0.0.1]",
        ],
        ["config", "c", None, "The config file. [OMNIGATE_CONFIG, or /etc/omnigate/omnigate.toml]"],
        [
            "state-dir",
            "s",
            None,
            "The folder of ledger and keys. [OMNIGATE_STATE_DIR, or /var/lib/omnigate]",
        ],
        [
            "trusted-proxies",
            None,
            None,
            "Whose X-Forwarded-For is believed: addresses, networks and unix, with commas. "
            "[OMNIGATE_TRUSTED_PROXIES, or nobody's]",
        ],
    ]


def makeService(options: Options) -> Service:
    """Put the control plane together.

    :raises SystemExit: with status 1, and a line on standard error, when it cannot start.
    """
    from twisted.internet import reactor as global_reactor

    reactor: Any = global_reactor
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = _read_settings(options)
    _check_folders(settings)
    data_client = _make_data_client(reactor, settings)

    def make_writer(name: str, lost: Callable[[Failure], None]) -> WriterThread:
        return WriterThread(name, reactor.callFromThread, crashed=lost)

    config_file = ConfigFile(
        settings.config,
        reactor,
        lambda name: provider_key(os.environ, name),
        time.time,
        WriterThread("omnigate-config", reactor.callFromThread),
        partial(FolderWatch, reactor),
    )
    metrics = ControlMetrics()
    credentials = Credentials(
        settings.internal_token, settings.admin_token, reactor.seconds, metrics.auth_failed
    )
    turns = Turns(reactor)
    # A scrape of thousands of routes takes a quarter of a second, reading the pages twice that.
    metrics_writer = WriterThread("omnigate-metrics", reactor.callFromThread)
    entrance = make_entrance(
        settings.admin_token, credentials, lambda: int(time.time() * 1000), metrics_writer
    )
    lasting = Lasting(
        ledger_path=settings.ledger,
        keys_path=settings.keys,
        admin_keys_path=settings.admin_keys,
        audit_path=settings.audit,
        audit_max_bytes=settings.audit_max_mb * 1024 * 1024,
        history_path=settings.config_history,
        jobs_path=settings.jobs,
        receipts_path=settings.receipts,
        media_dir=settings.media_dir,
        credential=config_file.credential,
        config_file=config_file,
        credentials=credentials,
        metrics=metrics,
        reports=Reports(int(time.time() * 1000)),
        clock=reactor,
        wall=time.time,
        steady=time.monotonic,
        make_writer=make_writer,
        metrics_writer=metrics_writer,
        entrance=entrance,
        pause=lambda: pause(reactor),
        stand_back=turns.go_on,
        data_plane=DataPlane(settings.data_url, data_client),
    )
    # Before anything of the state is read, so that nobody changes it afterwards.
    release_state = _claim_state(settings)
    try:
        guard = _load(lasting)
        endpoint = endpoint_of(PROGRAM, reactor, settings.listen, LISTEN)
    except SystemExit:
        release_state()
        raise
    lag = ReactorLag(reactor)
    metrics.watch_plane(config_file, lasting.reports, lag, time.time)
    factory = ControlFactory(
        Gate(
            guard,
            credentials,
            reactor,
            time.time,
            settings.trusted_proxies,
            lasting.entrance.door,
            turns.begin,
        )
    )
    parts = ControlParts(
        endpoint=endpoint,
        factory=factory,
        guard=guard,
        config_file=config_file,
        record=record_config(lasting, guard),
        metrics=metrics,
        lag=lag,
        writers=(metrics_writer,),
        release_state=release_state,
        stays=lambda: set_apart(collect=False),
        goes=take_back,
        end_streams=factory.end_streams,
    )
    return ControlService(
        parts,
        reactor,
        os.environ,
        Ending(PROGRAM, reactor, options.stays_in_front),
        lambda error: listen_fault(settings.listen, LISTEN, error),
    )


async def pause(reactor: IReactorTime) -> None:
    """Let the reactor do what else there is to do."""
    await deferLater(reactor, 0)


def _read_settings(options: Options) -> ControlSettings:
    """Read environment and options; warnings go to the log."""
    given = {name: options[name] for name in OPTIONS}
    try:
        settings, warnings = read_control_settings(os.environ, given)
    except SettingsError as error:
        refuse_start(PROGRAM, error.faults)
    for warning in warnings:
        _log.warn("{warning}", warning=warning)
    return settings


def _make_data_client(reactor: Any, settings: ControlSettings) -> DataClient:
    try:
        return DataClient(reactor, settings.data_url)
    except AddressError as error:
        refuse_start(PROGRAM, [f"OMNIGATE_DATA_URL: {error}"])


def _check_folders(settings: ControlSettings) -> None:
    """Make sure of the folders that state is written to."""
    try:
        for path in (
            settings.ledger,
            settings.keys,
            settings.admin_keys,
            settings.audit,
            settings.config_history,
            settings.jobs,
            settings.receipts,
        ):
            check_writable(os.path.dirname(path))
        check_writable(settings.media_dir, "OMNIGATE_MEDIA_DIR")
    except StateFolderError as error:
        refuse_start(PROGRAM, [str(error)])


def _claim_state(settings: ControlSettings) -> Callable[[], None]:
    """Hold the state folder for this control plane; the result lets it go."""
    try:
        held = claim_folder(settings.state_dir)
    except StateFolderError as error:
        refuse_start(PROGRAM, [str(error)])
    return lambda: os.close(held)


def _load(lasting: Lasting) -> Guard[Generation]:
    """Read the config, the managed keys and the admin keys; without them nothing is started."""
    config_file = lasting.config_file
    try:
        config_file.load()
        guard = guard_stores(lasting)
        generation = guard.latest
        assert generation is not None
        generation.keys.load()
        generation.admin_keys.load()
        faults = generation.book.clashes()
        if faults:
            raise ConfigError(faults)
    except (KeysFileError, AdminKeysFileError) as error:
        refuse_start(PROGRAM, [str(error)])
    except ConfigError as error:
        refuse_start(PROGRAM, fault_lines(config_file.path, error.faults))
    return guard


def fault_lines(path: str, faults: Sequence[Fault]) -> list[str]:
    """Return the lines for a config that cannot be used: one for a single fault, else a head."""
    if len(faults) == 1:
        return [str(faults[0]) if faults[0].path == path else f"{path}: {faults[0]}"]
    return [f"{path} has {len(faults)} faults:", *(f"  {fault}" for fault in faults)]

"""What of the control plane is there before a generation of its stores and after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from omnigate.control.auth import Credentials
from omnigate.control.config_file import ConfigFile
from omnigate.control.dashboard.data_plane import DataPlane
from omnigate.control.dashboard.entrance import Entrance
from omnigate.control.lately import Lately
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.writer_thread import IWriter


@attrs.frozen(eq=False)
class Lasting:
    """What is handed to each generation.

    :ivar ledger_path: the active segment of the ledger.
    :ivar keys_path: ``keys.json``.
    :ivar admin_keys_path: ``admin_keys.json``.
    :ivar audit_path: the active file of the audit log.
    :ivar audit_max_bytes: how long that may become.
    :ivar history_path: ``config_history.json``.
    :ivar jobs_path: the log of media jobs, ``jobs.jsonl``.
    :ivar receipts_path: ``receipts.json``.
    :ivar media_dir: the folder of their outputs.
    :ivar credential: gives the value of a variable that ``[media]`` names, or None where that is
        not set or cannot be used; it asks memory and no file.
    :ivar wall: seconds since 1970.
    :ivar steady: seconds that nobody sets.
    :ivar make_writer: makes a writer thread of that name; given what to call if it is lost.
    :ivar metrics_writer: a thread that writes the text of metrics.
    :ivar entrance: what of the dashboard needs no store.
    :ivar pause: lets the reactor do something else.
    :ivar stand_back: the same between two steps of work for people and their programs, which gets
        on as :mod:`~omnigate.control.turns` says.
    :ivar lately: what happened since the process began, for people to look at.
    :ivar data_plane: where the dashboard can try a request.
    :ivar connect: makes what sends requests of media jobs, given who judges addresses.
    """

    ledger_path: str
    keys_path: str
    admin_keys_path: str
    audit_path: str
    audit_max_bytes: int
    history_path: str
    jobs_path: str
    receipts_path: str
    media_dir: str
    credential: Callable[[str], str | None]
    config_file: ConfigFile
    credentials: Credentials
    metrics: ControlMetrics
    reports: Reports
    clock: IReactorTime
    wall: Callable[[], float]
    steady: Callable[[], float]
    make_writer: Callable[[str, Callable[[Failure], None]], IWriter]
    metrics_writer: IWriter
    entrance: Entrance
    pause: Callable[[], Awaitable[None]]
    stand_back: Callable[[], Awaitable[None]] = attrs.field(
        default=attrs.Factory(lambda self: self.pause, takes_self=True)
    )
    data_plane: DataPlane = attrs.Factory(DataPlane)
    connect: Callable[[AddressGuard], Outbound] = attrs.field(
        default=attrs.Factory(lambda self: partial(Outbound, self.clock), takes_self=True)
    )
    lately: Lately = attrs.field(
        default=attrs.Factory(lambda self: Lately(self.now_ms()), takes_self=True)
    )

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return int(self.wall() * 1000)

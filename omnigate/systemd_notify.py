"""Words to the service manager: ready, stopping, still alive (sd_notify(3)).

The protocol is one datagram to the socket that ``$NOTIFY_SOCKET`` names, holding lines such as
``READY=1`` or ``STATUS=serving``. Under anything but systemd the variable is absent, and nothing
is sent. Telling the manager never fails a daemon: a socket that is gone or full is passed over.
"""

import os
import socket
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"

_MICROSECONDS = 1_000_000


def notify(message: str, environ: Mapping[str, str]) -> bool:
    """Send ``message`` to the service manager.

    :param message: lines of ``NAME=value``, joined by line ends.
    :param environ: the environment; ``NOTIFY_SOCKET`` is a path, or with a leading ``@`` an
        abstract name.
    :returns: whether it was handed over.
    """
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A manager that does not read must not hold the reactor.
            sender.setblocking(False)
            sender.sendto(message.encode("utf-8", "replace"), address)
    except (OSError, ValueError):
        return False
    return True


def watchdog_interval(environ: Mapping[str, str], pid: int | None = None) -> float | None:
    """Return after how many seconds :data:`WATCHDOG` is due again and again.

    It is half of what the manager allows, as sd_watchdog_enabled(3) advises.

    :param pid: this process, where it is not the real one.
    :returns: ``None`` where no watchdog waits for this process.
    """
    allowed = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID", "")
    if meant and meant != str(os.getpid() if pid is None else pid):
        return None
    if not (allowed.isascii() and allowed.isdigit()) or len(allowed) > 18 or not int(allowed):
        return None
    return int(allowed) / _MICROSECONDS / 2

"""What the machine tells of a daemon while it runs: memory, descriptors, sockets; and trends."""

import os
import re
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs

from bench import proc

_PROC = Path("/proc")
_SOCKET = re.compile(r"socket:\[([0-9]+)\]")

#: The states of /proc/net/tcp that matter here (include/net/tcp_states.h).
_STATES = {"01": "established", "0A": "listening", "08": "close_wait"}


@attrs.frozen
class Sight:
    """One look at a process.

    :ivar rss_mb: resident memory, in millions of bytes.
    :ivar files: descriptors that are no TCP sockets.
    :ivar waited_seconds: for a core since its start, while it could have worked.
    :ivar sockets: TCP sockets by ``(place, state)``; a place is the name of the other side, or
        ``client``.
    """

    rss_mb: float
    files: int
    sockets: Counter[tuple[str, str]]
    waited_seconds: float = 0.0

    def count(self, place: str) -> int:
        """Return the sockets to one place, in any state."""
        return sum(count for (where, _), count in self.sockets.items() if where == place)


def look(pid: int, places: dict[int, str]) -> Sight:
    """Look at a process.

    :param places: what stands on which remote port.
    :raises OSError: there is no such process.
    """
    table = socket_table((_PROC / str(pid) / "net" / "tcp").read_text("ascii"))
    files = 0
    sockets: Counter[tuple[str, str]] = Counter()
    for name in os.listdir(_PROC / str(pid) / "fd"):
        try:
            target = os.readlink(_PROC / str(pid) / "fd" / name)
        except OSError:
            continue  # closed since it was listed
        found = _SOCKET.fullmatch(target)
        entry = table.get(found[1]) if found else None
        if entry is None:
            files += 1
        else:
            port, state = entry
            place = "itself" if state == "listening" else places.get(port, "client")
            sockets[place, state] += 1
    return Sight(proc.memory_mb(pid, "VmRSS"), files, sockets, _waited(pid))


def _waited(pid: int) -> float:
    """Read how long the main thread stood in line for a core (Linux, sched-stats.rst)."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # a kernel without these figures


def socket_table(text: str) -> dict[str, tuple[int, str]]:
    """Read ``/proc/PID/net/tcp``: by inode, the remote port and the state."""
    table = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        port = struct.unpack(">H", bytes.fromhex(fields[2].rpartition(":")[2]))[0]
        table[fields[9]] = (port, _STATES.get(fields[3], "closing"))
    return table


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line that fits samples best, by least squares.

    :param samples: pairs of time and value; fewer than two have no slope.
    """
    count = len(samples)
    if count < 2:
        return 0.0
    mean_x = sum(x for x, _ in samples) / count
    mean_y = sum(y for _, y in samples) / count
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0


_SAMPLE = re.compile(r"^([a-z_:]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)$", re.MULTILINE)


def read_metrics(text: str) -> dict[str, float]:
    """Return the samples of a scrape, by name and labels as they are written."""
    return {
        name + (f"{{{labels}}}" if labels else ""): float(value)
        for name, labels, value in _SAMPLE.findall(text)
    }

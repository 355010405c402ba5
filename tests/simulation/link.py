"""The network between the planes: connections whose bytes take time, get lost, or come twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock

from tests.planes.transport import WireTransport

if TYPE_CHECKING:
    from tests.simulation.world import World

#: What a request takes on its way where nothing is wrong, in seconds.
LATENCY = (0.0, 0.0, 0.001, 0.05)

#: What one takes that the network kept for a while: more than anybody waits for an answer.
LATE = (0.5, 5.0, 20.0, 45.0)


class Wire(WireTransport):
    """One end of a connection, with what twisted.web asks of one."""

    def getPeer(self) -> IPv4Address:
        """Somebody near."""
        return IPv4Address("TCP", "127.0.0.1", 40_000)

    def getHost(self) -> IPv4Address:
        """Here."""
        return IPv4Address("TCP", "127.0.0.1", 8081)

    def writeSequence(self, pieces: list[bytes]) -> None:
        """Send them one after the other."""
        self.write(b"".join(pieces))

    def taken_since(self, offset: int) -> bytes:
        """What was sent from that byte on."""
        return bytes(self._taken[offset:])

    @property
    def taken(self) -> int:
        """How many bytes were sent."""
        return len(self._taken)


class Server(Protocol):
    """The side that is connected to, as far as the network knows it."""

    @property
    def alive(self) -> bool:
        """Whether there is a process."""

    @property
    def listening(self) -> bool:
        """Whether it takes connections."""

    @property
    def clock(self) -> Clock:
        """Its clock."""

    def accept(self) -> IProtocol | None:
        """A protocol for a new connection."""


@attrs.define(eq=False)
class Weather:
    """How likely each piece of bad luck is, for one request or answer."""

    cut: float = 0.0
    stalled: float = 0.0
    late: float = 0.0
    twice: float = 0.0


#: Pieces on their way: when they are there, whether to the server, and what; ``None`` is the end.
Packet = tuple[float, bool, bytes | None]


@attrs.define(eq=False)
class Line:
    """One connection.

    :ivar near: the data plane's end; ``None`` for a copy of a request that the network made.
    :ivar far: the control plane's.
    :ivar asked: the requests that were handed over and are not answered.
    """

    near: Wire | None
    near_life: int
    far: Wire
    far_life: int
    packets: list[Packet] = attrs.Factory(list)
    asked: deque[bytes] = attrs.Factory(deque)
    near_seen: int = 0
    far_seen: int = 0
    near_ended: bool = False
    far_ended: bool = False
    stalled: bool = False


class Link:
    """All connections from the data plane to the control plane.

    :param lives: the numbers of the lives of data plane and control plane, which change with every
        start; what was sent to an earlier life arrives nowhere.
    :param handed: told of each request as it reaches the control plane.
    :param answered: told of each request and its answer as that leaves the control plane.
    :ivar weather: what may befall what is sent.
    :ivar parted: nothing gets through at present.
    """

    def __init__(
        self,
        world: World,
        server: Server,
        lives: Callable[[], tuple[int, int]],
        handed: Callable[[bytes], None],
        answered: Callable[[bytes, bytes], None],
    ) -> None:
        self._world = world
        self._server = server
        self._lives = lives
        self._handed = handed
        self._answered = answered
        self._lines: list[Line] = []
        self.weather = Weather()
        self.parted = False

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way and nothing waits for an answer."""
        return not any(line.packets or line.asked for line in self._lines)

    def connect(self, clock: Clock, build: Callable[[], Any]) -> Deferred[IProtocol]:
        """Open a connection for a data plane with this clock."""
        if self.parted or not self._server.listening:
            return fail(ConnectionRefusedError())
        near_life, far_life = self._lives()
        channel = self._server.accept()
        if channel is None:
            return fail(ConnectionRefusedError())
        near, far = Wire(clock), Wire(self._server.clock)
        self._lines.append(Line(near, near_life, far, far_life))
        far.connect(channel)
        protocol = build()
        near.connect(protocol)
        return succeed(protocol)

    def cut(self) -> None:
        """Cut every connection, and lose what is on its way."""
        for line in self._lines:
            self._cut(line)

    def pump(self) -> None:
        """Take what was sent, and hand over what has arrived."""
        for _ in range(8):
            moved = False
            for line in list(self._lines):
                moved |= self._collect(line)
                moved |= self._deliver(line)
            if not moved:
                break
        self._lines = [line for line in self._lines if not self._over(line)]

    # -- what is sent

    def _collect(self, line: Line) -> bool:
        """Take new bytes and ends off both wires."""
        near_life, far_life = self._lives()
        near, far = line.near, line.far
        moved = False
        if near is not None and not line.near_ended:
            if near_life == line.near_life and near.taken > line.near_seen:
                data = near.taken_since(line.near_seen)
                line.near_seen = near.taken
                self._send(line, data, to_server=True)
                moved = True
            if line.near_life != near_life or near.disconnecting or not near.connected:
                line.near_ended = moved = True
                line.packets.append((self._world.now + self._latency(), True, None))
        if not line.far_ended:
            if far_life == line.far_life and far.taken > line.far_seen:
                data = far.taken_since(line.far_seen)
                line.far_seen = far.taken
                if line.asked:
                    self._answered(line.asked.popleft(), data)
                self._send(line, data, to_server=False)
                moved = True
            if line.far_life != far_life or far.disconnecting or not far.connected:
                line.far_ended = moved = True
                line.asked.clear()
                line.packets.append((self._world.now + self._latency(), False, None))
        return moved

    def _send(self, line: Line, data: bytes, to_server: bool) -> None:
        """Put bytes on their way, and draw what becomes of them."""
        rng, weather = self._world.rng, self.weather
        luck = rng.random()
        due = self._world.now + self._latency()
        what = "request" if to_server else "answer"
        if self.parted or luck < weather.stalled:
            self._world.note(f"a {what} is lost, and nobody is told")
            line.stalled = True
            return
        luck -= weather.stalled
        if luck < weather.cut:
            self._world.note(f"a {what} is lost with its connection")
            self._cut(line)
            return
        luck -= weather.cut
        if luck < weather.late:
            due = self._world.now + rng.choice(LATE)
            self._world.note(f"a {what} comes only at {due:.3f}")
        elif luck - weather.late < weather.twice and to_server:
            later = self._world.now + rng.choice((0.0, *LATE))
            self._world.note(f"a request comes once more at {later:.3f}")
            self._copy(data, later)
        line.packets.append((due, to_server, data))

    def _copy(self, data: bytes, due: float) -> None:
        """Have a request arrive once more, over a connection that nobody listens to."""
        ghost = Line(None, -1, Wire(Clock()), -1)
        ghost.near_ended = True
        ghost.packets.append((due, True, data))
        self._lines.append(ghost)

    def _latency(self) -> float:
        return self._world.rng.choice(LATENCY)

    def _cut(self, line: Line) -> None:
        now = self._world.now
        line.packets = [(now, True, None), (now, False, None)]
        line.asked.clear()
        line.near_ended = line.far_ended = True

    # -- what arrives

    def _deliver(self, line: Line) -> bool:
        """Hand over what is due, in the order it was sent."""
        moved = False
        while line.packets and line.packets[0][0] <= self._world.now and not self.parted:
            _, to_server, data = line.packets.pop(0)
            moved = True
            if to_server:
                self._to_server(line, data)
            else:
                self._to_client(line, data)
        return moved

    def _to_server(self, line: Line, data: bytes | None) -> None:
        server = self._server
        if line.far_life == -1 and server.listening:
            # A copy finds its way to whoever listens by now.
            channel = server.accept()
            if channel is not None:
                line.far, line.far_life = Wire(server.clock), self._lives()[1]
                line.far.connect(channel)
        far = line.far
        if line.far_life != self._lives()[1] or not server.alive:
            line.far_ended = True
            return
        if data is None:
            line.asked.clear()
            line.far_ended = True
            if far.connected:
                far.peer_closes(ConnectionLost())
                server.clock.advance(0)
        elif far.connected:
            line.asked.append(data)
            self._handed(data)
            far.peer_sends(data)
            server.clock.advance(0)

    def _to_client(self, line: Line, data: bytes | None) -> None:
        near = line.near
        if near is None or line.near_life != self._lives()[0] or not near.connected:
            return
        if data is None:
            near.peer_closes(ConnectionDone())
        elif not line.stalled:
            near.peer_sends(data)
        near._clock.callLater(0, lambda: None)

    def _over(self, line: Line) -> bool:
        """Whether nothing can happen on it any more."""
        near_life, far_life = self._lives()
        if line.packets:
            return False
        near_gone = line.near_ended or line.near_life != near_life
        far_gone = line.far_ended or line.far_life != far_life
        return near_gone and far_gone

"""Connections behave alike whether their writes are gathered, direct or Twisted's own.

Everything here runs over real sockets on each of :data:`~tests.protocols.served.KINDS`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL.crypto import X509, PKey
from twisted.internet.ssl import CertificateOptions
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.gathering import MAX_ASIDE_BYTES, MAX_GATHERED
from tests.protocols.served import KINDS, Peer, Served, Stage
from tests.protocols.test_connector import Identity, issue


class InjectedError(Exception):
    """A fault in a protocol."""


def text(size: int, start: int = 0) -> bytes:
    """Bytes of which no two parts are alike."""
    words = b" ".join(b"%d" % number for number in range(start, start + size // 2 + 1))
    return words[:size]


class AlikeCase(SynchronousTestCase):
    def on_each(self, play: Callable[..., object], *values: object) -> None:
        """Play a scene on each kind; what it returns must be the same."""
        came: dict[str, object] = {}
        for kind in KINDS:
            stage = Stage(kind)
            try:
                came[kind] = play(stage, *values)
            finally:
                stage.close()
        for kind in KINDS:
            self.assertEqual(came["EPollReactor"], came[kind], kind)


class OrderTests(AlikeCase):
    def test_many_writes(self) -> None:
        """What is written in one turn comes whole and in order, whatever the sizes."""
        sizes = [1, 2, 0, 700, 100_000, 3, MAX_ASIDE_BYTES, 1, 1_000_000, 5, 40_000, 40_000, 9]

        def scene(stage: Stage) -> object:
            sent = b""

            def act(served: Served) -> None:
                nonlocal sent
                for index, size in enumerate(sizes):
                    piece = text(size, 1000 * index)
                    if index % 3:
                        served.wire.write(piece)
                    else:
                        served.wire.writeSequence([piece[:10], piece[10:]])
                    sent += piece

            peer = stage.dial()
            peer.poke(act)
            self.assertEqual(sent, peer.take_all(len(sent)))
            stage.quiet()
            return peer.end, peer.served.told

        self.on_each(scene)

    def test_not_bytes(self) -> None:
        """What is not bytes is refused where it is written, and harms nothing written before."""

        def scene(stage: Stage) -> object:
            def act(served: Served) -> None:
                served.wire.write(b"before ")
                for data in ("text", bytearray(b"array"), None):
                    self.assertRaises(TypeError, served.wire.write, data)
                self.assertRaises(TypeError, served.wire.writeSequence, ["text"])
                served.wire.write(b"after")

            peer = stage.dial()
            peer.poke(act)
            self.assertEqual(b"before after", peer.take_all(12))
            return peer.end

        self.on_each(scene)

    def test_by_another(self) -> None:
        """What another connection's turn writes stands between what is written before and after."""

        def scene(stage: Stage) -> object:
            first, second = stage.dial(), stage.dial()

            def both(served: Served) -> None:
                for number in range(30):
                    first.served.wire.write(b"%d " % number)
                    second.served.wire.write(b"%d " % number)

            first.poke(both)
            second.poke(both)
            stage.reactor.callLater(0, both, second.served)
            whole = b"".join(b"%d " % number for number in range(30)) * 3
            self.assertEqual(whole, first.take_all(len(whole)))
            self.assertEqual(whole, second.take_all(len(whole)))
            return first.end, second.end

        self.on_each(scene)

    def test_many_connections(self) -> None:
        """More connections than are gathered at a time are all answered, each its own."""

        def scene(stage: Stage) -> object:
            peers = [stage.dial() for _ in range(3 * MAX_GATHERED + 1)]

            def act(served: Served) -> None:
                served.wire.write(b"to %d" % stage.served.index(served))

            for peer in peers:
                peer.served.act = act
                peer.socket.send(b"!")
            return [peer.take_all(len(b"to %d" % n)) for n, peer in enumerate(peers)]

        self.on_each(scene)

    def test_outside_of_a_turn(self) -> None:
        """A timer's writes come, too, and stay in order with those of a turn."""

        def scene(stage: Stage) -> object:
            peer = stage.dial()
            wire = peer.served.wire
            peer.poke(lambda served: stage.reactor.callLater(0, wire.write, b"later "))
            self.assertEqual(b"later ", peer.take_all(6))
            peer.poke(lambda served: wire.write(b"turn "))
            wire.write(b"outside")
            return peer.take_all(18)

        self.on_each(scene)


class EndTests(AlikeCase):
    def test_close(self) -> None:
        """Everything written before a close, and right after it, goes out before the FIN."""

        def scene(stage: Stage, size: int) -> object:
            def act(served: Served) -> None:
                served.wire.write(text(1000))
                served.wire.write(text(size))
                served.wire.unregisterProducer()
                served.wire.loseConnection()
                served.wire.write(b"after")
                served.wire.loseConnection()

            peer = stage.dial()
            peer.poke(act)
            end = peer.take_end()
            self.assertEqual(text(1000) + text(size) + b"after", peer.received)
            stage.spin(lambda: peer.served.lost)
            peer.served.wire.write(b"into nothing")
            # Twisted's own asks for a pause before it has tried the socket.
            return end, peer.served.told[-1]

        for size in (1, MAX_ASIDE_BYTES, 500_000):
            self.on_each(scene, size)

    def test_half_close(self) -> None:
        """So does what was written before a half close, after which reading goes on."""

        def scene(stage: Stage, size: int) -> object:
            def act(served: Served) -> None:
                served.wire.write(text(size))
                served.wire.loseWriteConnection()
                served.wire.write(b"after")

            peer = stage.dial()
            peer.served.wire.unregisterProducer()
            peer.poke(act)
            end = peer.take_end()
            self.assertEqual(text(size) + b"after", peer.received)
            peer.poke(lambda served: served.wire.write(b"too late"))
            peer.poke(lambda served: served.wire.loseConnection())
            stage.spin(lambda: peer.served.lost)
            return end, peer.received[size:], peer.served.told

        for size in (1, MAX_ASIDE_BYTES, 500_000):
            self.on_each(scene, size)

    def test_abort(self) -> None:
        """An abort resets the connection; nothing that follows it is sent."""

        def scene(stage: Stage, before: list[bytes]) -> object:
            def act(served: Served) -> None:
                for data in before:
                    served.wire.write(data)
                served.wire.abortConnection()
                served.wire.write(b"after")
                served.wire.writeSequence([b"after", b"that"])
                served.wire.abortConnection()

            peer = stage.dial()
            peer.poke(act)
            end = peer.take_end()
            self.assertTrue(b"".join(before).startswith(peer.received))
            if stage.reactor.__class__.__name__ == "LeanReactor" and before != [text(500_000)]:
                self.assertEqual(b"", peer.received)
            stage.spin(lambda: peer.served.lost)
            return end, [told for told in peer.served.told if told not in ("pause", "resume")]

        for before in ([], [b"before", b"and"], [text(500_000)]):
            self.on_each(scene, before)

    def test_peer_ends(self) -> None:
        """One whose peer is gone is told so, though others write to it in the same turn."""

        def scene(stage: Stage) -> object:
            first, second = stage.dial(), stage.dial()

            def act(served: Served) -> None:
                for peer in (first, second):
                    peer.served.wire.write(b"x")

            first.served.act = act
            second.socket.close()
            first.socket.send(b"!")
            self.assertEqual(b"x", first.take_all(1))
            stage.spin(lambda: second.served.lost)
            return first.end, second.served.told

        self.on_each(scene)

    def test_close_then_peer_resets(self) -> None:
        """A reset that comes while it closes ends it."""

        def scene(stage: Stage) -> object:
            peer = stage.dial()

            def act(served: Served) -> None:
                served.wire.write(text(2_000_000))
                served.wire.unregisterProducer()
                served.wire.loseConnection()

            peer.poke(act)
            peer.socket.close()
            stage.spin(lambda: peer.served.lost)
            return peer.served.told

        self.on_each(scene)


class PressureTests(AlikeCase):
    def test_obedient(self) -> None:
        """A producer that obeys is paused and resumed, and holds little in between."""
        total = 1_000_000

        def scene(stage: Stage) -> object:
            peer = stage.dial()
            served = peer.served
            made = 0
            held = 0

            def produce(*_: object) -> None:
                nonlocal made, held
                while made < total and served.told[-1:] != ["pause"]:
                    served.wire.write(text(10_000, made))
                    made += 10_000
                    held = max(held, len(served.wire.dataBuffer) + served.wire._tempDataLen)

            served.on_resume = produce
            peer.poke(produce)
            self.assertIn("pause", served.told)
            self.assertNotIn("resume", served.told)
            whole = b"".join(text(10_000, number) for number in range(0, total, 10_000))
            self.assertEqual(whole, peer.take_all(total))
            self.assertLessEqual(held, 3 * 65536)
            stage.quiet()
            pauses = served.told.count("pause")
            self.assertEqual(["pause", "resume"] * pauses, served.told)
            return peer.end

        self.on_each(scene)

    def test_large(self) -> None:
        """One large write pauses its producer until it is all gone."""

        def scene(stage: Stage) -> object:
            peer = stage.dial()
            peer.poke(lambda served: (served.wire.write(b"head"), served.wire.write(text(size))))
            stage.turn()
            told = list(peer.served.told)
            self.assertEqual(b"head" + text(size), peer.take_all(4 + size))
            stage.quiet()
            return told, peer.served.told

        size = 1_000_000
        self.on_each(scene)

    def test_little(self) -> None:
        """A client that takes what it is sent never has its producer paused."""

        def scene(stage: Stage) -> object:
            peer = stage.dial()
            for number in range(1, 51):
                peer.poke(
                    lambda served: [served.wire.write(text(200)) for _ in range(20)],
                )
                peer.take_all(number * 4000)
            return peer.served.told, len(peer.received)

        self.on_each(scene)

    def test_pull_producer(self) -> None:
        """A producer that is asked for each piece is asked until it is done."""

        class Pulled:
            def __init__(self, wire: Any) -> None:
                self.wire = wire
                self.asked = 0

            def resumeProducing(self) -> None:
                self.asked += 1
                self.wire.write(text(1000, self.asked))
                if self.asked == 20:
                    self.wire.unregisterProducer()
                    self.wire.loseConnection()

            def stopProducing(self) -> None:
                pass

        def scene(stage: Stage) -> object:
            def act(served: Served) -> None:
                served.wire.unregisterProducer()
                served.wire.write(b"begin")
                served.wire.registerProducer(Pulled(served.wire), False)

            peer = stage.dial()
            peer.poke(act)
            end = peer.take_end()
            whole = b"begin" + b"".join(text(1000, number) for number in range(1, 21))
            self.assertEqual(whole, peer.received)
            return end

        self.on_each(scene)


class FaultTests(AlikeCase):
    def test_read_raises(self) -> None:
        """A fault while reading costs its own connection, and no other what it was sent."""

        def scene(stage: Stage) -> object:
            first, second = stage.dial(), stage.dial()

            def act(served: Served) -> None:
                second.served.wire.write(b"sound")
                served.wire.write(b"broken")
                raise InjectedError

            first.poke(act)
            self.assertEqual(b"sound", second.take_all(5))
            logged = len(self.flushLoggedErrors(InjectedError))
            first.take_end()
            return logged, first.served.told, second.end

        self.on_each(scene)

    def test_end_raises(self) -> None:
        """So does a fault in what is told last."""

        def scene(stage: Stage) -> object:
            first, second = stage.dial(), stage.dial()

            def lost(reason: object) -> None:
                second.served.wire.write(b"lost")
                raise InjectedError

            first.served.connectionLost = lost  # type: ignore[assignment,method-assign]
            second.served.act = lambda served: served.wire.write(b" read")
            first.socket.close()
            second.socket.send(b"!")
            came = sorted(second.take_all(9).split())
            return came, len(self.flushLoggedErrors(InjectedError))

        self.on_each(scene)


class RandomTests(AlikeCase):
    def setUp(self) -> None:
        self.stages = {kind: Stage(kind) for kind in KINDS}
        for stage in self.stages.values():
            self.addCleanup(stage.close)

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.lists(
                st.one_of(
                    st.integers(0, 300),
                    st.sampled_from((30_000, MAX_ASIDE_BYTES, MAX_ASIDE_BYTES + 1, 300_000)),
                    st.sampled_from(("half close", "sequence")),
                ),
                max_size=12,
            ),
            max_size=3,
        ),
        st.booleans(),
    )
    def test_any(self, turns: list[list[int | str]], close: bool) -> None:
        """Whatever is done in whatever turns: the same bytes, the same end."""

        def act(doings: list[int | str]) -> Callable[[Served], None]:
            def acting(served: Served) -> None:
                for doing in doings:
                    if doing == "half close":
                        served.wire.loseWriteConnection()
                    elif doing == "sequence":
                        served.wire.writeSequence([b"one", b"", b"two"])
                    else:
                        served.wire.write(text(int(doing), len(doings)))

            return acting

        def play(stage: Stage) -> object:
            peer = stage.dial()
            peer.served.wire.unregisterProducer()
            for doings in turns:
                peer.poke(act(doings))
                self.settle(stage, peer)
            if close:
                peer.poke(lambda served: served.wire.loseConnection())
                stage.spin(lambda: peer.served.lost)
            else:
                peer.poke(lambda served: served.wire.loseWriteConnection())
            return peer.take_end(), peer.received, peer.served.told

        came = {kind: play(stage) for kind, stage in self.stages.items()}
        for kind in KINDS:
            self.assertEqual(came["EPollReactor"], came[kind], kind)

    def settle(self, stage: Stage, peer: Peer) -> None:
        """Let everything that was written come."""

        def settled() -> bool:
            peer.take()
            return not stage.reactor.getWriters()

        stage.turn()
        stage.spin(settled)
        peer.take()


class TlsTests(SynchronousTestCase):
    """TLS stands above the connection, or takes it over in the middle."""

    def setUp(self) -> None:
        self.identity: Identity = issue("localhost")
        certificate = self.mktemp()
        with open(certificate, "wb") as stream:
            stream.write(self.identity.pem)
        self.options = CertificateOptions(
            privateKey=PKey.from_cryptography_key(self.identity.key),
            certificate=X509.from_cryptography(self.identity.certificate),
        )
        self.context = ssl.create_default_context(cafile=certificate)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def secure(self, stage: Stage, peer: Peer) -> None:
        """Shake hands at the peer's end."""
        secured = self.context.wrap_socket(peer.socket, do_handshake_on_connect=False)
        peer.socket = secured
        stage.ends.append(secured)

        def shaken() -> bool:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                return False
            return True

        stage.spin(shaken)

    def read(self, stage: Stage, peer: Peer, size: int) -> bytes:
        """Read so much of the plain text, or to its end."""
        received = b""

        def enough() -> bool:
            nonlocal received
            try:
                data = peer.socket.recv(65536)
            except ssl.SSLWantReadError:
                return False
            received += data
            return len(received) >= size or not data

        stage.spin(enough)
        return received

    def test_above(self) -> None:
        """What is written over TLS comes whole and in order, then the end."""
        for kind in KINDS:
            stage = Stage(
                kind,
                lambda factory, reactor: TLSMemoryBIOFactory(
                    self.options, False, factory, clock=reactor
                ),
            )
            self.addCleanup(stage.close)
            peer = stage.dial()
            self.secure(stage, peer)
            whole = b"".join(text(size) for size in (10, 2000, 100_000, 7))

            def act(served: Served) -> None:
                for size in (10, 2000, 100_000, 7):
                    served.wire.write(text(size))
                served.wire.unregisterProducer()
                served.wire.loseConnection()

            peer.poke(act)
            self.assertEqual(whole, self.read(stage, peer, len(whole) + 1), kind)

    def test_in_the_middle(self) -> None:
        """What was written in the clear before TLS begins comes in the clear, and first."""
        for kind in KINDS:
            stage = Stage(kind)
            self.addCleanup(stage.close)
            peer = stage.dial()

            def act(served: Served) -> None:
                served.wire.unregisterProducer()
                served.wire.write(b"go")
                served.wire.write(b" on")
                served.wire.startTLS(self.options)
                served.wire.write(b"secret")
                # It would wait for a turn of the global reactor otherwise.
                served.wire.loseConnection()

            peer.poke(act)
            self.assertEqual(b"go on", peer.take_all(5), kind)
            self.secure(stage, peer)
            self.assertEqual(b"secret", self.read(stage, peer, 6), kind)

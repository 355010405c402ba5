"""A provider that plays scripts: for each request the bytes, the pauses and the end it is told."""

import contextlib
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import attrs

#: How a script ends. ``keep``: wait for the next request. ``close`` in order. ``reset``. ``stall``:
#: say nothing more until the other side gives up.
End = Literal["keep", "close", "reset", "stall"]

#: Nobody here waits longer than this for the other side.
PATIENCE_SECONDS = 60.0

_CASE = re.compile(rb"<(\d+)>").search
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE).search
_RESET_ON_CLOSE = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")


@attrs.frozen
class Script:
    """What one request is answered.

    :ivar pieces: bytes are sent as they are, numbers are pauses in seconds.
    :ivar early: the pieces are sent as soon as the request's head has come, and what is left of
        the request is not read before them.
    """

    pieces: Sequence[bytes | float]
    end: End = "keep"
    early: bool = False

    @property
    def wire(self) -> bytes:
        """All that is sent."""
        return b"".join([piece for piece in self.pieces if isinstance(piece, bytes)])


class Player:
    """Listens on a port of loopback and plays; each request says ``<number>`` of its script.

    :ivar greeting: is sent on each connection before anything is read.
    :ivar asked: how often each script was asked for.
    """

    greeting = b""

    def __init__(self, port: int) -> None:
        self.scripts: dict[int, Script] = {}
        self.asked: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", port), backlog=256)
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for opened in self._open:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                opened, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(opened,), daemon=True).start()

    def _serve(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.add(opened)
        try:
            opened.settimeout(PATIENCE_SECONDS)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(self.greeting)
            while self._answer(opened):
                pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(opened)
            opened.close()

    def _answer(self, opened: socket.socket) -> bool:
        """Read one request and play its script; whether another may follow."""
        request = b""
        while b"\r\n\r\n" not in request:
            piece = opened.recv(65536)
            if not piece:
                return False
            request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        declared = _LENGTH(head + b"\r\n")
        length = int(declared[1]) if declared else 0
        script = None
        while script is None:
            script = self.script_for(head, body, whole=len(body) >= length)
            if script is None:
                body += self._more(opened)
        while not script.early and len(body) < length:
            body += self._more(opened)
        return self._play(opened, script)

    def script_for(self, head: bytes, body: bytes, *, whole: bool) -> Script | None:
        """Choose the script for a request, or say that more of it is needed."""
        # The number stands at the front of the body.
        found = _CASE(body)
        if found is None:
            assert not whole, body
            return None
        number = int(found[1])
        with self._lock:
            self.asked[number] += 1
        return self.scripts[number]

    def _more(self, opened: socket.socket) -> bytes:
        piece = opened.recv(65536)
        if not piece:
            raise ConnectionError
        return piece

    def _play(self, opened: socket.socket, script: Script) -> bool:
        for piece in script.pieces:
            if isinstance(piece, bytes):
                opened.sendall(piece)
            else:
                time.sleep(piece)
        if script.end == "reset":
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        elif script.end == "close":
            opened.shutdown(socket.SHUT_WR)
        if script.end in ("close", "stall"):
            while opened.recv(65536):
                pass
        return script.end == "keep"

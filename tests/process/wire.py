"""The wire between the planes, with a hand on it: a batch can be stopped at any step of its way."""

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.process.daemons import SECONDS

#: Sends the batch on to the control plane, and gives what it answered; False where it did not.
Forward = Callable[[], bool]

_BATCH = "/internal/usage/batch"


class Wire(ThreadingHTTPServer):
    """Stands between data plane and control plane, and passes everything on.

    :param port: to listen on.
    :param control_port: of the control plane.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, control_port: int) -> None:
        super().__init__(("127.0.0.1", port), _Passage)
        self.control_port = control_port
        self._lock = threading.Lock()
        self._hand: Callable[[Forward], None] | None = None
        self._reached = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def take_next(self, hand: Callable[[Forward], None]) -> None:
        """Let ``hand`` do what it likes with the next batch, whose sender then gets no answer."""
        self._reached.clear()
        with self._lock:
            self._hand = hand

    def wait_taken(self) -> None:
        """Wait until that batch has come and ``hand`` is done with it."""
        if not self._reached.wait(SECONDS):
            raise AssertionError("no batch came")
        if self._failure is not None:
            raise self._failure

    def hand_for(self, path: str) -> Callable[[Forward], None] | None:
        """What is to be done with a request, once."""
        if path != _BATCH:
            return None
        with self._lock:
            hand, self._hand = self._hand, None
        return hand

    def taken(self, failure: BaseException | None) -> None:
        """The hand is done."""
        self._failure = failure
        self._reached.set()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that a kill has reset."""

    def close(self) -> None:
        """Stop passing anything on."""
        self.shutdown()
        self.server_close()
        self._thread.join(SECONDS)


class _Passage(BaseHTTPRequestHandler):
    """One connection of the data plane."""

    server: Wire
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Pass a poll on."""
        self._pass(b"")

    def do_POST(self) -> None:
        """Pass a batch or counts on, or let the test have it."""
        body = self.rfile.read(int(self.headers["content-length"]))
        hand = self.server.hand_for(self.path)
        if hand is None:
            self._pass(body)
            return
        self.close_connection = True
        failure: BaseException | None = None
        try:
            hand(lambda: self._forwarded(body) is not None)
        except BaseException as error:
            failure = error
        self.server.taken(failure)

    def _pass(self, body: bytes) -> None:
        answer = self._forwarded(body)
        if answer is None:
            # Nobody there: as if nobody were here.
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        if status != 304:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """Ask the control plane; None where it gives no whole answer."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.control_port, timeout=SECONDS
        )
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        headers["connection"] = "close"
        try:
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

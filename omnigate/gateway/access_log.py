"""The access log: one line of JSON for every request.

A line costs the reactor an append to a list; turning lines into JSON and writing them is done a
few times a second, by a writer thread. What is not yet written when the process is killed is lost:
the log tells people what happened, the spool is what counts. Where the lines go, and how those of
several workers stay whole in one file, is in :mod:`omnigate.gateway.log_output`.

Lines hold no content and no key. Control characters in what a client or a provider chose are
escaped, beyond what JSON asks for, so that no line does anything to a terminal.
"""

import datetime
import functools
import re
from typing import Final

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from omnigate.errors import UPSTREAM_CUT
from omnigate.gateway.log_output import STANDARD_OUTPUT, LogOutput
from omnigate.text import valid_text
from omnigate.writer_thread import IWriter

OFF: Final = "off"

#: What every line says in ``msg``, so that whoever collects the lines of many programs can tell
#: them from others.
MESSAGE: Final = "request"

#: How long a line may wait. Short enough for somebody who follows the log, long enough that a
#: busy plane writes a thousand lines with one call.
FLUSH_SECONDS = 0.2

#: Lines that may wait while the disk stands still: several seconds of a busy plane, 30 MB at most.
MAX_WAITING_LINES = 20_000

#: Lines that are encoded in one go; the interpreter lock is held for it, a millisecond or less.
_LINES_AT_A_TIME = 500

#: Longest text of a client's choosing that is shown whole. Real paths and model names are shorter.
_MAX_TEXT: Final = 256

#: As long may be what is not plain ASCII: each of its characters takes up to six bytes in a line.
#: With three such texts, and 900 bytes of all else, no line is longer than a pipe takes in one
#: piece.
_MAX_ODD_TEXT: Final = 128

# How a moment ends. To look one up costs a fifth of writing it.
_MILLISECONDS: Final = tuple(f".{milliseconds:03d}Z" for milliseconds in range(1000))

# Printable for JSON but not for a terminal: DEL, the C1 controls, separators and the marks that
# turn the reading direction round.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

_log = Logger()


class AccessLine(
    msgspec.Struct,
    gc=False,
    tag_field="msg",
    tag=MESSAGE,
    rename={
        "input_tokens": "in",
        "output_tokens": "out",
        "cached_input_tokens": "cached",
        "first_byte_ms": "ttfb_ms",
        "duration_ms": "dur_ms",
    },
):
    """One request; the members in the order in which they are written. Absent is ``None``.

    ``ts`` is :func:`time_text` of the request's end; ``level`` is :func:`level_of` the end;
    ``key`` the key's name; ``route`` the model asked for and ``model`` what the upstream was sent;
    ``first_byte_ms`` and ``duration_ms`` count from the request's head.
    """

    ts: str
    level: str
    request_id: str
    key: str | None
    method: str
    path: str
    route: str | None
    model: str | None
    upstream: str | None
    status: int
    error_code: str | None
    stream: bool
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    first_byte_ms: int | None
    duration_ms: int
    attempts: int
    bytes_in: int
    bytes_out: int
    client: str
    estimated: bool


class AccessLog:
    """Collects lines and has them written.

    :ivar enabled: False where the log is off; :meth:`line` then does nothing.
    :ivar written: lines written since the start.
    :ivar dropped: lines dropped, because too many waited or they could not be written.
    """

    def __init__(
        self, path: str, writer: IWriter, clock: IReactorTime, shared: bool = False
    ) -> None:
        """Take the parts; nothing is opened before :meth:`start`.

        :param path: of a file, ``-`` for standard output, or ``off``.
        :param shared: whether other processes write there at the same time.
        """
        self.enabled = path != OFF
        self._path = path
        self._output: LogOutput | None = None
        self._shared = shared
        self._writer = writer
        self._clock = clock
        self._lines: list[AccessLine] = []
        self._timer: IDelayedCall | None = None
        self._writing = False
        self._encoder = msgspec.json.Encoder()
        self._tell_at = 1
        self.written = 0
        self.dropped = 0

    def start(self) -> None:
        """Open the file.

        :raises OSError: it cannot be opened.
        """
        if self.enabled:
            output = LogOutput(self._path, self._shared)
            output.open()
            self._output = output

    def line(self, line: AccessLine) -> None:
        """Log one request.

        The line is read later and must not be changed any more; what a client chose in it is
        shortened here, since a model name may be as long as a body.
        """
        if not self.enabled:
            return
        lines = self._lines
        if len(lines) >= MAX_WAITING_LINES:
            self._drop(1)
            return
        if len(line.path) > _MAX_ODD_TEXT:
            line.path = _shortened(line.path)
        if line.route is not None and len(line.route) > _MAX_ODD_TEXT:
            line.route = _shortened(line.route)
        if line.model is not None and len(line.model) > _MAX_ODD_TEXT:
            line.model = _shortened(line.model)
        lines.append(line)
        if self._timer is None:
            self._timer = self._clock.callLater(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        """Hand what waits to the thread, unless it is still at the last group."""
        self._timer = None
        output = self._output
        if self._writing or not self._lines or output is None:
            return
        lines, self._lines = self._lines, []
        self._writing = True
        self._writer.submit(lambda: self._write(lines, output)).addCallbacks(
            self._wrote, lambda failure: self._not_wrote(failure.value, len(lines))
        )

    def _wrote(self, count: int) -> None:
        self.written += count
        self._writing = False
        self._flush_later()

    def _not_wrote(self, error: BaseException, count: int) -> None:
        self._writing = False
        self._drop(count, error)
        self._flush_later()

    def _flush_later(self) -> None:
        if self._lines and self._timer is None:
            self._timer = self._clock.callLater(FLUSH_SECONDS, self._flush)

    def _drop(self, count: int, error: BaseException | None = None) -> None:
        self.dropped += count
        if self.dropped >= self._tell_at:
            # told at one, two, four and so on, as a log that cannot be written fails all the time
            self._tell_at = 2 * self.dropped
            _log.error(
                "the access log {path} cannot be written: {error}; {dropped} lines dropped so far",
                path=self._path,
                error="it is too slow" if error is None else error,
                dropped=self.dropped,
            )

    def reopen(self) -> Deferred[None]:
        """Open the file anew under its name, after it was renamed by log rotation.

        Lines that came before go to the old file.

        :return: fires when it is done. It never fails: where the file cannot be opened, the old
            one stays in use and the error is logged.
        """
        output = self._output
        if not self.enabled or output is None or self._path == STANDARD_OUTPUT:
            return succeed(None)
        self._flush()
        return self._writer.submit(output.reopen).addErrback(
            lambda failure: _log.error(
                "{path} cannot be reopened: {error}", path=self._path, error=failure.value
            )
        )

    def stop(self) -> Deferred[None]:
        """Write what waits and close the file.

        :return: fires when it is done; it never fails.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        output = self._output
        if not self.enabled or output is None:
            return succeed(None)
        self.enabled = False
        lines, self._lines = self._lines, []
        return self._writer.submit(lambda: self._end(lines, output)).addCallbacks(
            self._ended, lambda failure: self._drop(len(lines), failure.value)
        )

    def _ended(self, count: int) -> None:
        self.written += count

    def _end(self, lines: list[AccessLine], output: LogOutput) -> int:
        """Write the last lines and close; runs in the thread."""
        try:
            return self._write(lines, output)
        finally:
            output.close()

    def _write(self, lines: list[AccessLine], output: LogOutput) -> int:
        """Encode and write a group; runs in the thread.

        :return: how many lines were written.
        """
        for start in range(0, len(lines), _LINES_AT_A_TIME):
            output.write(self._encode(lines[start : start + _LINES_AT_A_TIME]))
        return len(lines)

    def _encode(self, lines: list[AccessLine]) -> bytes:
        try:
            text = self._encoder.encode_lines(lines)
        except UnicodeEncodeError:
            # Half a surrogate pair: legal in a JSON string, but not in UTF-8.
            text = b"".join(self._encoder.encode(_repaired(line)) + b"\n" for line in lines)
        if not text.isascii() or b"\x7f" in text:
            text = _UNPRINTABLE.sub(_escaped, text.decode("utf-8")).encode("utf-8")
        return text


def _shortened(text: str) -> str:
    """Cut what is too long to be shown whole."""
    most = _MAX_TEXT if text.isascii() and text.isprintable() else _MAX_ODD_TEXT
    return text if len(text) <= most else text[:most] + "…"


def level_of(status: int, error_code: str) -> str:
    """``error`` where the gateway or the providers failed, else ``info``."""
    return "error" if status >= 500 or error_code == UPSTREAM_CUT else "info"


def time_text(ts: float) -> str:
    """Write a moment in RFC 3339, in UTC and with milliseconds."""
    return moment_text(round(ts * 1000))


def moment_text(ts_ms: int) -> str:
    """Write a moment given in milliseconds, in the same way."""
    second, milliseconds = divmod(ts_ms, 1000)
    return _second_text(second) + _MILLISECONDS[milliseconds]


@functools.lru_cache(maxsize=4)
def _second_text(second: int) -> str:
    """Write a whole second without its zone; thousands of lines are of the same one."""
    moment = datetime.datetime.fromtimestamp(second, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _repaired(line: AccessLine) -> dict[str, object]:
    """Return a line with text that can be encoded, as the object it is written as."""
    return {"msg": MESSAGE} | {
        field.encode_name: valid_text(value) if isinstance(value, str) else value
        for field, value in (
            (field, getattr(line, field.name)) for field in msgspec.structs.fields(AccessLine)
        )
    }

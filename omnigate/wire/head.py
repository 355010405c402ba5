"""HTTP/1.1 heads: read a request's or an answer's strictly.

A head is the block of bytes up to and with its blank line. Nothing in it is
repaired: a line that is not ``name: value`` ended by CRLF, a control byte, a
folded line or two readings of where the body ends is refused (RFC 9112). The
code that judges it is patterns and table look-ups, so it can answer only "no".
"""

from __future__ import annotations

import re
from typing import Literal

import attrs
import msgspec

from omnigate.wire.target import MAX_PATH_BYTES, MAX_QUERY_BYTES

#: The largest head read. Real clients were seen at 1.5 KB; the widest provider
#: heads (cookies, policies) stay under 8 KiB, and proxies stop at 8 to 32.
MAX_HEAD_BYTES = 32768
#: Header lines in one head. Clients were seen with 22, providers with about 40.
MAX_HEAD_LINES = 128
# So many bytes cannot be more lines than that: the shortest is a name of one letter, a colon, CRLF.
_FEW_LINES_BYTES = 4 * MAX_HEAD_LINES

Framing = Literal["none", "length", "chunked", "close"]

# Digits of a length before ``int()`` sees them: ``int`` itself takes "+5" and
# "1_0". Fifteen digits are a petabyte and still exact in every language.
_MAX_LENGTH_DIGITS = 15
_REQUEST_LENGTH = re.compile(rb"0|[1-9][0-9]{0,14}").fullmatch

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
# Visible characters, space, tab and obs-text (RFC 9110, 5.5): no control byte.
_TEXT = rb"[\t\x20-\x7e\x80-\xff]"
_request_line = re.compile(rb"(" + _TOKEN + rb"{1,24}) (/[\x21-\x7e]*+) HTTP/1\.([01])").fullmatch
_answer_head = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: " + _TEXT + rb"*+)?\r\n"
    rb"(?:" + _TOKEN + rb"++:" + _TEXT + rb"*+\r\n)*+\r\n"
).fullmatch
# The lines that are acted on, of an answer that has passed: a value there holds no CR.
# Only the first letter is spelled in both cases: so a line whose name begins otherwise costs one
# look, and not one for each name.
_acted_on = re.compile(
    rb"\n([Cc](?i:ontent-(?:type|length|encoding)|onnection)|[Tt](?i:ransfer-encoding)"
    rb"|[Rr](?i:equest-id|etry-after(?:-ms)?)|[Xx](?i:-(?:request-id|should-retry))|[Ee](?i:tag))"
    rb":([^\r]*+)"
).findall
_endless_target = re.compile(
    _TOKEN + rb"{1,24} /[\x21-\x7e]{%d}" % (MAX_PATH_BYTES + 1 + MAX_QUERY_BYTES)
).match
_header_line = re.compile(rb"(" + _TOKEN + rb"++):[ \t]*+(" + _TEXT + rb"*+)").fullmatch
# A name or an address with or without a port; empty is right where the target has no authority
# (RFC 9112, 3.2). 255 bytes is the longest name of DNS.
_host_value = re.compile(
    rb"(?:\[[0-9A-Za-z.\-_~:%]{2,64}\]|[0-9A-Za-z.\-_~%]{0,255})(?::[0-9]{0,5})?"
).fullmatch
_version_value = re.compile(rb"[\x21-\x7e]*+").fullmatch
_expect_value = re.compile(rb"(?:100-continue)?", re.IGNORECASE).fullmatch
# A list of betas: items of visible characters, blanks only next to a comma. It is an atomic group
# and not ``)*+``, which before Python 3.11.5 errs where a look-around in it fails.
_beta_value = re.compile(rb"[\x21-\x7e]*+(?>(?:(?<=,)[ \t]++[\x21-\x7e]++)*)").fullmatch

# What a value must be, where it is looked at here or passed on: pattern, status,
# code, message.
_VALUE_RULES = {
    b"host": (_host_value, 400, "invalid_request", "Host must be a plain name or address."),
    b"anthropic-version": (
        _version_value,
        400,
        "invalid_request",
        "anthropic-version may hold visible ASCII characters only.",
    ),
    b"anthropic-beta": (
        _beta_value,
        400,
        "invalid_request",
        "anthropic-beta must be a comma-separated list of plain names.",
    ),
    b"expect": (
        _expect_value,
        417,
        "expectation_failed",
        "Only Expect: 100-continue is understood.",
    ),
}

#: Names that may stand in a request once only: each is acted on here or by the
#: upstream, and two readers could take different ones.
_SINGLE_IN_REQUEST = frozenset(
    (
        b"authorization",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"transfer-encoding",
        b"x-api-key",
    )
)
_BODY_METHODS = frozenset((b"POST", b"PUT", b"PATCH"))

#: What may be asked for without a body, and so without the length of one.
_BODILESS = re.compile(rb"/v1/jobs/[A-Za-z0-9_-]+/cancel").fullmatch

# Lines remembered: those whose names are listed below, which are the same from
# request to request and hold no secret. About 200 lines cover the clients and
# providers known; the cap holds when somebody makes lines up.
_MAX_REMEMBERED_LINES = 1024
_MAX_REMEMBERED_BYTES = 128
_REMEMBERED_NAMES = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"anthropic-beta",
        b"anthropic-dangerous-direct-browser-access",
        b"anthropic-version",
        b"cache-control",
        b"connection",
        b"content-type",
        b"host",
        b"user-agent",
        b"x-app",
        b"x-stainless-arch",
        b"x-stainless-async",
        b"x-stainless-helper-method",
        b"x-stainless-lang",
        b"x-stainless-os",
        b"x-stainless-package-version",
        b"x-stainless-read-timeout",
        b"x-stainless-retry-count",
        b"x-stainless-runtime",
        b"x-stainless-runtime-version",
        b"x-stainless-timeout",
    )
)


class HeadError(Exception):
    """A request head that is refused: answer it and close the connection.

    :param status: 400, 411, 414, 417 or 505.
    :param code: the gateway's reason, as in the table of errors.
    :param message: one sentence for the client; holds nothing the client sent.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class ResponseHeadError(Exception):
    """An answer's head that cannot be read or framed; the attempt has failed.

    :param reason: one sentence for the log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@attrs.define
class RequestHead:
    """A request head that passed; names are lower-case, values without outer blanks.

    ``headers`` are shared by heads that differ in their length alone, and are not to be changed;
    the length is not among them. ``content_length`` is 0 where there is no body.

    :ivar credentials: what was made of the credentials in ``headers``, once somebody asked.
    """

    method: bytes
    target: bytes
    http10: bool
    headers: dict[bytes, bytes]
    content_length: int
    keep_alive: bool
    expect_continue: bool
    credentials: tuple[bytes, ...] | None = attrs.field(default=None, eq=False, repr=False)

    def with_length(self, length: int) -> RequestHead:
        """The same head with another length; not for one that has an ``expect``."""
        return RequestHead(
            self.method,
            self.target,
            self.http10,
            self.headers,
            length,
            self.keep_alive,
            False,
            self.credentials,
        )


class ResponseHead(msgspec.Struct, gc=False):
    """An answer's head and how its body is framed.

    ``headers`` are those that are acted on, with names in lower-case and values without outer
    blanks; of all others it is only sure that they are sound, in the ``block`` that was read.
    ``content_length`` counts only where ``framing`` is ``"length"``.
    ``keep_alive`` tells that the connection may be used again after the body.
    """

    status: int
    block: bytes
    headers: dict[bytes, bytes]
    framing: Framing
    content_length: int
    keep_alive: bool


class _HeaderLines(dict[bytes, tuple[bytes, bytes]]):
    """A request's header lines, judged: a line not known is judged when it is asked for."""

    def __missing__(self, line: bytes) -> tuple[bytes, bytes]:
        match = _header_line(line)
        if match is None:
            if line[:1] in (b" ", b"\t"):
                raise HeadError(400, "invalid_request", "Folded header lines are not accepted.")
            raise HeadError(
                400,
                "invalid_request",
                "A header line must be a name, a colon and a value, and hold no control bytes.",
            )
        name, value = match.groups()
        name = name.lower()
        value = value.rstrip()
        rule = _VALUE_RULES.get(name)
        if rule is not None and rule[0](value) is None:
            raise HeadError(rule[1], rule[2], rule[3])
        pair = (name, value)
        if name in _REMEMBERED_NAMES and len(line) <= _MAX_REMEMBERED_BYTES:
            if len(self) >= _MAX_REMEMBERED_LINES:
                self.clear()
            self[line] = pair
        return pair


_judge_line = _HeaderLines().__getitem__


def find_head_end(buffer: bytes, start: int = 0) -> int:
    """Find where the head in a buffer ends.

    A blank line written with bare line feeds ends a head too, so that it is
    refused at once and not waited for.

    :param start: how much of the buffer an earlier call has searched in vain.
    :returns: the index after the blank line; -1 when there is none yet.
    """
    start = start - 3 if start > 3 else 0
    end = buffer.find(b"\r\n\r\n", start)
    if end >= 0:
        return end + 4
    end = buffer.find(b"\n\n", start)
    if end >= 0:
        return end + 2
    end = buffer.find(b"\n\r\n", start)
    return end + 3 if end >= 0 else -1


def head_too_long(buffer: bytes) -> HeadError:
    """Say what is wrong with a head that has not ended within :data:`MAX_HEAD_BYTES`.

    :param buffer: what has come of it.
    """
    if _endless_target(buffer):
        # RFC 9112, 3 asks for this status; the other faults of a target are 400.
        return HeadError(414, "invalid_path", "The request target is too long.")
    return HeadError(
        400,
        "invalid_request",
        f"The request head is longer than {MAX_HEAD_BYTES} bytes; send fewer headers.",
    )


def parse_request_head(block: bytes) -> RequestHead:
    """Read a request head.

    :param block: the head with its blank line, as :func:`find_head_end` cuts it.
    :raises HeadError: for anything that is not plainly one request.
    """
    lines = block.split(b"\r\n")
    line = _request_line(lines[0])
    if line is None or len(lines) - 3 > MAX_HEAD_LINES or not block.endswith(b"\r\n\r\n"):
        raise _why_refused(lines)
    headers = dict(map(_judge_line, lines[1:-2]))
    if len(block) > MAX_HEAD_BYTES:
        raise head_too_long(block)
    if len(headers) != len(lines) - 3:
        headers = _join_repeats(lines)
    method, target, minor = line.groups()
    http10 = minor == b"0"
    length = _request_body_length(method, target, headers)
    connection = headers.get(b"connection")
    if connection is None:
        keep_alive = not http10
    else:
        keep_alive = connection == b"keep-alive" or _stays_open(connection, http10)
    if not http10 and b"host" not in headers:
        raise HeadError(400, "invalid_request", "A Host header is required.")
    # Its value has passed: 100-continue or nothing. An HTTP/1.0 client cannot read
    # a 100 (RFC 9110, 10.1.1).
    expects = length > 0 and not http10 and headers.get(b"expect", b"") != b""
    return RequestHead(
        method,
        target,
        http10,
        headers,
        length,
        keep_alive,
        expects,
    )


def _request_body_length(method: bytes, target: bytes, headers: dict[bytes, bytes]) -> int:
    """Tell how long the body is, and take its line out; the only framing is one plain length."""
    length = headers.pop(b"content-length", None)
    if b"transfer-encoding" in headers:
        if length is not None:
            raise HeadError(
                400, "invalid_request", "Content-Length and Transfer-Encoding exclude each other."
            )
        if method in _BODY_METHODS and headers[b"transfer-encoding"].lower() == b"chunked":
            raise HeadError(
                411, "length_required", "A chunked body is not accepted; send Content-Length."
            )
        raise HeadError(400, "invalid_request", "Transfer-Encoding is not accepted.")
    if length is None:
        # A request without a length has no body (RFC 9112, 6.3). A cancel needs none, and
        # ``curl -X POST`` sends it so.
        if method in _BODY_METHODS and not _BODILESS(target):
            raise HeadError(411, "length_required", "A Content-Length header is required.")
        return 0
    if _REQUEST_LENGTH(length) is None:
        raise HeadError(400, "invalid_request", "Content-Length must be a plain decimal number.")
    size = int(length)
    if size and method not in _BODY_METHODS:
        raise HeadError(400, "invalid_request", "A request of this method cannot carry a body.")
    return size


def _stays_open(connection: bytes, http10: bool) -> bool:
    """Read the ``connection`` options: may another message follow on this connection?"""
    options = [option.strip() for option in connection.lower().split(b",")]
    if b"close" in options:
        return False
    return not http10 or b"keep-alive" in options


def _join_repeats(lines: list[bytes]) -> dict[bytes, bytes]:
    """Join repeated header lines, but refuse those that may stand once only."""
    headers: dict[bytes, bytes] = {}
    for line in lines[1:-2]:
        name, value = _judge_line(line)
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE_IN_REQUEST:
            raise HeadError(
                400, "invalid_request", f"The header {name.decode('ascii')} may be sent once only."
            )
        else:
            headers[name] += b", " + value
    return headers


def _why_refused(lines: list[bytes]) -> HeadError:
    """Name what is wrong with a head that has not passed; off the hot path."""
    first = lines[0]
    if b"\n" in first or b"\r" in first or lines[-2:] != [b"", b""]:
        return HeadError(
            400, "invalid_request", "Every line of the request head must end with CR LF."
        )
    if _request_line(first) is None:
        version = first.rpartition(b" ")[2]
        if re.fullmatch(rb"HTTP/[0-9](?:\.[0-9])?", version) and version[5:7] != b"1.":
            return HeadError(505, "invalid_request", "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        if re.fullmatch(rb"HTTP/1\.[2-9]", version):
            return HeadError(505, "invalid_request", "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        parts = first.split(b" ")
        if len(parts) == 3 and re.fullmatch(rb"HTTP/1\.[01]", version):
            return HeadError(
                400, "invalid_path", "The request target must be a plain path that starts with /."
            )
        return HeadError(400, "invalid_request", "The request line cannot be read.")
    if len(lines) - 3 > MAX_HEAD_LINES:
        return HeadError(400, "invalid_request", "The request head has too many lines.")
    return HeadError(400, "invalid_request", "The request head cannot be read.")


def parse_response_head(block: bytes, request_method: bytes = b"POST") -> ResponseHead:
    """Read an answer's head and settle how its body is framed (RFC 9112, 6.3).

    A missing reason, empty values and repeated equal lengths pass, since real
    servers send them; doubt about the framing never does. Heads of status 1xx
    are returned for the caller to skip.

    :param request_method: of the request that is answered; HEAD has no body.
    :raises ResponseHeadError: when the head or its framing cannot be trusted.
    """
    match = _answer_head(block)
    if match is None:
        raise ResponseHeadError("the head is not a status line and plain header lines")
    if len(block) > _FEW_LINES_BYTES and (
        len(block) > MAX_HEAD_BYTES or block.count(b"\n") - 2 > MAX_HEAD_LINES
    ):
        raise ResponseHeadError("the head is too long")
    minor, digits = match.groups()
    headers: dict[bytes, bytes] = {}
    for name, value in _acted_on(block):
        name = name.lower()
        if name in headers:
            headers[name] += b", " + value.strip()
        else:
            headers[name] = value.strip()
    status = int(digits)
    http10 = minor == b"0"
    connection = headers.get(b"connection")
    if connection is None:
        keep_alive = not http10
    else:
        keep_alive = connection == b"keep-alive" or _stays_open(connection, http10)
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and b"transfer-encoding" not in headers:
        framing: Framing = "length"
        size = _plain_length(length)
    else:
        framing, size = _odd_framing(headers, http10)
    if status < 200 or status == 204 or status == 304 or request_method == b"HEAD":
        if status == 101:
            raise ResponseHeadError("the server switched protocols unasked")
        if request_method != b"HEAD" and (framing == "chunked" or (size and status != 304)):
            # It announces a body that must not be there: what follows is anyone's guess.
            keep_alive = False
        return ResponseHead(status, block, headers, "none", 0, keep_alive)
    if framing == "close":
        keep_alive = False
    return ResponseHead(status, block, headers, framing, size, keep_alive)


def _odd_framing(headers: dict[bytes, bytes], http10: bool) -> tuple[Framing, int]:
    """Settle where an answer's body ends that has not just one plain length."""
    length = headers.get(b"content-length")
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise ResponseHeadError("a length together with a transfer coding")
        if coding.lower() != b"chunked":
            raise ResponseHeadError("a transfer coding other than chunked")
        if http10:
            raise ResponseHeadError("a transfer coding in HTTP/1.0")
        return "chunked", 0
    if length is None:
        return "close", 0
    return "length", _plain_length(_one_length(length))


def _plain_length(length: bytes) -> int:
    """Read a length, digits only: ``int`` itself takes "+5" and "1_0"."""
    if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
        raise ResponseHeadError("a length that is not a plain decimal number")
    return int(length)


def _one_length(value: bytes) -> bytes:
    """Fold a repeated length into one; RFC 9112, 6.3 allows it when all are equal."""
    values = {part.strip() for part in value.split(b",")}
    if len(values) != 1:
        raise ResponseHeadError("two different lengths")
    return values.pop()

"""What a point of the HTTP checklist is, and the requests that most points are made of."""

import attrs

from tests.process.daemons import key_of

HOST = b"Host: gateway\r\n"
KEY = b"Authorization: Bearer " + key_of("app").encode() + b"\r\n"
BODY = b'{"model":"small","messages":[{"role":"user","content":"Hello"}]}'
STREAM = BODY[:-1] + b',"stream":true}'


@attrs.frozen
class Point:
    """One point of the list.

    :ivar rfc: where it stands.
    :ivar statuses: of the answers, in order.
    :ivar kept: the connection is used for what follows.
    :ivar differs: the row of the table in ``docs/internals.md``, where RFC and gateway differ.
    :ivar methods: of the requests, where one of them is HEAD.
    """

    name: str
    rfc: str
    sent: bytes
    statuses: tuple[int, ...]
    kept: bool = False
    differs: str = ""
    methods: tuple[str, ...] = ()


def line(first: bytes, *rest: bytes) -> bytes:
    """A request with this first line, a Host and these further lines."""
    return first + b"\r\n" + HOST + b"".join(rest) + b"\r\n"


def get(*lines: bytes) -> bytes:
    """A sound request with further header lines."""
    return line(b"GET /livez HTTP/1.1", *lines)


def post(*lines: bytes, body: bytes = BODY, version: bytes = b"1.1") -> bytes:
    """A chat request whose framing these lines tell."""
    first = b"POST /v1/chat/completions HTTP/" + version
    return line(first, KEY, *lines) + body


def length(value: bytes, body: bytes = BODY) -> bytes:
    """A chat request with this ``Content-Length``."""
    return post(b"Content-Length: " + value + b"\r\n", body=body)


SIZE = b"%d" % len(BODY)
SIZED = b"Content-Length: " + SIZE + b"\r\n"

"""Bad requests to the admin API, as bytes: what is wrong with each, and how it must be answered.

They are made for any method and path, so that the sweep takes every one of them; a seed chooses
which faults a path is asked with in this run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from random import Random

import attrs

from tests.process.daemons import ADMIN_TOKEN, INTERNAL_TOKEN

AUTHORIZATION = f"authorization: Bearer {ADMIN_TOKEN}".encode()

#: What follows a request whose connection must end: an answer to it would be smuggling.
BEHIND = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@attrs.frozen
class Bad:
    """A bad request.

    :ivar what: what is wrong with it.
    :ivar statuses: how it may be answered; empty where the connection ends without an answer.
    :ivar ends: whether the connection must end with the answer.
    """

    what: str
    sent: bytes
    statuses: tuple[int, ...]
    ends: bool = True


def head(method: str, target: str, *lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    """A head with the right credential."""
    first = b"%b %b %b" % (method.encode(), target.encode("latin-1"), version)
    return b"\r\n".join([first, b"host: x", AUTHORIZATION, *lines]) + b"\r\n\r\n"


def with_body(method: str, target: str, body: bytes, *lines: bytes) -> bytes:
    """A whole request."""
    return head(method, target, b"content-length: %d" % len(body), *lines) + body


def bad_heads(method: str, path: str) -> Iterator[Bad]:
    """What is wrong with the head, whatever the path is."""
    for version in (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 x", b""):
        yield Bad(f"version {version!r}", head(method, path, version=version), (400, 505))
    for lines in (
        (b"no colon",),
        (b": no name",),
        (b"bad name: x",),
        (b"nul: a\x00b",),
        (b"a: " + b"b" * 17_000,),
        (b"a: b",) * 110,
        (b"content-length: 2", b"content-length: 2"),
        (b"content-length: -1",),
        (b"content-length: +2",),
        (b"content-length: 0x2",),
        (b"content-length: 2, 2",),
        (b"content-length: " + b"1" * 6_000,),
        (b"content-length: 2", b"transfer-encoding: chunked"),
        (b"transfer-encoding: gzip, chunked",),
        (b"transfer-encoding: xchunked",),
    ):
        yield Bad(f"header {lines[0][:40]!r}", head(method, path, *lines), (400, 411))
    yield Bad("chunked", head(method, path, b"transfer-encoding: chunked"), (404, 405, 411))
    yield Bad("huge", head(method, path, b"content-length: 99999999999"), (400, 404, 405, 413))
    for odd in ("get", "G\x01T", "TRACE", "OPTIONS", "CONNECT", "PROPFIND", "X" * 500):
        yield Bad(f"method {odd[:9]!r}", head(odd, path, b"connection: close"), (400, 404, 405))


def bad_targets(method: str, path: str) -> Iterator[Bad]:
    """What is wrong with the target; the credential is right."""
    close = b"connection: close"
    for target in (
        f"/%{ord(path[1]):02x}{path[2:]}",
        path + "%00",
        path + "/",
        "/" + path,
        path + "/..",
        path + "/.",
        path + ";x=1",
        path + "\\",
        path + "\xe9",
        path + "#x",
        "http://x" + path,
        path + "a" * 3_000,
        path.lstrip("/"),
        "*",
    ):
        yield Bad(f"target {target[:60]!r}", head(method, target, close), (400,))
    for query in (
        "unknown=1",
        "limit=1&limit=1",
        "limit",
        "limit=%zz",
        "limit=%ff",
        "limit=%00",
        "a" * 1_000,
        "&".join(f"a{n}=1" for n in range(40)),
        "limit=1;by=key",
        "&",
        "=",
        "limit=\xe9",
        "by=%F0%9F%92%A9",
        "limit=99999999999999999999",
        "since=9999-99-99",
        "before=",
        "after=%2e%2e%2f",
    ):
        sent = head(method, f"{path}?{query}", close)
        yield Bad(f"query {query[:40]!r}", sent, (400, 404, 405))


def bad_bodies(method: str, path: str, dice: Random) -> Iterator[Bad]:
    """What is wrong with a body, for an endpoint that takes one."""
    deep = b"[" * 50_000 + b"]" * 50_000
    bodies: list[tuple[str, bytes]] = [
        ("none", b""),
        ("no JSON", b"{"),
        ("null", b"null"),
        ("a list", b"[]"),
        ("a text", b'"name"'),
        ("nested", deep if method == "POST" else b"[" * 5_000),
        ("nested members", b'{"a":' * 3_000 + b"1" + b"}" * 3_000),
        ("no UTF-8", b'{"name":"\xff"}'),
        ("UTF-16", json.dumps({"name": "a"}).encode("utf-16")),
        ("a byte order mark", b"\xef\xbb\xbf{}"),
        ("half a pair", b'{"name":"\\ud800"}'),
        ("twice", b'{"name":"a","name":"b"}'),
        ("NaN", b'{"rpm":NaN}'),
        ("a huge number", b'{"rpm":1e999999999}'),
        ("digits", b'{"rpm":' + b"9" * 10_000 + b"}"),
        ("a number of many digits", b'{"budget_usd":0.' + b"1" * 60 + b"}"),
        ("an unknown member", b'{"colour":1}'),
        ("a member of unknown name", b'{"' + b"n" * 9_000 + b'":1}'),
        ("two documents", b"{}{}"),
        ("gzip", gzip.compress(b'{"name":"zipped","scope":"full"}')),
        ("a form", b"name=a&scope=full"),
    ]
    for member in (
        "name",
        "rpm",
        "models",
        "allowed_ips",
        "expires_at",
        "scope",
        "disabled",
        "grace_s",
        "budget_timezone",
        "endpoints",
    ):
        value = dice.choice([-1, 1.5, True, [], {}, [[]], "\x00", "a\nb", "é" * 300, [None], 2**70])
        bodies.append((f"{member}: {value!r:.20}", json.dumps({member: value}).encode()))
    close = b"connection: close"
    for what, body in bodies:
        lines = (close, b"content-encoding: gzip") if what == "gzip" else (close,)
        yield Bad(f"body: {what}", with_body(method, path, body, *lines), (400, 404, 413))
    yield Bad("too large", head(method, path, b"content-length: 300000") + b"x" * 300_000, (413,))
    yield Bad("cut short", head(method, path, b"content-length: 50") + b'{"name":', (), ends=True)
    yield Bad(
        "expectation", with_body(method, path, b"[]", b"expect: 100-continue", close), (400, 404)
    )


def body_of_none(method: str, path: str) -> Iterator[Bad]:
    """A body for an endpoint that takes none."""
    yield Bad("a body", with_body(method, path, b"{}"), (400,))


def bad_credentials(method: str, path: str) -> Iterator[Bad]:
    """The right credential, not where it belongs; few enough not to be locked out."""
    for line in (
        AUTHORIZATION.replace(b"Bearer ", b"Basic "),
        AUTHORIZATION + b"\r\n" + AUTHORIZATION,
        b"authorization: Bearer " + INTERNAL_TOKEN.encode(),
        b"x-omnigate-internal: " + ADMIN_TOKEN.encode(),
        b"authorization:",
    ):
        sent = head(method, path).replace(AUTHORIZATION, line)
        sent = sent.replace(b"\r\n\r\n", b"\r\ncontent-length: 2\r\n\r\n{}")
        yield Bad(f"credential {line[:30]!r}", sent, (401,))

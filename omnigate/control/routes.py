"""What the control plane answers: endpoints by path, whom each is for, and what it may be sent.

The guard and the router must see the same path, so a path has one spelling, and the first segment
alone decides whose credentials are asked for. Everything here is judged from the head of a
request, before any of its body is read.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import unquote

import attrs

from omnigate.control.auth import ADMIN, INTERNAL, OPEN
from omnigate.errors import GatewayError

#: The longest path and query that mean anything here stay under a tenth of this.
MAX_TARGET_BYTES: Final = 2048

#: More parameters than any endpoint has.
MAX_PARAMETERS: Final = 16

_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+|/", re.ASCII)
_PARAMETER = re.compile(r"([a-z_]+)=((?:[A-Za-z0-9._~:+,-]|%[0-9A-Fa-f]{2})*)", re.ASCII)
_SEGMENT_NAME = "{name}"

#: Whose credentials a path needs, by its first segment; any other segment is a 404.
AUDIENCES: Final[Mapping[str, str]] = {
    "internal": INTERNAL,
    "admin": ADMIN,
    "metrics": ADMIN,
    "healthz": OPEN,
    "livez": OPEN,
    "readyz": OPEN,
}


@attrs.frozen
class Call:
    """One request as an endpoint sees it: judged, its body whole.

    :ivar name: the last segment of the path, where the endpoint's pattern leaves it open.
    :ivar query: the parameters that the endpoint knows, each at most once, decoded.
    :ivar accept: the ``accept`` header, or the empty string.
    :ivar if_none_match: the ``if-none-match`` header, or the empty string.
    """

    method: str
    path: str
    name: str
    query: Mapping[str, str]
    body: bytes
    request_id: str
    accept: str = ""
    if_none_match: str = ""


@attrs.frozen
class Answer:
    """What an endpoint answers."""

    body: bytes = b""
    content_type: bytes = b"application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


Run = Callable[[Call], Awaitable[Answer]]


@attrs.frozen
class Endpoint:
    """One method of one path.

    :ivar pattern: the path; a closing ``{name}`` stands for one segment.
    :ivar body_limit: the largest body in bytes; 0 for an endpoint that takes none.
    :ivar query: the parameters it knows.
    """

    method: str
    pattern: str
    run: Run
    body_limit: int = 0
    query: frozenset[str] = frozenset()


@attrs.frozen
class Target:
    """A request target in its one spelling."""

    path: str
    query: str


def parse_target(target: bytes) -> Target:
    """Split a request target, or refuse it.

    :raises GatewayError: ``invalid_path`` for a path with an encoded character, an empty or a
        dotted segment, or any character outside a small set.
    """
    text = target.decode("ascii", "replace")
    path, _, query = text.partition("?")
    if (
        len(target) > MAX_TARGET_BYTES
        or not _PATH.fullmatch(path)
        or any(segment in (".", "..") for segment in path.split("/"))
    ):
        raise GatewayError(
            "invalid_path",
            "a path is written with letters, digits and . _ ~ - between single slashes; nothing "
            "in it is percent-encoded",
        )
    return Target(path, query)


def audience_of(path: str) -> str:
    """Return whose credentials a path needs.

    :raises GatewayError: ``not_found`` for a first segment that nothing is behind.
    """
    audience = AUDIENCES.get(path.split("/")[1])
    if audience is None:
        raise GatewayError("not_found", "there is nothing here; the admin API is under /admin/")
    return audience


def parse_query(query: str, known: frozenset[str]) -> dict[str, str]:
    """Return the parameters of a query, percent-decoded once.

    :raises GatewayError: ``invalid_request`` for a parameter that the endpoint does not know, one
        given twice, or one that is no plain ``name=value``.
    """
    parameters: dict[str, str] = {}
    parts = query.split("&") if query else []
    if len(parts) > MAX_PARAMETERS:
        raise GatewayError("invalid_request", f"a query has at most {MAX_PARAMETERS} parameters")
    for part in parts:
        found = _PARAMETER.fullmatch(part)
        if found is None:
            raise GatewayError("invalid_request", "the query must be plain name=value pairs")
        name = found[1]
        if name not in known:
            wanted = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise GatewayError(
                "invalid_request", f'no parameter "{name[:40]}" here; {wanted}', param=name[:40]
            )
        if name in parameters:
            raise GatewayError("invalid_request", f"{name} is given twice", param=name)
        try:
            parameters[name] = unquote(found[2], errors="strict")
        except UnicodeDecodeError:
            raise GatewayError("invalid_request", f"{name} is not UTF-8", param=name) from None
    return parameters


class Routes:
    """All endpoints of the control plane."""

    def __init__(self, *endpoints: Endpoint) -> None:
        self._exact: dict[str, dict[str, Endpoint]] = {}
        self._open: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            stem = endpoint.pattern.removesuffix(_SEGMENT_NAME)
            table = self._exact if stem == endpoint.pattern else self._open
            methods = table.setdefault(stem, {})
            methods[endpoint.method] = endpoint
            if endpoint.method == "GET":
                methods.setdefault("HEAD", endpoint)

    def find(self, method: str, path: str) -> tuple[Endpoint, str]:
        """Return the endpoint for a request, and the segment that its pattern leaves open.

        :raises GatewayError: ``not_found``, or ``method_not_allowed`` with ``allow``.
        """
        methods, name = self._exact.get(path), ""
        if methods is None:
            stem, _, name = path.rpartition("/")
            methods = self._open.get(stem + "/")
        if methods is None:
            raise GatewayError("not_found", "there is no such endpoint")
        endpoint = methods.get(method)
        if endpoint is None:
            allowed = ", ".join(sorted(methods))
            raise GatewayError(
                "method_not_allowed",
                f"this path takes {allowed}",
                headers=((b"allow", allowed.encode("ascii")),),
            )
        return endpoint, name

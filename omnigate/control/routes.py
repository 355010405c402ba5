"""What the control plane answers: endpoints by path, whom each is for, and what it may be sent.

The gate and the router must see the same path, so a path has one spelling, and the first segment
alone decides whose credentials are asked for. Everything here is judged from the head of a
request, before any of its body is read.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote

import attrs

from omnigate.control.auth import ADMIN, INTERNAL, OPEN, PEOPLE, STRANGERS
from omnigate.control.byte_stream import ByteStream
from omnigate.control.forms import NO_FORM, Form
from omnigate.control.parameters import Parameter
from omnigate.control.schemas import NAME, Schema
from omnigate.control.sessions import Session
from omnigate.errors import GatewayError

#: The longest path and query that mean anything here stay under a tenth of this.
MAX_TARGET_BYTES: Final = 2048

#: More parameters than any endpoint has.
MAX_PARAMETERS: Final = 16

_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+|/", re.ASCII)
_PARAMETER = re.compile(r"([a-z_]+)=((?:[A-Za-z0-9._~:+,-]|%[0-9A-Fa-f]{2})*)", re.ASCII)
_NAMED_SEGMENT = re.compile(r"\{[a-z_]+\}")

#: Segments of the longest pattern; one that is left open is looked for among so many.
MAX_SEGMENTS: Final = 6

READ: Final = "read"
WRITE: Final = "write"

#: Whose credentials a path needs, by its first segment; any other segment is a 404.
AUDIENCES: Final[Mapping[str, str]] = {
    "internal": INTERNAL,
    "admin": ADMIN,
    "metrics": ADMIN,
    "healthz": OPEN,
    "livez": OPEN,
    "readyz": OPEN,
    # The dashboard.
    "": PEOPLE,
    "live": PEOPLE,
    "requests": PEOPLE,
    "jobs": PEOPLE,
    "job-files": PEOPLE,
    "keys": PEOPLE,
    "models": PEOPLE,
    "usage": PEOPLE,
    "refusals": PEOPLE,
    "audit": PEOPLE,
    "config": PEOPLE,
    "admin-keys": PEOPLE,
    "try": PEOPLE,
    "sign-out": PEOPLE,
    "sign-in": STRANGERS,
    "assets": STRANGERS,
}


@attrs.frozen
class Call:
    """One request as an endpoint sees it: judged, its body whole.

    :ivar name: the segment of the path that the endpoint's pattern leaves open; of two, both with
        a slash between.
    :ivar query: the parameters that the endpoint knows, each at most once, decoded.
    :ivar accept: the ``accept`` header, or the empty string.
    :ivar actor: whose credential it came with, as the audit log names it: ``admin-token``,
        ``admin-key:NAME``, or the empty string where no operator's is asked for.
    :ivar address: where it came from.
    :ivar if_none_match: the ``if-none-match`` header, or the empty string.
    :ivar range: the ``range`` header, or the empty string; ``if_range`` the ``if-range`` header.
    :ivar key_sha256: on paths for data planes: the identity of the gateway key that a client has
        shown, or the empty string.
    :ivar idempotency_key: there: the ``idempotency-key`` header of the client, or the empty string.
    :ivar session: who has signed in, on pages that are for such people.
    :ivar form: what a person has filled in, whole and known to come from our own page.
    :ivar is_secure: whether it came over TLS, as far as one can know.
    :ivar origin: where the browser finds these pages, such as ``https://gate.example.com``.
    """

    method: str
    path: str
    name: str
    query: Mapping[str, str]
    body: bytes = attrs.field(repr=False)
    request_id: str
    accept: str = ""
    if_none_match: str = ""
    range: str = ""
    if_range: str = ""
    key_sha256: str = ""
    idempotency_key: str = ""
    actor: str = ""
    address: str = ""
    session: Session | None = None
    form: Form = NO_FORM
    is_secure: bool = False
    origin: str = ""

    @property
    def person(self) -> Session:
        """Who has signed in; on a page for such people there is somebody."""
        assert self.session is not None
        return self.session


@attrs.frozen
class Answer:
    """What an endpoint answers.

    :ivar stream: for an answer that goes on: given what to write to when its head is written. Its
        ``body`` is empty then.
    """

    body: bytes = attrs.field(default=b"", repr=False)
    content_type: bytes = b"application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)
    stream: Callable[[ByteStream], None] | None = None


Run = Callable[[Call], Awaitable[Answer]]


def _scope_of(endpoint: Endpoint) -> str:
    return READ if endpoint.method == "GET" else WRITE


@attrs.frozen
class Endpoint:
    """One method of one path, and all that a caller has to know of it.

    :ivar pattern: the path; a segment in braces stands for any. There is one at most, or the last
        two are such.
    :ivar body_limit: the largest body in bytes; 0 for an endpoint that takes none.
    :ivar summary: what it does, in a few words.
    :ivar parameters: what its query may hold.
    :ivar body: what a body must be like.
    :ivar answer: what the JSON of an answer is like; ``None`` where it is no JSON.
    :ivar status: the status of an answer.
    :ivar other_types: content types that it answers beside JSON.
    :ivar refusals: codes of refusals that not every endpoint has.
    :ivar segment: what the open segment of its pattern must be like.
    :ivar scope: what a credential must allow: :data:`READ` or :data:`WRITE`.
    :ivar free_query: whether its query is of filters that a form has filled in: an empty one means
        nothing, and one that is not known is passed over.
    """

    method: str
    pattern: str
    run: Run
    body_limit: int = attrs.field(default=0, kw_only=True)
    summary: str = attrs.field(default="", kw_only=True)
    parameters: tuple[Parameter, ...] = attrs.field(default=(), kw_only=True)
    body: Schema | None = attrs.field(default=None, kw_only=True, eq=False)
    answer: Schema | None = attrs.field(default=None, kw_only=True, eq=False)
    status: int = attrs.field(default=200, kw_only=True)
    other_types: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    refusals: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    segment: Schema = attrs.field(default=NAME, kw_only=True, eq=False)
    scope: str = attrs.field(default=attrs.Factory(_scope_of, takes_self=True), kw_only=True)
    free_query: bool = attrs.field(default=False, kw_only=True)

    @property
    def is_page(self) -> bool:
        """Whether it is for people with a browser."""
        return audience_of(self.pattern) in (PEOPLE, STRANGERS)

    @property
    def query(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return tuple(parameter.name for parameter in self.parameters)


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


def parse_query(query: str, known: Collection[str]) -> dict[str, str]:
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


def parse_filters(query: str) -> dict[str, str]:
    """Return the filters of a query as browsers write it, those left out that are empty.

    :raises GatewayError: ``invalid_request``; it holds too many, or no UTF-8.
    """
    try:
        pairs = parse_qsl(query, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise GatewayError(
            "invalid_request", f"the address holds no UTF-8, or more than {MAX_PARAMETERS} filters"
        ) from None
    return {name: value.strip() for name, value in pairs if value.strip()}


class Finder(Protocol):
    """Knows the endpoint for a request."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All endpoints."""

    def find(self, method: str, path: str) -> tuple[Endpoint, str]:
        """Return the endpoint for a request, and the segment that its pattern leaves open."""


class Routes:
    """A table of endpoints."""

    def __init__(self, *endpoints: Endpoint) -> None:
        self.endpoints: tuple[Endpoint, ...] = endpoints
        self._exact: dict[str, dict[str, Endpoint]] = {}
        self._open: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            stem, opened = _NAMED_SEGMENT.subn("{}", endpoint.pattern)
            table = self._open if opened else self._exact
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
            methods, name = self._find_open(path)
        if methods is None:
            is_page = AUDIENCES.get(path.split("/")[1]) in (PEOPLE, STRANGERS)
            what = "page" if is_page else "endpoint"
            raise GatewayError("not_found", f"there is no such {what}")
        endpoint = methods.get(method)
        if endpoint is None:
            allowed = ", ".join(sorted(methods))
            raise GatewayError(
                "method_not_allowed",
                f"this path takes {allowed}",
                headers=((b"allow", allowed.encode("ascii")),),
            )
        return endpoint, name

    def _find_open(self, path: str) -> tuple[dict[str, Endpoint] | None, str]:
        """Find a pattern with an open segment, the last one first."""
        segments = path.split("/")
        if len(segments) <= MAX_SEGMENTS + 1:
            for index in range(len(segments) - 1, 1, -1):
                stem = "/".join([*segments[:index], "{}", *segments[index + 1 :]])
                if stem in self._open:
                    return self._open[stem], segments[index]
            stem = "/".join([*segments[:-2], "{}", "{}"])
            if stem in self._open:
                return self._open[stem], "/".join(segments[-2:])
        return None, ""

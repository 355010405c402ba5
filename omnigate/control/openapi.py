"""The OpenAPI document of the admin API, made of the endpoints as the router has them.

Nothing in it is written by hand twice: paths, parameters, bodies, answers and refusals are those
that the endpoints themselves say. What data planes call is left out,
since it is for nobody else, and so are pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import omnigate
from omnigate.control.admin_json import FAULTS, encode
from omnigate.control.auth import ADMIN, INTERNAL, OPEN
from omnigate.control.routes import WRITE, Answer, Call, Endpoint, audience_of
from omnigate.control.schemas import ANYTHING, TEXT, Schema, record
from omnigate.errors import ADMIN_ERRORS, ERRORS, GatewayError

PATH: Final = "/admin/openapi.json"

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

#: Refusals of every endpoint, and of every one that needs a credential, may write, takes a body.
EVERYONES: Final = ("invalid_request", "invalid_path", "internal_error", "not_ready")
WITH_CREDENTIAL: Final = ("invalid_token", "too_many_attempts", "address_not_allowed")
WITH_SCOPE: Final = ("insufficient_scope",)
WITH_BODY: Final = ("invalid_json", "length_required", "request_too_large")

#: A refusal (RFC 9457), with the code of the table.
PROBLEM: Final[Schema] = record(
    {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": TEXT,
        "code": {"type": "string", "enum": sorted({*ERRORS, *ADMIN_ERRORS})},
        "param": TEXT,
        "faults": FAULTS,
    },
    optional=("param", "faults"),
    title="Problem",
)

_ABOUT: Final = (
    "The control plane of omnigate: gateway keys, usage, the config in force, and what operators "
    "do. HTTP/1.1 only; paths are never percent-encoded, and a parameter that is not described "
    "here is refused. Money is an exact decimal number of US dollars. Wherever there is GET there "
    "is HEAD."
)
_SECURITY: Final = "operator"
_OPENED: Final = re.compile(r"\{([a-z_]+)\}")


def codes_of(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the codes of all refusals that an endpoint may answer."""
    codes = [*EVERYONES, *endpoint.refusals]
    if audience_of(endpoint.pattern) == ADMIN:
        codes += WITH_CREDENTIAL
        codes += WITH_SCOPE if endpoint.scope == WRITE else ()
    if endpoint.body_limit:
        codes += WITH_BODY
    return tuple(dict.fromkeys(codes))


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        if audience_of(endpoint.pattern) != INTERNAL and not endpoint.is_page:
            operation = _operation(endpoint)
            paths[endpoint.pattern][endpoint.method.lower()] = _hoisted(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "omnigate admin API",
            "version": omnigate.__version__,
            "description": _ABOUT,
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                _SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the admin token, or the secret of an admin key",
                }
            },
        },
        "security": [{_SECURITY: []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _identifier(endpoint),
        "summary": endpoint.summary,
        "tags": [endpoint.pattern.split("/")[-1 if endpoint.pattern.count("/") == 1 else 2]],
        "x-scope": endpoint.scope,
    }
    parameters = [*_opened(endpoint), *_query(endpoint)]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {JSON: {"schema": endpoint.body}}
        operation["requestBody"] = {"required": True, "content": content}
    if audience_of(endpoint.pattern) == OPEN:
        operation["security"] = []
    operation["responses"] = {str(endpoint.status): _answered(endpoint), **_refusals(endpoint)}
    return operation


def _identifier(endpoint: Endpoint) -> str:
    """Return a name in camel case, such as ``getAdminKeysByName``."""
    words = _OPENED.sub(r"by_\1", endpoint.pattern).replace(".", "_")
    parts = [part.capitalize() for part in re.split(r"[/_-]", words) if part]
    return endpoint.method.lower() + "".join(parts)


def _opened(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": endpoint.segment}
        for name in _OPENED.findall(endpoint.pattern)
    ]


def _query(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "in": "query",
            "required": False,
            "description": parameter.description,
            "schema": parameter.schema,
        }
        for parameter in endpoint.parameters
    ]


def _answered(endpoint: Endpoint) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if endpoint.answer is not None:
        content[JSON] = {"schema": endpoint.answer}
    for content_type in endpoint.other_types:
        content[content_type] = {"schema": TEXT}
    return {"description": endpoint.summary, "content": content}


def _refusals(endpoint: Endpoint) -> dict[str, Any]:
    """Return the refusals by status, each with the codes it may have."""
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in codes_of(endpoint):
        by_status[(ERRORS.get(code) or ADMIN_ERRORS[code]).status].append(code)
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {PROBLEM_JSON: {"schema": PROBLEM}},
        }
        for status, codes in sorted(by_status.items())
    }


def _hoisted(value: Any, schemas: dict[str, Any]) -> Any:
    """Return a value with every schema that has a title replaced by a reference to it.

    :raises ValueError: two schemas have one title.
    """
    if isinstance(value, list | tuple):
        return [_hoisted(item, schemas) for item in value]
    if not isinstance(value, Mapping):
        return value
    plain = {name: _hoisted(member, schemas) for name, member in value.items()}
    title = value.get("title")
    # A member may be called "title", too; its value is a schema and no text.
    if not isinstance(title, str) or "type" not in value:
        return plain
    if schemas.setdefault(title, plain) != plain:
        raise ValueError(f"two schemas are called {title}")
    return {"$ref": f"#/components/schemas/{title}"}


class OpenApi:
    """Serves the document; it needs no store, so it answers whatever else is down."""

    def __init__(self) -> None:
        self._endpoints: tuple[Endpoint, ...] = ()
        self._document = b""

    def describe(self, endpoints: Iterable[Endpoint]) -> None:
        """Take these endpoints into the document, in place of any before."""
        self._endpoints = tuple(endpoints)
        self._document = b""

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/openapi.json",
                self.show,
                summary="Show this document",
                answer=ANYTHING,
            ),
        )

    async def show(self, call: Call) -> Answer:
        """Answer the document."""
        if not self._endpoints:
            raise GatewayError("not_ready", "starting", retry_after=1)
        if not self._document:
            # It takes 15 ms, and few ever ask for it.
            self._document = encode(document(self._endpoints))
        return Answer(self._document)

"""The golden cases of media jobs: the files of ``tests/jobs/vectors`` as values.

A case is what the client posts, the route, the exchanges with providers and file hosts in their
order, and what must come of it. ``kind`` of an exchange is ``catalog``, ``submit``, ``poll``,
``result``, ``cancel``, ``download``, or ``restart``, where the control plane stops and starts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

from omnigate.config.media import ADAPTERS as ADAPTER_NAMES
from omnigate.jobs.adapters.base import Task
from omnigate.outbound.messages import (
    CONNECTION_LOST,
    TIMEOUT,
    TOO_LARGE,
    Answer,
    Cap,
    KeptMedia,
    Request,
)

FOLDER = Path(__file__).resolve().parent / "vectors"

#: What stands in a vector where the gateway's own id and the target's place are to be.
IDEMPOTENCY = "{gateway job id}:{target index}"

_FAULTS = {"connection_reset": CONNECTION_LOST, "read_timeout": TIMEOUT}
_API_BYTES = 4 * 2**20
# Base64 from here on is taken out of an answer with ``Cap.INLINE``; shorter than any true file.
_INLINE_CHARS = 24


@attrs.frozen
class Exchange:
    """One request and what it is answered with.

    :ivar repeat: empty, or until when it comes again and again.
    """

    kind: str
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    repeat: str = ""

    @property
    def body(self) -> bytes:
        """The body of the answer."""
        response = self.response
        if "json" in response:
            return json.dumps(response["json"]).encode()
        if "body_repeat" in response:
            repeat: dict[str, int] = response["body_repeat"]
            return bytes((repeat["byte"],)) * repeat["count"]
        return base64.b64decode(response.get("body_base64", ""))

    def answer(self, request: Request, *, taken_out: bool = False) -> Answer:
        """Return the answer as who sends requests gives it.

        :param taken_out: whether base64 was taken out of an answer with ``Cap.INLINE``, as happens
            where it is long.
        """
        if "fault" in self.response:
            fault = _FAULTS[self.response["fault"]]
            return Answer(0, fault=fault, detail=f"the provider's connection: {fault}")
        status, headers, body = self.response["status"], self.response.get("headers", {}), self.body
        if request.cap is Cap.API and len(body) > _API_BYTES:
            return Answer(status, headers, fault=TOO_LARGE, detail="an answer over 4 MiB")
        if request.cap is Cap.OUTPUT and 200 <= status < 300:
            return Answer(status, headers, kept=kept_media(body))
        if request.cap is Cap.INLINE and taken_out and "json" in self.response:
            media: dict[str, KeptMedia] = {}
            tree = _without_media(self.response["json"], media)
            return Answer(status, headers, json.dumps(tree).encode(), media=media)
        return Answer(status, headers, body)

    def faults(self, request: Request, job_id: str, target: int) -> list[str]:
        """Return how a request differs from the one that this exchange asks for."""
        wanted = self.request
        found = []
        url = urlsplit(request.url)
        sent_url = request.url
        if "query" in wanted:
            sent_url = url._replace(query="").geturl()
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if query != {name: str(value) for name, value in wanted["query"].items()}:
                found.append(f"query {query}, wanted {wanted['query']}")
        if (request.method, sent_url) != (wanted["method"], wanted["url"]):
            found.append(f"{request.method} {sent_url}, wanted {wanted['method']} {wanted['url']}")
        headers = dict(request.headers)
        if len(headers) != len(request.headers):
            found.append("a header is sent twice")
        for name, value in wanted.get("headers", {}).items():
            value = value.replace(IDEMPOTENCY, f"{job_id}:{target}")
            if headers.get(name) != value:
                found.append(f"header {name}: {headers.get(name)}, wanted {value}")
        found += [
            f"header {name} is there"
            for name in wanted.get("absent_headers", ())
            if name in headers
        ]
        if "json" in wanted and _canonical(json.loads(request.body)) != _canonical(wanted["json"]):
            found.append(f"body {request.body!r}, wanted {wanted['json']}")
        return found


@attrs.frozen
class Case:
    """One golden case.

    :ivar media: settings of ``[media]`` that are not the usual ones.
    :ivar dns: what a host resolves to; others are at 93.184.216.34.
    :ivar cancel_after: the client's cancel comes after so many exchanges; -1: it never does.
    """

    id: str
    model: str
    input: dict[str, Any]
    route: Mapping[str, Any]
    media: Mapping[str, Any]
    secrets: Mapping[str, str]
    dns: Mapping[str, Sequence[str]]
    exchanges: Sequence[Exchange]
    cancel_after: int
    expect: Mapping[str, Any]

    def task(self, target: int, job_id: str) -> Task:
        """Return what an adapter is told of one target of the route."""
        config = self.route["targets"][target]
        return Task(
            job_id=job_id,
            target=target,
            base_url=config["base_url"],
            model=config["model"],
            input=self.input,
            credential=self.secrets.get(config.get("api_key_env", ""), ""),
            timeout_s=self.route.get("timeout_s", 600),
            background=config.get("background"),
        )


def cases(file: str) -> list[Case]:
    """Return the cases of ``common`` or of an adapter's name."""
    return cases_in((FOLDER / f"{file}.json").read_text(encoding="utf-8"))


def cases_in(text: str) -> list[Case]:
    """Return the cases of a file's text."""
    return [_case(vector) for vector in json.loads(text)["vectors"]]


def every_case() -> list[Case]:
    """Return those of all adapters, and those that are the same for all."""
    return [case for file in (*ADAPTER_NAMES, "common") for case in cases(file)]


def kept_media(content: bytes, prefix: str = "") -> KeptMedia:
    """Return content as it is told of when it lies in a file; there is none here."""
    return KeptMedia("", len(content), hashlib.sha256(content).hexdigest(), content[:64], prefix)


def _case(vector: Mapping[str, Any]) -> Case:
    exchanges = tuple(
        Exchange(
            one["kind"], one.get("request", {}), one.get("response", {}), one.get("repeat", "")
        )
        for one in vector["exchanges"]
    )
    return Case(
        id=vector["id"],
        model=vector["job"]["model"],
        input=vector["job"]["input"],
        route=vector["route"],
        media=vector.get("media", {}),
        secrets=vector.get("secrets", {}),
        dns=vector.get("dns", {}),
        exchanges=exchanges,
        cancel_after=vector.get("client_cancel_after", -1),
        expect=vector["expect"],
    )


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _without_media(value: Any, media: dict[str, KeptMedia]) -> Any:
    if isinstance(value, dict):
        return {name: _without_media(part, media) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_media(part, media) for part in value]
    if not isinstance(value, str) or len(value) < _INLINE_CHARS:
        return value
    head, comma, data = value.rpartition(",")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return value
    marker = f"marker-{len(media)}"
    media[marker] = kept_media(content, head + comma)
    return marker

"""Holds answers of the admin API against its own OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigate.testing.json_schema import faults
from tests.control.conversation import Reply

PROBLEM = {"$ref": "#/components/schemas/Problem"}


class Described:
    """What the document says of answers.

    :ivar seen: path, method and status of every answer that was held against it.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str, int]] = set()

    def check(self, method: str, target: str, reply: Reply) -> None:
        """Fail unless an answer is as the document says."""
        content_type = reply.headers.get("content-type", "").partition(";")[0]
        assert reply.headers["cache-control"] == "no-store", reply.headers
        path, operation = self._operation(method, target)
        told = operation.get("responses", {}).get(str(reply.status))
        self.seen.add((path, method, reply.status))
        if told is None:
            # No such path or method, or what HTTP itself forbids.
            assert reply.status >= 400, (method, target, reply.status)
            assert not operation or reply.status in (400, 411, 413), (method, target, reply)
            self._match(PROBLEM, reply)
            return
        assert content_type in told["content"], (method, target, content_type)
        if content_type.endswith("json"):
            self._match(told["content"][content_type]["schema"], reply)
        if reply.status >= 400 and method != "HEAD":
            assert reply.json()["code"] in told["description"].split(", "), (target, reply.body)

    def _match(self, schema: Any, reply: Reply) -> None:
        if reply.body:
            found = list(faults(json.loads(reply.body), schema, self.document))
            assert not found, found

    def _operation(self, method: str, target: str) -> tuple[str, Mapping[str, Any]]:
        """Find what is said of a request; nothing where its path or method is not described."""
        segments = target.partition("?")[0].split("/")
        best: tuple[str, Mapping[str, Any]] = ("", {})
        for template, methods in self.document["paths"].items():
            parts = template.split("/")
            if len(parts) == len(segments) and all(
                part.startswith("{") or part == segment
                for part, segment in zip(parts, segments, strict=True)
            ):
                found = methods.get("get" if method == "HEAD" else method.lower(), {})
                if "{" not in template:
                    return template, found
                best = template, found
        return best

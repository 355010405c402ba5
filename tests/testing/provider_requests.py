"""Requests for tests of the fake provider, made without a wire."""

import json
from typing import Any

from omnigate.testing.provider_request import SeenRequest


def post(path: str, /, *, ordinal: int = 1, headers: Any = None, **fields: Any) -> SeenRequest:
    """A POST with these fields as its body."""
    return SeenRequest(
        number=5,
        connection=1,
        ordinal=ordinal,
        method="POST",
        path=path,
        query="",
        http10=False,
        headers=headers or {},
        body=json.dumps(fields).encode(),
        fields=fields,
    )


def get(path: str, headers: Any = None) -> SeenRequest:
    """A GET of a path."""
    return SeenRequest(5, 1, 1, "GET", path, "", False, headers or {}, b"", {})


def chat(model: str, **fields: Any) -> SeenRequest:
    """A chat completion."""
    messages = [{"role": "user", "content": "What is a gateway?"}]
    return post("/v1/chat/completions", model=model, messages=messages, **fields)


def messages(model: str, **fields: Any) -> SeenRequest:
    """An Anthropic message."""
    turns = [{"role": "user", "content": "What is a gateway?"}]
    fields.setdefault("max_tokens", 100)
    return post("/v1/messages", model=model, messages=turns, **fields)


def responses(model: str, **fields: Any) -> SeenRequest:
    """A request of the Responses API."""
    return post("/v1/responses", model=model, input="What is a gateway?", **fields)

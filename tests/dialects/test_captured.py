"""Requests that real clients sent, towards an upstream of each other protocol.

The texts of the corpus were replaced by their length and a number, its ids by words. Each request
is accepted, and what a client wrote in words (texts, names of tools, their schemas, the arguments
and answers of calls) is in what goes upstream.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.shapes import Quirk
from omnigate.errors import GatewayError
from tests.dialects.test_translated_wholes import piece

CORPUS = Path(__file__).resolve().parent.parent / "corpus" / "captured_requests.json"
_PROTOCOLS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}
#: What asks for something that no other protocol has, by client and label; and the field.
_REFUSED = {
    ("py-openai", "chat_extra_params"): "logprobs",
    ("py-anthropic", "rich"): "tools[1]",
}
#: Members whose strings are words of the conversation or of its tools.
_WORDS = ("text", "name", "description", "arguments", "content", "output")
_CAPS = Capabilities(reasoning=True, efforts=("low", "medium", "high"))


def captured() -> list[dict[str, Any]]:
    """Return the requests for answers of a model."""
    rows: list[dict[str, Any]] = json.loads(CORPUS.read_text(encoding="utf-8"))
    return [row for row in rows if row["path"] in _PROTOCOLS]


def words(value: Any, member: str = "") -> Iterator[str]:
    """Find what was said, at any depth; of the arguments of a call, what they hold."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from words(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from words(inner, member)
    elif isinstance(value, str) and member == "arguments":
        yield from strings(json.loads(value))
    elif isinstance(value, str) and value.strip() and member in _WORDS:
        yield value


def strings(value: Any) -> Iterator[str]:
    """Find every string, those in a text that is a JSON object too."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value
        if value.startswith("{"):
            with contextlib.suppress(ValueError):
                yield from strings(json.loads(value))


def said(body: dict[str, Any]) -> set[str]:
    """Return what must not get lost of a request: all words of its conversation and tools."""
    parts = {name: body.get(name) for name in ("messages", "input", "system", "instructions")}
    found = set(words(parts, "content"))
    for tool in body.get("tools") or ():
        found |= set(words(tool))
    return found


class CapturedTests(SynchronousTestCase):
    """See the module's docstring."""

    def test_accepted_and_whole(self) -> None:
        """Towards either of the other protocols nothing said is lost."""
        for row in captured():
            client = _PROTOCOLS[row["path"]]
            body = json.dumps(row["body"]).encode()
            for upstream in ("chat", "messages", "responses"):
                if upstream == client:
                    continue
                what = f"{row['client']} {row['label']} to {upstream}"
                field = _REFUSED.get((row["client"], row["label"]))
                try:
                    request = piece(client, "request_reader").read_request(body)
                    writer = piece(upstream, "request_writer")
                    sent = writer.write_request(request, "model", _CAPS, Quirk.NONE).body
                except GatewayError as error:
                    self.assertEqual(error.param, field, f"{what}: {error}")
                    continue
                self.assertIsNone(field, what)
                told = set(strings(json.loads(sent)))
                lost = [text for text in said(row["body"]) if text not in told]
                self.assertEqual(lost, [], what)

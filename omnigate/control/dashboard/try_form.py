"""What somebody wants to try: the form read, and the request that comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.control.admin_key import PREFIX as ADMIN_PREFIX
from omnigate.control.dashboard.data_plane import DataRequest
from omnigate.control.forms import Form

CHAT: Final = "chat"
MESSAGES: Final = "messages"
RESPONSES: Final = "responses"

#: Kinds of requests, as usage events name them, with words for people.
STYLES: Final[Mapping[str, str]] = {
    CHAT: "OpenAI chat completions",
    MESSAGES: "Anthropic messages",
    RESPONSES: "OpenAI responses",
}
_PATHS: Final = {
    CHAT: "/v1/chat/completions",
    MESSAGES: "/v1/messages",
    RESPONSES: "/v1/responses",
}

#: Where the key comes from.
PASTED: Final = "pasted"
MADE: Final = "made"

#: A form of this length holds texts of some ten thousand words, percent-encoded.
MAX_FORM_BYTES: Final = 64 * 1024

#: Longer than any model name of a config, and than any gateway key.
MAX_NAME_CHARS: Final = 256
MAX_SECRET_CHARS: Final = 512

DEFAULT_MAX_TOKENS: Final = "200"
_MAX_TOKENS: Final = 1_000_000

_SECRET: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,7}", re.ASCII)


@attrs.frozen
class TryForm:
    """A form as it was filled in; of :attr:`secret` no page may show anything.

    :ivar source: where the key comes from: :data:`PASTED` or :data:`MADE`.
    :ivar faults: what is wrong, by the name of the field.
    """

    model: str = ""
    style: str = CHAT
    source: str = MADE
    secret: str = attrs.field(default="", repr=False)
    system: str = ""
    message: str = "Say hello in one sentence."
    max_tokens: str = DEFAULT_MAX_TOKENS
    is_stream: bool = True
    faults: Mapping[str, str] = attrs.Factory(dict)

    def request(self, secret: str) -> DataRequest:
        """Return the request for the data plane; the form has no faults."""
        body = json.dumps(_BODIES[self.style](self), ensure_ascii=False)
        versions = ((b"anthropic-version", b"2023-06-01"),) if self.style == MESSAGES else ()
        return DataRequest(_PATHS[self.style], secret, body.encode("utf-8"), versions)


def asked_for(query: Mapping[str, str]) -> TryForm:
    """Return the empty form, with what a link has chosen."""
    style = query.get("style", CHAT)
    return TryForm(
        model=query.get("model", "")[:MAX_NAME_CHARS],
        style=style if style in STYLES else CHAT,
    )


def read_try(form: Form) -> TryForm:
    """Return what was filled in, with its faults."""
    filled = TryForm(
        model=form.get("model"),
        style=form.get("style"),
        source=form.get("source"),
        secret=form.get("secret"),
        system=_text(form, "system"),
        message=_text(form, "message"),
        max_tokens=form.get("max_tokens"),
        is_stream=form.get("stream") == "1",
    )
    return attrs.evolve(filled, faults=_faults(filled))


def _text(form: Form, name: str) -> str:
    """Return a longer text with the line ends that models are used to."""
    return form.get(name).replace("\r\n", "\n")


def _faults(filled: TryForm) -> dict[str, str]:
    faults = {}
    if not filled.model or len(filled.model) > MAX_NAME_CHARS:
        faults["model"] = f"Choose a model, or write its name, up to {MAX_NAME_CHARS} characters."
    if filled.style not in STYLES:
        faults["style"] = "Choose one of these."
    if filled.source not in (PASTED, MADE):
        faults["source"] = "Choose one of these."
    if filled.source == PASTED and not _is_secret(filled.secret):
        faults["secret"] = (
            "Paste the secret of a gateway key: visible ASCII characters without blanks, "
            f"up to {MAX_SECRET_CHARS}."
        )
    elif filled.source == PASTED and filled.secret.startswith(ADMIN_PREFIX):
        faults["secret"] = "This is the secret of an admin key; paste the one of a gateway key."
    if not filled.message:
        faults["message"] = "Write something for the model to answer."
    if filled.max_tokens and not (
        _DIGITS.fullmatch(filled.max_tokens) and 1 <= int(filled.max_tokens) <= _MAX_TOKENS
    ):
        faults["max_tokens"] = f"Give a whole number from 1 to {_MAX_TOKENS:,}."
    elif not filled.max_tokens and filled.style == MESSAGES:
        faults["max_tokens"] = "Anthropic messages need this number."
    return faults


def _is_secret(secret: str) -> bool:
    return len(secret) <= MAX_SECRET_CHARS and _SECRET.fullmatch(secret) is not None


def _chat(filled: TryForm) -> dict[str, Any]:
    turns = [{"role": "system", "content": filled.system}] if filled.system else []
    turns.append({"role": "user", "content": filled.message})
    body: dict[str, Any] = {"model": filled.model, "messages": turns, "stream": filled.is_stream}
    if filled.max_tokens:
        body["max_completion_tokens"] = int(filled.max_tokens)
    return body


def _messages(filled: TryForm) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": filled.model,
        "max_tokens": int(filled.max_tokens),
        "messages": [{"role": "user", "content": filled.message}],
        "stream": filled.is_stream,
    }
    if filled.system:
        body["system"] = filled.system
    return body


def _responses(filled: TryForm) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": filled.model,
        "input": filled.message,
        "stream": filled.is_stream,
    }
    if filled.system:
        body["instructions"] = filled.system
    if filled.max_tokens:
        body["max_output_tokens"] = int(filled.max_tokens)
    return body


_BODIES: Final = {CHAT: _chat, MESSAGES: _messages, RESPONSES: _responses}

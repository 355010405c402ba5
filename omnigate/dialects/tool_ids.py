"""Ids and names of tools in the spelling that the other protocol takes.

The same text always becomes the same, so that a call and its result stay together.
"""

import re
import secrets
from hashlib import sha256

MAX_OPENAI_ID_CHARS = 40
"""What Chat takes for the id of a tool call; some servers take more."""
MAX_OPENAI_NAME_CHARS = 64
"""What OpenAI takes for the name of a function; Anthropic takes 128."""

_is_valid = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_ALLOWED = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_SPELLING = bytes(byte if byte in _ALLOWED else ord("_") for byte in range(256))
_DIGEST_CHARS = 8
_MADE_UP_BYTES = 12


def anthropic_id(text: str) -> str:
    """Return an id as Anthropic takes it: of letters, digits, ``_`` and ``-`` only.

    Each other character becomes a ``_``. A client's id may have megabytes, which take 4 ms each.
    """
    if _is_valid(text):
        return text
    spelled = text.encode("ascii", "replace").translate(_SPELLING).decode("ascii")
    return f"{spelled}_{_digest(text)}" if text else text


def openai_id(text: str) -> str:
    """Return an id as OpenAI takes it: of at most :data:`MAX_OPENAI_ID_CHARS` characters."""
    return _shortened(text, MAX_OPENAI_ID_CHARS)


def openai_name(text: str) -> str:
    """Return a name as OpenAI takes it: of at most :data:`MAX_OPENAI_NAME_CHARS` characters."""
    return _shortened(text, MAX_OPENAI_NAME_CHARS)


def made_up_id() -> str:
    """Return an id for a call that came without one; no other call of a conversation has it."""
    return f"toolu_gw_{secrets.token_hex(_MADE_UP_BYTES)}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - _DIGEST_CHARS - 1]}_{_digest(text)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]

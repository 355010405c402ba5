"""The text of a config made fit to be kept and shown: what may be a secret is taken out.

A config names variables and holds hashes of keys, never a secret. But people write what they should
not, in a comment or in an address, and hashes are nobody's business either. What is taken out is
what looks like a credential of a provider or of this gateway, a hash, a password in an address, and
what stands behind a word such as ``password``.
"""

from __future__ import annotations

import re
from typing import Final

from omnigate.text import REDACTED

#: Text that is searched at a time; a pattern holds the interpreter while it searches.
_PIECE_CHARS: Final = 32 * 1024

_SECRETS: Final = re.compile(
    r"\b[0-9A-Fa-f]{64}\b"
    r"|\b(?:sk|pk|rk|xai|gsk|hf|r8|pplx|nvapi|og[akis])[-_][A-Za-z0-9_-]{12,}"
    r"|\bwhsec_[A-Za-z0-9+/]{12,}=*"
    r"|\bAGE-SECRET-KEY-1[A-Z0-9]{12,}"
    r"|\bAIza[A-Za-z0-9_-]{16,}"
    r"|\beyJ[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]+)*"
)
_USER: Final = re.compile(r"(?<=://)[^/\s\"'@]+(?=@)")
#: Words that a secret stands behind, also as the end of another: DB_PASSWORD, MISTRAL_API_KEY. The
#: file's own keys, such as api_key_env and max_tokens, end otherwise.
_WORDS: Final = (
    r"(?<![A-Za-z])(?:pass(?:word|wd|phrase)?|pwd|secret|token|apikey|credential|(?<=[_-])key)\b"
)
_NAMED: Final = re.compile(
    rf"(?i)({_WORDS}[\"']?[ \t]*[=:][ \t]*)(?:(\")[^\"\n]+|(')[^'\n]+|[^\s\"',;]{{6,}})"
)
_HEADER: Final = re.compile(
    r"(?i)(\bauthorization[\"']?[ \t]*[=:][ \t]*[\"']?[A-Za-z]+[ \t]+|\bbearer[ \t]+)[^\s\"',;]{6,}"
)


def redacted(text: str) -> str:
    """Return a text without what may be a secret; every line of it stays a line."""
    pieces: list[str] = []
    held: list[str] = []
    length = 0
    for line in text.splitlines(keepends=True):
        held.append(line)
        length += len(line)
        if length >= _PIECE_CHARS:
            pieces.append(_redacted("".join(held)))
            held.clear()
            length = 0
    pieces.append(_redacted("".join(held)))
    return "".join(pieces)


def _redacted(piece: str) -> str:
    piece = _SECRETS.sub(REDACTED, piece)
    piece = _USER.sub(REDACTED, piece)
    piece = _HEADER.sub(rf"\g<1>{REDACTED}", piece)
    return _NAMED.sub(lambda found: f"{found[1]}{found[2] or found[3] or ''}{REDACTED}", piece)

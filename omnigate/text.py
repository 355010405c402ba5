"""Text from outside made safe: one line of valid UTF-8.

Whatever a client or a provider wrote may end up in a log line, an error message or a file of
records. :func:`one_line` keeps it from breaking the line, the terminal or the encoding.
"""

import re

# C0, DEL and C1 controls; the line and paragraph separators; the marks that turn the reading
# direction round, with which a log line can be made to read as another one.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# Those of C0, DEL and C1 that no text of several lines needs.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SURROGATES = re.compile("[\ud800-\udfff]")

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
REDACTED = "[redacted]"

#: Characters of a client's text that a message or a log line repeats: enough to know it again.
QUOTED_CHARS = 100

#: Characters of an exception's own words in a message: a sentence or two.
REASON_CHARS = 300

# Shorter strings are words of the language as likely as secrets; taking out every "on" or "key"
# would make a message useless and hide nothing. Real credentials are checked to be 16 or more.
MIN_SECRET_CHARS = 6

#: What a spreadsheet takes a cell for a formula by, if the cell begins with it.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    named = _NAMED_ESCAPES.get(char)
    if named is not None:
        return named
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def valid_text(text: str) -> str:
    """Return ``text`` with lone surrogates replaced, so that it can be encoded as UTF-8."""
    if text.isascii():
        return text
    return _SURROGATES.sub(REPLACEMENT, text)


def without_controls(text: str) -> str:
    """Return text of several lines whose control characters do nothing to a terminal.

    Line ends and tabs stay; the others are written as JSON writes them, ``\\u001b``, so that JSON
    stays the same value.
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def is_utf8(data: bytes) -> bool:
    """Say whether ``data`` is valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def repair_utf8(data: bytes) -> bytes:
    """Return ``data`` as valid UTF-8, bad sequences replaced by U+FFFD; valid input unchanged."""
    return data if is_utf8(data) else data.decode("utf-8", "replace").encode("utf-8")


def one_line(value: str | bytes, limit: int) -> str:
    """Return ``value`` as one printable line of valid UTF-8, at most ``limit`` characters long.

    Control characters, line separators and marks of reading direction are written as escapes
    (``\\n``, ``\\x1b``, ``\\u2028``); bytes that are not UTF-8 become U+FFFD. A line that had to
    be cut ends with an ellipsis. The work done is bounded by ``limit``, not by the input.

    :param limit: characters of the result; at least 1.
    """
    if isinstance(value, bytes):
        # Four bytes are the longest sequence of one character; a sequence cut here lies beyond
        # the limit and falls away below.
        text = value[: 4 * (limit + 1)].decode("utf-8", "replace")
    else:
        text = value[: limit + 1]
    text = _UNSAFE.sub(_escape, valid_text(text))
    if len(text) <= limit:
        return text
    return text[: limit - 1] + ELLIPSIS


def for_spreadsheets(text: str) -> str:
    """Return a text as a cell of CSV: one that a spreadsheet would run gets an apostrophe first."""
    return f"'{text}" if text.startswith(_FORMULA_SIGNS) else text


def reason_of(error: BaseException, limit: int = REASON_CHARS) -> str:
    """Return what an exception says, on one line of at most ``limit`` characters; else its name."""
    return one_line(str(error), limit) or type(error).__name__


def quoted(text: str) -> str:
    """Return a client's text as a message repeats it: in quotes, on one line, and cut."""
    return repr(one_line(text, QUOTED_CHARS))

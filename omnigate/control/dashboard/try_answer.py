"""What an answer of the data plane says: its text as it comes, and whether it is whole.

Three dialects are read, and only as far as a person looks: text, errors and the mark that closes a
stream. An answer is whole where its framing and its closing mark both say so.
"""

from __future__ import annotations

import codecs
from typing import Any, Final

import attrs
import msgspec

from omnigate.control.dashboard.try_form import CHAT, MESSAGES
from omnigate.text import one_line
from omnigate.wire.sse import EventSplitter, event_data

#: Most of an answer that is read: some 300,000 words, with all that is around each in a stream.
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024

#: Most of an answer that is no stream, or of one event, which is taken apart in one go: 10 to
#: 20 ms at worst.
MAX_BODY_BYTES: Final = 256 * 1024

#: Choices, blocks and other parts that are looked at; a try asks for one.
MAX_PARTS: Final = 64

#: How much of the bytes themselves is shown.
MAX_RAW_BYTES: Final = 64 * 1024

_MAX_WORDS: Final = 1000

#: What closes a stream of messages or of responses.
_CLOSING: Final = ("message_stop", "response.completed", "response.incomplete")

WHOLE: Final = "whole"
CUT: Final = "cut"
REFUSED: Final = "refused"
AWAY: Final = "away"


@attrs.frozen
class Verdict:
    """How it ended.

    :ivar outcome: :data:`WHOLE`, :data:`CUT`, :data:`REFUSED`, or :data:`AWAY` where the data plane
        could not be asked.
    :ivar words: what happened, for people; empty for a whole answer.
    :ivar code: the code of a refusal.
    """

    outcome: str
    words: str = ""
    code: str = ""


class AnswerReader:
    """Reads one answer.

    :param style: of the request, one of :data:`~omnigate.control.dashboard.try_form.STYLES`.
    :param status: of the answer.
    :param is_stream: whether it says that it is a stream of events.
    """

    def __init__(self, style: str, status: int, is_stream: bool) -> None:
        self._style = style
        self._status = status
        self._events = EventSplitter() if is_stream and status == 200 else None
        self._pieces: list[bytes] = []
        self._is_one = self._events is None  # what is taken apart in one go
        self._left = self.most_bytes
        self._raw_left = MAX_RAW_BYTES
        self._raw = codecs.getincrementaldecoder("utf-8")("replace")
        self._failed: Verdict | None = None
        self._closed = False

    @property
    def most_bytes(self) -> int:
        """As much as is read of it."""
        return MAX_BODY_BYTES if self._is_one else MAX_ANSWER_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it is longer than what is read of it."""
        return self._left < 0

    def raw(self, data: bytes) -> str:
        """Return a piece as text, as far as it is shown."""
        shown = data[: self._raw_left]
        self._raw_left -= len(shown)
        return self._raw.decode(shown)

    def feed(self, data: bytes) -> str:
        """Take a piece and return the text for people that it completes."""
        self._left -= len(data)
        if self._left < 0:
            return ""
        if self._events is None:
            self._pieces.append(data)
            return ""
        events = self._events.feed(data)
        if max(self._events.pending_bytes, *map(len, events), 0) > MAX_BODY_BYTES:
            self._is_one, self._left = True, -1
            return ""
        return "".join(map(self._event, events))

    def end(self) -> tuple[str, Verdict]:
        """Take the end that the framing tells of; return the rest of the text and the verdict."""
        if self._status != 200:
            return "", self._refusal()
        if self._failed is not None:
            return "", self._failed
        if self._events is not None:
            if self._closed:
                return "", Verdict(WHOLE)
            return "", Verdict(CUT, "The stream ended without the mark that closes it.")
        answer = _object(b"".join(self._pieces))
        if answer is None:
            return "", Verdict(CUT, "The answer is no JSON object.")
        return _whole_text(self._style, answer), Verdict(WHOLE)

    def lost(self, why: str) -> Verdict:
        """Take the end that is none."""
        if self._status != 200:
            return self._refusal()
        return self._failed or Verdict(CUT, f"The answer broke off: {why}.")

    def _refusal(self) -> Verdict:
        words, code = _error_of(_object(b"".join(self._pieces)) or {})
        return Verdict(REFUSED, words or f"The answer has status {self._status}.", code)

    def _event(self, event: bytes) -> str:
        data = event_data(event)
        if data is None:
            return ""
        if data == b"[DONE]":
            self._closed = self._closed or self._style == CHAT
            return ""
        told = _object(data)
        if told is None:
            return ""
        kind = told.get("type")
        if kind == "response.failed":
            told = _dict(told.get("response"))
        if told.get("error") is not None or kind == "error":
            words, code = _error_of(told)
            self._failed = Verdict(
                CUT, f"The answer ended with an error: {words or 'without words'}", code
            )
            return ""
        if kind in _CLOSING or any(map(_is_finish, _dicts(told.get("choices")))):
            self._closed = True
        return _delta_text(self._style, told)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    parts = value[:MAX_PARTS] if isinstance(value, list) else []
    return [part for part in parts if isinstance(part, dict)]


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _error_of(answer: dict[str, Any]) -> tuple[str, str]:
    """Return words and code of an error in any of the dialects."""
    error = _dict(answer.get("error")) or answer
    words = _string(error.get("message")) or _string(answer.get("error"))
    code = _string(error.get("code")) or _string(error.get("type"))
    return one_line(words, _MAX_WORDS), one_line(code, 100)


def _is_finish(choice: dict[str, Any]) -> bool:
    """Whether a chat says why it ends; not every provider sends ``[DONE]`` behind it."""
    return _string(choice.get("finish_reason")) != ""


def _delta_text(style: str, event: dict[str, Any]) -> str:
    if style == CHAT:
        deltas = (_dict(choice.get("delta")) for choice in _dicts(event.get("choices")))
        return "".join(_string(delta.get("content")) for delta in deltas)
    if style == MESSAGES:
        return _string(_dict(event.get("delta")).get("text"))
    if event.get("type") in ("response.output_text.delta", "response.refusal.delta"):
        return _string(event.get("delta"))
    return ""


def _whole_text(style: str, answer: dict[str, Any]) -> str:
    if style == CHAT:
        turns = (_dict(choice.get("message")) for choice in _dicts(answer.get("choices")))
        return "".join(_string(turn.get("content")) for turn in turns)
    if style == MESSAGES:
        return "".join(_string(block.get("text")) for block in _dicts(answer.get("content")))
    items = (item for item in _dicts(answer.get("output")) if item.get("type") == "message")
    parts = (part for item in items for part in _dicts(item.get("content")))
    return "".join(_string(part.get("text") or part.get("refusal")) for part in parts)

"""Keeps the upstream's credential out of a stream whose pieces have it in parts.

A server that says what it was sent says it as a model does, a few characters at a time, and a
client puts them together: it is not enough to look for the bytes in what goes out. So a text that
goes on as the credential does is held back until it goes on differently; no text does by chance,
so nearly nothing ever waits.
"""

from collections.abc import Callable
from typing import Final

from omnigate.dialects.faults import Fault
from omnigate.dialects.shapes import AnswerUsage, DeltaSink, Stop
from omnigate.text import MIN_SECRET_CHARS, REDACTED

#: So many characters of a beginning are told at once: many words begin as a credential does.
_TOLD_CHARS: Final = MIN_SECRET_CHARS - 1


class StruckSink:
    """Stands before another sink; see :class:`omnigate.dialects.shapes.DeltaSink`."""

    __slots__ = ("_begun", "_first", "_near", "_put", "_secret", "_sink", "_told")

    def __init__(self, sink: DeltaSink, secret: str) -> None:
        """Stand before a sink.

        :param secret: the credential, of at least ``MIN_SECRET_CHARS`` characters.
        """
        self._sink = sink
        self._secret = secret
        self._first = secret[0]
        self._near = len(secret) - 1
        self._put: Callable[[str], None] = sink.text
        self._begun = ""  # what goes on as the credential does, so far
        self._told = 0  # characters of that which were told

    def start(self) -> None:
        """Pass it on."""
        self._sink.start()

    def thinking_start(self) -> None:
        """Pass it on."""
        self._release()
        self._sink.thinking_start()

    def thinking(self, text: str) -> None:
        """Pass on what can be."""
        self._take(self._sink.thinking, text)

    def thinking_end(self, signature: str) -> None:
        """Pass it on."""
        self._release()
        self._sink.thinking_end(signature)

    def redacted(self, data: str) -> None:
        """Pass it on."""
        self._release()
        self._sink.redacted(data)

    def text(self, text: str) -> None:
        """Pass on what can be."""
        self._take(self._sink.text, text)

    def refusal(self, text: str) -> None:
        """Pass on what can be."""
        self._take(self._sink.refusal, text)

    def tool_start(self, call_id: str, name: str) -> None:
        """Pass it on."""
        self._release()
        self._sink.tool_start(call_id, name)

    def tool_arguments(self, fragment: str) -> None:
        """Pass on what can be."""
        self._take(self._sink.tool_arguments, fragment)

    def tool_end(self) -> None:
        """Pass it on."""
        self._release()
        self._sink.tool_end()

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """Pass it on."""
        self._release()
        self._sink.finish(stop, usage, refusal)

    def fault(self, fault: Fault) -> None:
        """Pass it on."""
        self._release()
        self._sink.fault(fault)

    def _take(self, put: Callable[[str], None], text: str) -> None:
        """Pass on a piece of text, but for an end that goes on as the credential does.

        :param put: what takes it; another one than before begins another text.
        """
        if self._begun and put != self._put:
            self._release()
        secret = self._secret
        if not self._begun and text.find(self._first, -self._near) < 0 and text.find(secret) < 0:
            put(text)
            return
        self._put = put
        told = self._told
        whole = self._begun + text
        over = 0  # all before is settled
        pieces: list[str] = []
        while (found := whole.find(secret, over)) >= 0:
            pieces += (whole[max(over, told) : found], REDACTED)
            over = found + len(secret)
        end = self._end_of_settled(whole, over)
        pieces.append(whole[max(over, told) : end] if end > told else "")
        begun = whole[end:]
        told = max(0, told - end)
        pieces.append(begun[told:_TOLD_CHARS])
        self._begun = begun
        self._told = max(told, min(len(begun), _TOLD_CHARS))
        piece = "".join(pieces)
        if piece:
            put(piece)

    def _end_of_settled(self, text: str, start: int) -> int:
        """Return where the end of the text begins that may be the credential's beginning."""
        at = max(start, len(text) - self._near)
        while (at := text.find(self._first, at)) >= 0:
            if self._secret.startswith(text[at:]):
                return at
            at += 1
        return len(text)

    def _release(self) -> None:
        """Pass on what was held back: the text has ended, and is not the credential."""
        begun, self._begun = self._begun, ""
        told, self._told = self._told, 0
        if len(begun) > told:
            self._put(begun[told:])

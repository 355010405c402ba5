"""One request to the data plane, from its first byte to its verdict, in bounded time and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from omnigate.control.dashboard.data_plane import Asking, Client, DataRequest
from omnigate.control.dashboard.try_answer import (
    AWAY,
    CUT,
    MAX_RAW_BYTES,
    AnswerReader,
    Verdict,
)

#: The longest answers of models that think take some minutes.
MAX_SECONDS: Final = 300.0


@attrs.define
class Outcome:
    """What came of it.

    :ivar status: of the answer; 0 where none came.
    :ivar request_id: as the data plane has told it, or the empty string.
    :ivar upstream: which one answered, where that was told.
    :ivar attempts: how many there were, where that was told.
    :ivar head_ms: until the head of the answer, counted from the request.
    :ivar first_ms: until the first piece of its body.
    :ivar total_ms: until the end.
    :ivar raw: the beginning of the body as it came.
    """

    verdict: Verdict = attrs.field(factory=lambda: Verdict(AWAY))
    status: int = 0
    request_id: str = ""
    upstream: str = ""
    attempts: str = ""
    head_ms: int | None = None
    first_ms: int | None = None
    total_ms: int = 0
    raw: str = ""

    @property
    def is_raw_cut(self) -> bool:
        """Whether more came than is shown."""
        return len(self.raw.encode("utf-8", "replace")) >= MAX_RAW_BYTES

    @property
    def has_upstream(self) -> bool:
        """Whether a provider was asked, so that a usage event will come."""
        return self.status == 200 or self.status >= 500 or bool(self.upstream or self.attempts)


class Exchange:
    """A :class:`~omnigate.control.dashboard.data_plane.Listener` for one request.

    :param style: of the request.
    :param told: called with each piece of text.
    :ivar done: fires with the outcome; cancelling it leaves the data plane at once.
    """

    def __init__(self, style: str, clock: IReactorTime, told: Callable[[str], None]) -> None:
        self._style = style
        self._clock = clock
        self._told = told
        self._outcome = Outcome()
        self._reader: AnswerReader | None = None
        self._asking: Asking | None = None
        self._began = clock.seconds()
        self._deadline = clock.callLater(MAX_SECONDS, self._too_slow)
        self.done: Deferred[Outcome] = Deferred(lambda _: self._leave())

    def begin(self, client: Client, request: DataRequest) -> None:
        """Send the request."""
        asking = client.ask(request, self)
        if not self.done.called:
            self._asking = asking

    def set_room(self, has_room: bool) -> None:
        """Read on only while whoever reads us does."""
        if self._asking is not None and has_room:
            self._asking.resume()
        elif self._asking is not None:
            self._asking.pause()

    # What the client tells.

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the head."""
        outcome = self._outcome
        outcome.status = status
        outcome.head_ms = self._passed()
        outcome.request_id = headers.get("x-omnigate-request-id", "")
        outcome.upstream = headers.get("x-omnigate-upstream", "")
        outcome.attempts = headers.get("x-omnigate-attempts", "")
        is_stream = headers.get("content-type", "").lower().startswith("text/event-stream")
        self._reader = AnswerReader(self._style, status, is_stream)

    def data(self, data: bytes) -> None:
        """Pass the text of a piece on."""
        reader, outcome = self._reader, self._outcome
        assert reader is not None
        if outcome.first_ms is None:
            outcome.first_ms = self._passed()
        outcome.raw += reader.raw(data)
        text = reader.feed(data)
        if reader.is_full:
            self._drop()
            self._end(
                Verdict(
                    CUT,
                    f"The answer is longer than {reader.most_bytes >> 10:,} KiB, which is as much "
                    "as this page reads of such an answer. It left there.",
                )
            )
        elif text:
            self._told(text)

    def end(self) -> None:
        """Judge the answer."""
        assert self._reader is not None
        text, verdict = self._reader.end()
        if text:
            self._told(text)
        self._end(verdict)

    def lost(self, why: str) -> None:
        """Judge what there is of it."""
        if self._reader is None:
            words = f"The data plane closed the connection without an answer: {why}."
            self._end(Verdict(CUT, words))
        else:
            self._end(self._reader.lost(why))

    def unreachable(self, why: str) -> None:
        """Tell that there is no data plane."""
        self._end(Verdict(AWAY, why))

    # Its ends.

    def _passed(self) -> int:
        return int((self._clock.seconds() - self._began) * 1000)

    def _too_slow(self) -> None:
        self._drop()
        self._end(
            Verdict(
                CUT,
                f"The answer was not whole after {MAX_SECONDS:.0f} seconds, which is as long as "
                "this page waits. It left there.",
            )
        )

    def _end(self, verdict: Verdict) -> None:
        self._asking = None
        if self._deadline.active():
            self._deadline.cancel()
        self._outcome.verdict = verdict
        self._outcome.total_ms = self._passed()
        self.done.callback(self._outcome)

    def _drop(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.drop()

    def _leave(self) -> None:
        if self._deadline.active():
            self._deadline.cancel()
        self._drop()

"""Token counts for clients of Messages whose target is at an upstream of OpenAI's protocol.

Upstreams of Responses are asked; where one cannot tell, and for all others, the answer is an
estimate, which says so in a header.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING

import msgspec

from omnigate.dialects.count_tokens import (
    ESTIMATE_LINE,
    INPUT_TOKENS_PATH,
    count_answer,
    estimate_input_tokens,
    read_count,
)
from omnigate.dialects.messages.request_reader import read_request
from omnigate.dialects.responses.request_writer import write_request
from omnigate.dialects.shapes import Quirk
from omnigate.events import NO_TOKENS
from omnigate.gateway.attempt import is_stream
from omnigate.gateway.attempt_account import Walker
from omnigate.gateway.headers import translated_answer_lines, unrelayable
from omnigate.gateway.outgoing import translated_request
from omnigate.gateway.prepared_attempt import PreparedAttempt
from omnigate.gateway.tables import Target
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane

#: Whose own models are counted whatever API they are used over.
_openai_host = re.compile(
    r"https?://(?:[a-z-]+\.)?api\.openai\.com(?:[:/]|\Z)", re.IGNORECASE
).match

#: What of a request counts; others of its members are refused where tokens are counted.
_COUNTED = frozenset(
    (
        "model",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "text",
    )
)
_PATH = INPUT_TOKENS_PATH.encode("ascii")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_counted_upstream(target: Target) -> bool:
    """Tell whether the target's upstream is known to count tokens."""
    return (
        target.caps.upstream_api == "responses"
        or _openai_host(target.upstream.config.base_url) is not None
    )


class CountingAttempt(PreparedAttempt):
    """See the module's docstring.

    Whatever fails ends in an answer, so the walk never goes on behind it.
    """

    __slots__ = ("_asks", "_body", "_estimate")

    def __init__(
        self, walker: Walker, exchange: Exchange, plane: DataPlane, target: Target
    ) -> None:
        super().__init__(walker, exchange, plane, target)
        self._asks = is_counted_upstream(target)
        self._body = b""
        self._estimate = -1

    def _prepared(self) -> bool:
        return self._estimate >= 0

    def _preparation(self) -> Generator[None, None, None]:
        yield from ()  # in one step: it is not worth two
        target = self.target
        room = self._room()
        try:
            request = read_request(self._exchange.body)
            if self._asks:
                written = write_request(request, target.model, target.caps, Quirk.NONE)
                counted = _members(written.body)
                self._body = msgspec.json.encode(
                    {name: raw for name, raw in counted.items() if name in _COUNTED}
                )
            self._estimate = estimate_input_tokens(request)
        finally:
            room.release()

    def _proceed(self) -> None:
        if self._asks:
            self._connect()
        else:
            self._next()

    def _request(self) -> bytes:
        return translated_request(self.target, _PATH, self._body)

    def unusable(self, head: ResponseHead) -> str:
        """The outcome of an answer that can be no count; else empty."""
        return unrelayable(head) or ("unasked_stream" if is_stream(head) else "")

    def _answer(self, head: ResponseHead, body: bytes) -> None:
        """Tell the client what its upstream counted."""
        count = read_count(body) if head.status < 300 else None
        if count is None:
            outcome = "not_json" if head.status < 300 else f"status_{head.status}"
            self.record(outcome, head.status)
            self._next()
            return
        exchange = self._exchange
        told = count_answer(count)
        lines = translated_answer_lines(
            head,
            exchange.id_bytes,
            self._own_lines(head),
            self.target.upstream.secret,
            b"application/json",
        )
        self._plane.troubles.succeeded(self.target)
        self.record("ok", head.status)
        exchange.response.bytes_out = len(told)
        self._walker.settle(200, NO_TOKENS, False, self.target)
        exchange.response.whole(200, lines, told)

    def short_overflow(self, begun: bytes) -> None:
        """No count is that long."""
        connection = self.connection
        assert connection is not None
        connection.drop()
        self.short_whole(b"")

    def _next(self) -> None:
        """Tell the client an estimate."""
        exchange = self._exchange
        if exchange.settled:
            return
        told = count_answer(self._estimate)
        exchange.will_send(told)
        self._walker.settle(200, NO_TOKENS, False, None)
        exchange.answer(200, told, ESTIMATE_LINE)

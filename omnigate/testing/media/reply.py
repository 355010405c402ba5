"""One answer of a fake media provider, and how it goes out."""

from __future__ import annotations

from typing import Any, Final

import attrs

from omnigate.testing.provider_plan import Close, Hang, Plan, Reset, Send, Step, Wait
from omnigate.testing.provider_reply import to_json
from omnigate.testing.provider_request import SeenRequest

JSON: Final = "application/json"


@attrs.frozen
class Reply:
    """One answer.

    :ivar body: bytes, or what is written as JSON.
    :ivar headers: beside type and length.
    :ivar before_s: seconds before its head.
    :ivar halves_s: seconds between the halves of its body.
    :ivar broken: ``reset`` for no answer but a broken connection, ``hang`` for none at all, ``cut``
        for half a body, ``endless`` for one without an end.
    :ivar chunked: without a length.
    """

    status: int
    body: Any = b""
    content_type: str = JSON
    headers: dict[str, str] = attrs.Factory(dict)
    before_s: float = 0.0
    halves_s: float = 0.0
    broken: str = ""
    chunked: bool = False

    def plan(self, request: SeenRequest) -> Plan:
        """Return what is written, step by step."""
        if self.broken in ("reset", "hang"):
            return Plan((Reset() if self.broken == "reset" else Hang(),))
        body = self.body if isinstance(self.body, bytes) else to_json(self.body)
        chunked = self.chunked or self.broken == "endless"
        lines = [f"HTTP/1.1 {self.status} -"]
        if self.content_type:
            lines.append(f"content-type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines.append("transfer-encoding: chunked" if chunked else f"content-length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        steps: list[Step] = [Wait(self.before_s)] if self.before_s else []
        if request.method == "HEAD":
            steps.append(Send(head))
        elif self.broken == "cut":
            return Plan((*steps, Send(head + body[: len(body) // 2]), Reset()))
        elif self.broken == "endless":
            piece = b"%x\r\n%b\r\n" % (len(body), body)
            return Plan((*steps, Send(head), *[Send(piece)] * 100_000, Hang()))
        else:
            first, second = body[: len(body) // 2], body[len(body) // 2 :]
            if not self.halves_s:
                first, second = body, b""
            steps.append(Send(head + _framed(first, chunked)))
            if second:
                steps += [Wait(self.halves_s), Send(_framed(second, chunked))]
            if chunked:
                steps.append(Send(b"0\r\n\r\n"))
        if request.wants_close:
            steps.append(Close())
        return Plan(tuple(steps))


def _framed(data: bytes, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked and data else data

"""A client's reading of what it got: strict, and with every answer's framing held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from omnigate.wire.body import CloseReader, reader_for
from omnigate.wire.head import find_head_end, parse_response_head


@attrs.define
class Answer:
    """One answer.

    :ivar whole: its framing says that it is complete.
    :ivar interim: how many 1xx heads stood before it.
    """

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    whole: bool
    interim: int = 0

    @property
    def json(self) -> Any:
        """The body decoded."""
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of an error in either protocol's shape."""
        code: str = self.json["error"]["code"]
        return code

    @property
    def message(self) -> str:
        """The message of an error."""
        message: str = self.json["error"]["message"]
        return message


def read_answers(data: bytes, still_open: bool, methods: Sequence[bytes] = ()) -> list[Answer]:
    """Read everything a client got.

    :param still_open: the gateway has not ended the connection in order; a body framed by close is
        whole only if it has.
    :param methods: of the requests, in order; ``POST`` where it does not matter.
    """
    answers: list[Answer] = []
    interim = 0
    while data:
        end = find_head_end(data)
        if end < 0:
            raise AssertionError(f"half a head: {data[:100]!r}")
        index = len(answers)
        head = parse_response_head(data[:end], methods[index] if index < len(methods) else b"POST")
        data = data[end:]
        if head.status < 200:
            interim += 1
            continue
        reader = reader_for(head)
        body = reader.feed(data)
        if isinstance(reader, CloseReader) and not still_open:
            reader.finish()
        answers.append(Answer(head.status, _headers(head.block), body, reader.ended, interim))
        interim = 0
        data = reader.rest if reader.ended else b""
    return answers


def _headers(block: bytes) -> dict[bytes, bytes]:
    """All headers of a head that was read, names in lower-case; the values of repeats in a list."""
    headers: dict[bytes, bytes] = {}
    for line in block.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b":")
        name = name.lower()
        value = value.strip()
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers

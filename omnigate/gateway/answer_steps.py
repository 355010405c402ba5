"""The translation of a whole answer, in steps that may each have a turn of the reactor.

What is long would hold everybody up if it were read, written and looked through for the credential
in one go. Between two steps nothing is kept but the answer in its neutral form, whose parts are few
(``dialects/lenient``), or its text.
"""

from __future__ import annotations

from collections.abc import Generator

from omnigate.dialects.answer import nests_too_deep
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.strike import LongStriker, strike
from omnigate.dialects.translate import Translator
from omnigate.errors import GatewayError
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.parse_memory import ParseMemory
from omnigate.wire.json_cost import PieceCounter

#: A longer answer is translated in turns that all such share. One of this length takes up to 8 ms
#: in one go, and most are far shorter.
TURNS_FROM_BYTES = 1024 * 1024

#: Yields between two steps whether room is held, so that the next is to come before anybody else
#: looks for some; ends with what the client is told.
Steps = Generator[bool, None, bytes]


def translation_steps(
    translator: Translator,
    memory: ParseMemory,
    use: KeyUse,
    body: bytes,
    counter: PieceCounter | None,
    secret: bytes,
    *,
    as_stream: bool,
) -> Steps:
    """Translate a whole answer in room reserved for its tree, which closing gives back, too.

    :param counter: what was fed an answer that came without the credential, where it is long.
    :param secret: the upstream's credential.
    :param as_stream: whether the client asked for a stream.
    :raises NotAnAnswer: it is none.
    :raises TreeError: no tree is made of it.
    :raises GatewayError: there is no room for one.
    """
    if counter is None and nests_too_deep(body):
        raise NotAnAnswer("not_json")
    try:
        room = memory.reserve_answer(use, body, counter)
    except GatewayError:
        if counter is None:
            # It will have to be paid; what is long was metered as it came.
            translator.meter.piece(body)
        raise
    try:
        yield True
        if counter is None:
            # Before it is read: what is packed for the client cannot be searched any more.
            body = strike(body, secret)
        # Its length was counted while it came; now it is counted with what it says.
        translator.meter.body_bytes = 0
        answer = translator.read(body)
        body = b""
        yield True
        told = translator.write(answer, as_stream)
        del answer
    finally:
        room.release()
    if len(told) <= TURNS_FROM_BYTES:
        return strike(told, secret)
    # Once more, for an escape may have spelled it, or the end of one text and the next.
    striker = LongStriker(told, secret)
    del told
    yield False
    while striker.step():
        yield False
    return striker.end()

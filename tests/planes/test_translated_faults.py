"""Faults of ours on the way through a translation, and what its exchanges leave behind."""

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects import translate
from omnigate.dialects.meter import Meter
from omnigate.dialects.translated_passage import TranslatedPassage
from omnigate.gateway import translated_attempt
from omnigate.gateway.prepared_attempt import OWN_TURN_BYTES
from omnigate.protocols.translated_relay import TranslatedRelay, WholeAnswer
from tests.planes.memory import MemoryDataPlane, reply, request, upstream
from tests.planes.scenes import CHAT, CHAT_STREAM, END, MESSAGE, STREAM_HEAD, chunk
from tests.planes.test_translated import ANTHROPIC_ERROR, AUDIO
from tests.planes.test_translated_streams import BLOCK, FAILED, FIRST, START, STOP

OURS = ("omnigate.gateway", "omnigate.dialects", "omnigate.protocols.re", "omnigate.wire.json")
LARGE = CHAT.replace(b"Hi", b"x" * OWN_TURN_BYTES)
WHOLE = (reply(MESSAGE),)
LONG = (reply(MESSAGE.replace(b"Hello", b"x" * 100_000)),)
REFUSED = (reply(ANTHROPIC_ERROR, b"400 Bad"),)
IN_TWO = (WHOLE[0][:-5], WHOLE[0][-5:])
STREAM = (STREAM_HEAD, chunk(START + BLOCK), chunk(FIRST), chunk(STOP) + END)
UNFINISHED = (STREAM_HEAD, chunk(START + BLOCK), chunk(FIRST), END)


class InjectedError(Exception):
    """What a part that was swapped fails with."""


def fail(*arguments: Any, **options: Any) -> NoReturn:
    """Stand for any function."""
    raise InjectedError


def play(plane: MemoryDataPlane, body: bytes, answer: tuple[bytes, ...], leave: int = -1) -> None:
    """One exchange of a client of its own."""
    client = plane.client()
    client.send(request(body))
    for index, piece in enumerate(answer):
        if index == leave:
            client.leave()
        for connection in plane.busy:
            connection.answer(piece)
    client.leave()


class CrashTests(SynchronousTestCase):
    def check(self, owner: Any, name: str, body: bytes, answer: tuple[bytes, ...]) -> None:
        """A part that fails ends its exchange with one event, and harms no other."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")])
        patch = self.patch(owner, name, fail)
        client = plane.client()
        client.send(request(body))
        for piece in answer:
            for connection in plane.busy:
                connection.answer(piece)
        patch.restore()
        self.assertGreaterEqual(len(self.flushLoggedErrors(InjectedError)), 1, name)
        self.assertEqual([], self.flushLoggedErrors())
        [event] = plane.events
        self.assertEqual("internal_error", plane.lines[-1].error_code, name)
        told = client.answer
        if event.status == 500:
            self.assertEqual((500, "internal_error"), (told.status, told.code), name)
        else:
            self.assertEqual((499, False), (event.status, told.whole), name)
        self.assertEqual((0, 0), (plane.in_flight, plane.plane.parse_memory.bytes), name)
        self.assertEqual(0, plane.plane.held.bytes, name)
        other = plane.client()
        other.send(request(CHAT))
        plane.last.answer(reply(MESSAGE))
        self.assertEqual(200, other.answer.status)

    def test_any_part(self) -> None:
        """Whatever fails, there is one event, and the client is told or sees the break."""
        for owner, name, body, answer in (
            (translated_attempt, "request_steps", CHAT, WHOLE),
            (translated_attempt, "request_steps", LARGE, WHOLE),
            (translated_attempt, "translated_request", CHAT, WHOLE),
            (translated_attempt, "Translator", CHAT, WHOLE),
            (translate.Translator, "read", CHAT, WHOLE),
            (translate.Translator, "error", CHAT, REFUSED),
            (translated_attempt, "translated_answer_lines", CHAT, WHOLE),
            (translated_attempt, "PieceCounter", CHAT, LONG),
            (translated_attempt, "WholeAnswer", CHAT, IN_TWO),
            (WholeAnswer, "answer_data", CHAT, IN_TWO),
            (Meter, "settle", CHAT, WHOLE),
            (translate.Translator, "write", CHAT, WHOLE),
            (translate.Translator, "write", CHAT_STREAM, WHOLE),
            (translated_attempt, "TranslatedPassage", CHAT_STREAM, STREAM),
            (translated_attempt, "TranslatedRelay", CHAT_STREAM, STREAM),
            (TranslatedPassage, "feed", CHAT_STREAM, STREAM),
            (TranslatedPassage, "end", CHAT_STREAM, STREAM),
            (TranslatedRelay, "_ended", CHAT_STREAM, STREAM),
            (Meter, "settle", CHAT_STREAM, UNFINISHED),
        ):
            self.check(owner, name, body, answer)


class FreeingTests(SynchronousTestCase):
    def setUp(self) -> None:
        gc.freeze()
        self.addCleanup(gc.unfreeze)

    def check(self, scene: Callable[[MemoryDataPlane], None], told: str) -> None:
        """Play the scene some times, and look whether the collector has anything to do."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")])
        scene(plane)
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                scene(plane)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [item for item in gc.garbage if type(item).__module__.startswith(OURS)]
            self.assertEqual({}, Counter(type(item).__name__ for item in left), told)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    def test_any_end(self) -> None:
        """However it ends, a translated exchange is freed at once."""
        for told, body, answer, leave in (
            ("whole", CHAT, WHOLE, -1),
            ("long", CHAT, LONG, -1),
            ("refused", CHAT, REFUSED, -1),
            ("untranslatable", AUDIO, (), -1),
            ("large", LARGE, WHOLE, -1),
            ("stream", CHAT_STREAM, STREAM, -1),
            ("unfinished", CHAT_STREAM, UNFINISHED, -1),
            ("error", CHAT_STREAM, (*STREAM[:3], chunk(FAILED)), -1),
            ("first error", CHAT_STREAM, (STREAM_HEAD, chunk(FAILED)), -1),
            ("no answer", CHAT, (reply(b"<html>"),), -1),
            ("left", CHAT, WHOLE, 0),
            ("left a stream", CHAT_STREAM, STREAM, 2),
        ):

            def scene(
                plane: MemoryDataPlane,
                body: bytes = body,
                answer: tuple[bytes, ...] = answer,
                leave: int = leave,
            ) -> None:
                play(plane, body, answer, leave)

            self.check(scene, told)

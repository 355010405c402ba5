"""Credentials in the pieces of a stream."""

import random
from itertools import combinations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.shapes import AnswerUsage, Stop
from omnigate.dialects.struck_sink import StruckSink
from omnigate.text import REDACTED

SECRET = "sk-credential-42"
USAGE = AnswerUsage()


class Recorder:
    """A sink that writes down what it is told: texts by kind, and what parts them."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def start(self) -> None:
        self.told.append(("start", ""))

    def thinking_start(self) -> None:
        self.told.append(("thinking_start", ""))

    def thinking(self, text: str) -> None:
        self._text("thinking", text)

    def thinking_end(self, signature: str) -> None:
        self.told.append(("thinking_end", signature))

    def redacted(self, data: str) -> None:
        self.told.append(("redacted", data))

    def text(self, text: str) -> None:
        self._text("text", text)

    def refusal(self, text: str) -> None:
        self._text("refusal", text)

    def tool_start(self, call_id: str, name: str) -> None:
        self.told.append(("tool_start", name))

    def tool_arguments(self, fragment: str) -> None:
        self._text("arguments", fragment)

    def tool_end(self) -> None:
        self.told.append(("tool_end", ""))

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        self.told.append(("finish", ""))

    def fault(self, fault: Fault) -> None:
        self.told.append(("fault", ""))

    def _text(self, kind: str, text: str) -> None:
        assert text, "never empty"
        self.told.append((kind, text))

    def joined(self) -> str:
        """All texts, one behind the other."""
        return "".join(text for _, text in self.told)


class StruckSinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.recorder = Recorder()
        self.sink = StruckSink(self.recorder, SECRET)

    def test_cut_anywhere(self) -> None:
        """Cut in three at any two places, nothing of it but a short beginning is told."""
        text = f"a s {SECRET} sk-c end"
        for first, second in combinations(range(1, len(text)), 2):
            self.setUp()
            for piece in (text[:first], text[first:second], text[second:]):
                self.sink.text(piece)
            self.sink.finish(Stop.END, USAGE, None)
            told = self.recorder.joined()
            self.assertNotIn(SECRET[5:], told, (first, second))
            begun = told.removeprefix("a s ").removesuffix(" sk-c end")
            self.assertIn(begun.removesuffix(REDACTED), [SECRET[:n] for n in range(6)])
            self.assertTrue(begun.endswith(REDACTED))

    def test_character_by_character(self) -> None:
        for character in SECRET + SECRET + "x":
            self.sink.thinking(character)
        self.assertEqual(2, self.recorder.joined().count(REDACTED))
        self.assertNotIn(SECRET[5:], self.recorder.joined())
        self.assertTrue(self.recorder.joined().endswith("x"))

    def test_other_texts(self) -> None:
        """Whatever text does not hold it passes unchanged, however it is cut."""
        for seed in range(300):
            rng = random.Random(seed)
            self.setUp()
            parts = [SECRET[: rng.randrange(len(SECRET))] for _ in range(6)]
            text = "".join(part + rng.choice(("s", "sk", " ", "k-", "")) for part in parts)
            if SECRET in text or not text:
                continue
            at = 0
            while at < len(text):
                size = rng.randrange(1, 7)
                self.sink.text(text[at : at + size])
                at += size
            self.sink.finish(Stop.END, USAGE, None)
            self.assertEqual(text, self.recorder.joined())

    def test_a_credential_that_repeats_itself(self) -> None:
        sink = StruckSink(self.recorder, "abababababc")
        for piece in ("abab", "ababab", "ababc", "d"):
            sink.text(piece)
        self.assertNotIn("ababababc", self.recorder.joined())
        self.assertTrue(self.recorder.joined().endswith(REDACTED + "d"))

    def test_the_end_of_a_text(self) -> None:
        """What was held back is told before whatever follows, as the kind that it was."""
        begun = SECRET[:9]
        self.sink.start()
        self.sink.thinking_start()
        self.sink.thinking(begun)
        self.sink.thinking_end("s")
        self.sink.redacted("r")
        self.sink.text(begun)
        self.sink.refusal(begun)
        self.sink.tool_start("c", "f")
        self.sink.tool_arguments(begun)
        self.sink.tool_end()
        self.sink.text(begun)
        self.sink.fault(Fault(FaultKind.SERVER))
        texts: dict[str, str] = {}
        for kind, text in self.recorder.told:
            texts[kind] = texts.get(kind, "") + text
        self.assertEqual(begun, texts["thinking"])
        self.assertEqual(begun + begun, texts["text"])
        self.assertEqual(begun, texts["refusal"])
        self.assertEqual(begun, texts["arguments"])
        order = list(dict.fromkeys(kind for kind, _ in self.recorder.told))
        self.assertEqual(
            ["start", "thinking_start", "thinking", "thinking_end", "redacted", "text", "refusal"],
            order[:7],
        )
        self.assertEqual("fault", order[-1])

    def test_nothing_waits(self) -> None:
        """A text that only begins as it does goes out at once."""
        for piece in ("Some s", "s", "k", "-", "The", "sk-"):
            self.sink.text(piece)
        self.assertEqual("Some ssk-Thesk-", self.recorder.joined())

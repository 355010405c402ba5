"""Long answers that are no event streams."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.gateway.long_passage import LongPassage

SECRET = b"sk-upstream-credential-42"


class LongPassageTests(SynchronousTestCase):
    def test_bytes_pass(self) -> None:
        """Bytes pass as they come, counted."""
        meter = Meter("chat", False)
        passage = LongPassage(meter, b"")
        self.assertFalse(passage.started)
        self.assertEqual(b'{"a":', passage.feed(b'{"a":'))
        self.assertEqual(b"1}", passage.feed(b"1}"))
        self.assertEqual(b"", passage.end())
        self.assertTrue(passage.started)
        self.assertEqual(7, meter.body_bytes)

    def test_credential(self) -> None:
        """The credential is struck out, wherever the bytes are cut."""
        body = b'{"echo":"' + SECRET + b'","more":"' + SECRET[:5] + b'"}'
        wanted = body.replace(SECRET, b"[redacted]")
        for size in (1, 2, 7, 30, len(body)):
            passage = LongPassage(Meter("chat", False), SECRET)
            out = b"".join(
                passage.feed(body[start : start + size]) for start in range(0, len(body), size)
            )
            self.assertEqual(wanted, out + passage.end(), size)

    def test_nothing_in_between(self) -> None:
        """Nothing of ours may stand in such a body."""
        self.assertFalse(LongPassage(Meter("chat", False), b"").between_events)

    def test_usage(self) -> None:
        """The usage of a long answer is read as it passes."""
        meter = Meter("chat", False)
        passage = LongPassage(meter, b"")
        body = b'{"x":"' + b"y" * 5000 + b'","usage":{"prompt_tokens":9,"completion_tokens":3}}'
        for start in range(0, len(body), 100):
            passage.feed(body[start : start + 100])
        counts, estimated = meter.settle(b"")
        self.assertEqual((9, 3, False), (counts.input_tokens, counts.output_tokens, estimated))

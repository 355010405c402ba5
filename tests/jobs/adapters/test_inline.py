"""Media in base64, and raw sound made a file that plays."""

import base64
import io
import wave
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters import inline
from omnigate.jobs.adapters.base import InlineSource
from omnigate.outbound.messages import Answer
from tests.jobs.adapters.talking import kept

L16 = "audio/L16;codec=pcm;rate=24000"


def made(content: bytes, content_type: str) -> InlineSource:
    """Return what base64 of ``content`` becomes."""
    found = inline.media(base64.b64encode(content).decode(), Answer(200), content_type)
    assert found is not None
    return found


class WavTests(SynchronousTestCase):
    def test_samples_become_a_file(self) -> None:
        """Python's own reader finds the rate, the channels and every sample."""
        cases: list[tuple[str, int, int]] = [
            (L16, 24_000, 1),
            ("audio/l16; rate=16000", 16_000, 1),
            ("AUDIO/PCM;RATE=44100;CHANNELS=2", 44_100, 2),
            ("audio/L16", 24_000, 1),
            ("audio/L16;rate=0", 24_000, 1),
            ("audio/L16;rate=1e9;channels=0", 24_000, 1),
            ("audio/L16;rate=9999999999", 24_000, 1),
            ("audio/L16;channels=900000", 24_000, 1),
        ]
        samples = bytes(range(64)) * 4
        for content_type, rate, channels in cases:
            found = made(samples, content_type)
            self.assertEqual(found.content_type, "audio/wav")
            assert isinstance(found.content, bytes)
            with wave.open(io.BytesIO(found.prefix + found.content)) as file:
                self.assertEqual(file.getframerate(), rate, content_type)
                self.assertEqual((file.getnchannels(), file.getsampwidth()), (channels, 2))
                self.assertEqual(file.readframes(file.getnframes()), samples)

    def test_of_a_file_the_length_is_known(self) -> None:
        """Samples that lie in a file already get the same head, which says their length."""
        lies = kept(b"\x03\x00", 1_000_000)
        found = inline.media("0a1b", Answer(200, media={"0a1b": lies}), L16)
        assert found is not None
        self.assertIs(found.content, lies)
        self.assertEqual(found.prefix, inline.wav_head(1_000_000, 24_000, 1))
        self.assertEqual(len(found.prefix), 44)
        self.assertEqual(int.from_bytes(found.prefix[40:44], "little"), 1_000_000)

    def test_a_length_that_no_head_can_say(self) -> None:
        """Players read such files to their end."""
        head = inline.wav_head(2**40, 24_000, 1)
        self.assertEqual(head[4:8], b"\xff\xff\xff\xff")

    def test_other_sound_stays_as_it_is(self) -> None:
        """What is a file already gets nothing before it."""
        for content_type in ("audio/mpeg", "audio/wav", "", "audio/l16x"):
            self.assertEqual(made(b"ID3\x04", content_type).prefix, b"")


class MediaTests(SynchronousTestCase):
    def test_what_holds_none(self) -> None:
        """Words, nothing, and addresses are no media."""
        for text in ("", "not base64!", "data:image/png;base64,", "https://example.com/x", "é"):
            self.assertIsNone(inline.media(text, Answer(200)), text)

    def test_the_type_of_a_data_url(self) -> None:
        """It counts where the answer named none, also of what was taken out."""
        found = inline.media("data:image/webp;base64,UklGRg==", Answer(200))
        assert found is not None
        self.assertEqual((found.content, found.content_type), (b"RIFF", "image/webp"))
        lies = kept(b"RIFF", 4, prefix="data:image/webp;base64,")
        found = inline.media("0a1b", Answer(200, media={"0a1b": lies}))
        assert found is not None
        self.assertEqual((found.content, found.content_type), (lies, "image/webp"))

    def test_first_bytes_have_the_last_word(self) -> None:
        """Where they say something."""
        png = InlineSource(b"\x89PNG\r\n\x1a\n", "image/webp")
        lies = InlineSource(kept(b"GIF89a", 9), "image/png")
        for source, expected in ((png, "image/png"), (lies, "image/gif")):
            found = inline.checked(source)
            assert found is not None
            self.assertEqual(found.content_type, expected)
        odd = InlineSource(b"?", "image/webp")
        self.assertEqual(inline.checked(odd), odd)
        self.assertIsNone(inline.checked(None))

    @settings(max_examples=200, deadline=None)
    @given(st.text(max_size=60), st.text(max_size=60))
    def test_anything_at_all(self, text: str, content_type: str) -> None:
        """No string of an answer breaks it."""
        for value in (text, f"data:{text}", f"audio/l16;{text}"):
            found: Any = inline.media(value, Answer(200), f"audio/l16;{content_type}")
            self.assertTrue(found is None or isinstance(found, InlineSource))

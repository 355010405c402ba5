"""The sink for JSON that holds media: files, markers, and what becomes of them when it breaks."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.incoming import Incoming
from omnigate.jobs.inline_media import InlineSink
from omnigate.outbound.messages import BodyRefused, KeptMedia, Pausable
from omnigate.testing.writer import SynchronousWriter

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 200
ANSWER = json.dumps(
    {
        "data": [
            {"b64_json": base64.b64encode(PNG).decode()},
            {"url": "data:image/png;base64," + base64.b64encode(PNG[::-1]).decode()},
        ]
    }
).encode()


class Source:
    """What the body comes from."""

    def __init__(self) -> None:
        self.paused = 0

    def pause(self) -> None:
        self.paused += 1

    def resume(self) -> None:
        self.paused -= 1


class MemoryFile:
    """A sink in memory that is finished when a test says so."""

    def __init__(self) -> None:
        self.content = b""
        self.kept: KeptMedia | None = None
        self.source: Pausable | None = None
        self.abandoned = False
        self.done: Deferred[None] | None = None
        self.full = False

    def begin(self, source: Pausable) -> None:
        self.source = source

    def write(self, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "full")
        self.content += data

    def finish(self) -> Deferred[None]:
        self.kept = KeptMedia("/x", len(self.content), "", self.content[:64])
        return succeed(None) if self.done is None else self.done

    def abandon(self) -> None:
        self.abandoned = True


class InlineSinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.files: list[MemoryFile] = []
        self.asked: list[int] = []
        self.source = Source()
        self.done: Deferred[None] | None = None
        self.sink = InlineSink(self.open, max_file_bytes=2**20, max_total_bytes=2**20)
        self.sink.begin(self.source)

    def open(self, number: int) -> MemoryFile:
        self.asked.append(number)
        file = MemoryFile()
        file.done = self.done
        self.files.append(file)
        return file

    def test_body_and_media(self) -> None:
        """The markers in the body name the files; nobody could have known them."""
        self.sink.write(ANSWER)
        self.successResultOf(self.sink.finish())
        first, second = json.loads(self.sink.body)["data"]
        self.assertEqual({first["b64_json"], second["url"]}, set(self.sink.media))
        self.assertEqual(self.sink.media[first["b64_json"]].prefix, "")
        self.assertEqual(self.sink.media[second["url"]].prefix, "data:image/png;base64,")
        self.assertEqual([file.content for file in self.files], [PNG, PNG[::-1]])
        self.assertEqual(self.asked, [0, 1])
        other = InlineSink(self.open, max_file_bytes=2**20, max_total_bytes=2**20)
        other.begin(self.source)
        other.write(ANSWER)
        self.successResultOf(other.finish())
        self.assertEqual(set(other.media) & set(self.sink.media), set())

    def test_finished_with_the_last_file(self) -> None:
        """The answer is there when all files are."""
        self.done = Deferred()
        self.sink.write(ANSWER)
        finished = self.sink.finish()
        self.assertNoResult(finished)
        self.done.callback(None)
        # Both files share it; the sum of them is over now.
        self.successResultOf(finished)

    def test_source_paused_while_any_file_is_behind(self) -> None:
        """Two files that are written at the same time do not undo each other's pause."""
        self.done = Deferred()
        half = ANSWER.index(b"data:image") + 60_000
        self.sink.write(ANSWER[:half])
        first, second = (file.source for file in self.files)
        assert first is not None
        assert second is not None
        first.pause()
        second.pause()
        second.resume()
        self.assertEqual(self.source.paused, 1)
        first.resume()
        first.resume()
        self.assertEqual(self.source.paused, 0)
        self.sink.abandon()

    def test_disk_full(self) -> None:
        """A file that takes no more, or fails late, ends the answer."""
        self.sink.write(ANSWER[:40_000])
        self.files[0].full = True
        self.assertRaises(OSError, self.sink.write, ANSWER[40_000:])
        self.sink.abandon()
        self.assertTrue(self.files[0].abandoned)

    def test_fails_late(self) -> None:
        """A file that was whole and is not kept is told with the next piece, and at the end."""
        self.done = Deferred()
        self.sink.write(ANSWER[:-1])
        self.done.errback(OSError(errno.ENOSPC, "full"))
        self.assertRaises(OSError, self.sink.write, ANSWER[-1:])
        self.failureResultOf(self.sink.finish(), OSError)
        self.sink.abandon()
        self.assertEqual([file.abandoned for file in self.files], [True, True])

    def test_refused(self) -> None:
        """Too much is refused, and every file is thrown away, whole or not."""
        self.sink = InlineSink(self.open, max_file_bytes=2**20, max_total_bytes=len(PNG) + 1)
        self.sink.begin(self.source)
        self.assertRaises(BodyRefused, self.sink.write, ANSWER)
        self.sink.abandon()
        self.sink.abandon()
        self.assertEqual([file.abandoned for file in self.files], [True, True])
        self.assertEqual((self.sink.body, self.sink.media), (b"", {}))

    def test_cut_short(self) -> None:
        """An answer that ends within a string is refused at its end."""
        self.sink.write(ANSWER[:-100])
        self.failureResultOf(self.sink.finish(), BodyRefused)
        self.sink.abandon()
        self.assertTrue(all(file.abandoned for file in self.files))

    def test_none_after_all(self) -> None:
        """A string that turns out to be no base64 is in the body, its file thrown away."""
        text = b'["%b!"]' % (b"A" * 50_000)
        self.sink.write(text[:40_000])
        self.sink.write(text[40_000:])
        self.successResultOf(self.sink.finish())
        self.assertEqual((self.sink.body, self.sink.media), (text, {}))
        self.assertTrue(self.files[0].abandoned)

    def test_into_files(self) -> None:
        """With the files that jobs use: written, hashed, and told of."""
        folder = self.mktemp()
        os.mkdir(folder)
        incoming = Incoming(folder, SynchronousWriter())
        sink = InlineSink(
            lambda n: incoming.sink("job_a", n, 2**20), max_file_bytes=2**20, max_total_bytes=2**20
        )
        sink.begin(self.source)
        sink.write(ANSWER)
        self.successResultOf(sink.finish())
        for kept, content in zip(sink.media.values(), (PNG, PNG[::-1]), strict=True):
            self.assertEqual(
                (kept.size, kept.sha256), (len(content), hashlib.sha256(content).hexdigest())
            )
            with open(kept.path, "rb") as file:
                self.assertEqual(file.read(), content)

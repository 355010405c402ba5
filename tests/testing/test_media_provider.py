"""The fake media providers, as the real adapters meet them."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from standardwebhooks import Webhook
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import ADAPTERS as NAMES
from omnigate.jobs.adapters.base import (
    Accepted,
    Done,
    Failed,
    Handle,
    InlineSource,
    NotCanceled,
    PollOutcome,
    Running,
    Steps,
    Stopped,
    SubmitOutcome,
    Task,
    Transient,
    Unclear,
    UrlSource,
)
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.outbound.messages import CONNECTION_LOST, TIMEOUT, Answer, Cap, KeptMedia, Request
from omnigate.testing.media.modes import MODES
from omnigate.testing.media.pictures import png
from omnigate.testing.media.provider import APIS, MediaProvider
from omnigate.testing.media.reply import Reply
from omnigate.testing.provider_plan import Hang, Plan, Reset, Send
from omnigate.testing.provider_request import SeenRequest

T = TypeVar("T")

NOW = 1_790_000_000.0

#: A model of each provider, and what it is asked for.
MODELS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "replicate": ("acme/flux", {"prompt": "a lake"}),
    "fal": ("fal-ai/flux/dev", {"prompt": "a lake"}),
    "openai_images": ("gpt-image-2", {"prompt": "a lake"}),
    "elevenlabs": ("eleven_flash_v2_5", {"text": "hello", "voice_id": "v1"}),
    "gemini": ("gemini-3.1-flash-image", {"prompt": "a lake"}),
    "gemini_interactions": ("gemini-omni-1.1-flash", {"prompt": "a lake", "duration": 5}),
    "xai_video": ("grok-imagine-video", {"prompt": "a lake", "duration": 6}),
    "sume": ("gpt-image-2", {"prompt": "a lake"}),
}
POLLED = ("replicate", "fal", "gemini_interactions", "xai_video", "sume")


class MediaProviderTests(SynchronousTestCase):
    """Conversations without a socket."""

    def setUp(self) -> None:
        self.provider = MediaProvider(Clock(), lambda: NOW)
        self.provider.at("http://127.0.0.1:1", "http://127.0.0.1:2")
        self.number = 0
        self.sent: list[Request] = []

    # -- wires

    def seen(self, method: str, url: str, headers: dict[str, str], body: bytes) -> SeenRequest:
        """Read a request as the fake would."""
        self.number += 1
        parts = urlsplit(url)
        fields = json.loads(body) if body else {}
        return SeenRequest(
            self.number, 1, 1, method, parts.path, parts.query, False, headers, body, fields
        )

    def ask(self, request: Request) -> Answer:
        """Have a request answered as the gateway's outbound client would."""
        self.sent.append(request)
        seen = self.seen(request.method, request.url, dict(request.headers), request.body)
        reply = self.provider.answer(seen)
        if reply.broken == "reset":
            return Answer(0, fault=CONNECTION_LOST)
        if reply.broken == "hang":
            return Answer(0, fault=TIMEOUT)
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        headers = {"content-type": reply.content_type, **reply.headers}
        if request.cap is Cap.OUTPUT and reply.status == 200:
            kept = KeptMedia("/f", len(body), hashlib.sha256(body).hexdigest(), body[:64])
            return Answer(200, headers, kept=kept)
        return Answer(reply.status, headers, body)

    def converse(self, steps: Steps[T]) -> T:
        """Answer an adapter until it has come to something."""
        try:
            request = next(steps)
            while True:
                request = steps.send(self.ask(request))
        except StopIteration as end:
            outcome: T = end.value
            return outcome

    def task(self, name: str, model: str = "", credential: str = "") -> Task:
        """What an adapter is to do."""
        usual, given = MODELS[name]
        return Task(
            f"job_{self.number}",
            0,
            self.provider.base_url(name),
            model or usual,
            given,
            credential or f"test-{name}",
        )

    def submit(self, name: str, modes: str = "", model: str = "") -> SubmitOutcome:
        """Begin, with modes ordered before."""
        self.provider.world.script(name, modes, 1)
        return self.converse(ADAPTERS[name].submit(self.task(name, model)))

    def handle(self, name: str, modes: str = "") -> Handle:
        """Begin what goes on for a while."""
        outcome = self.submit(name, modes)
        assert isinstance(outcome, Accepted), outcome
        return outcome.handle

    def poll(self, name: str, handle: Handle) -> PollOutcome:
        """Ask once."""
        return self.converse(ADAPTERS[name].poll(self.task(name), handle))

    def end(self, name: str, modes: str = "", model: str = "") -> Done | Failed | Stopped:
        """Ask until it is over."""
        outcome = self.submit(name, modes, model)
        if not isinstance(outcome, Accepted):
            return outcome
        for _ in range(20):
            told = self.poll(name, outcome.handle)
            if isinstance(told, Done | Failed | Stopped):
                return told
        raise AssertionError("it never ends")

    def file(self, url: str, headers: dict[str, str] | None = None) -> Reply:
        """Fetch a file."""
        plan_of = self.provider.files.script
        assert plan_of is not None
        plan = plan_of(self.seen("GET", url, headers or {}, b""))
        assert isinstance(plan, Plan)
        data = b"".join(step.data for step in plan.steps if isinstance(step, Send))
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        told = dict(line.split(": ", 1) for line in lines[1:])
        cut = any(isinstance(step, Reset | Hang) for step in plan.steps)
        return Reply(
            int(lines[0].split()[1]), body, told.get("content-type", ""), told, broken=str(cut)
        )

    # -- what it shows

    def test_all_eight_are_played(self) -> None:
        """Each adapter has its fake, and comes to an output of the right type there."""
        self.assertEqual(sorted(NAMES), sorted(api.adapter for api in APIS))
        self.assertEqual(sorted(NAMES), sorted(MODELS))
        for name in NAMES:
            done = self.end(name)
            self.assertIsInstance(done, Done, name)
            assert isinstance(done, Done)
            self.assertEqual(1, len(done.sources), name)
            self.assertEqual(1, self.provider.world.submits[name], name)

    def test_credentials(self) -> None:
        """Another key is refused in the provider's words, and does not come back."""
        for name in NAMES:
            told = self.converse(ADAPTERS[name].submit(self.task(name, credential="wrong-key-42")))
            assert isinstance(told, Failed), (name, told)
            self.assertIn("Incorrect API key", told.error.message, name)
            self.assertNotIn("wrong-key-42", told.error.message)
        self.assertEqual({}, self.provider.world.submits)

    def test_refused_submits(self) -> None:
        """Each status is an outcome; of all only 429 says that it may work elsewhere at once."""
        for name in NAMES:
            for mode in ("500", "503", "402", "422", "413", "429", "quota"):
                # Sume may be asked up to three times.
                self.provider.world.script(name, mode, 2)
                told = self.submit(name, mode)
                assert isinstance(told, Failed), (name, mode, told)
                self.assertEqual(mode == "429", told.rate_limited, (name, mode))
                self.provider.world.scripts.clear()

    def test_a_submit_that_gets_lost(self) -> None:
        """Sume alone may be asked again, and makes one job of it."""
        for name in NAMES:
            told = self.submit(name, "reset-submit")
            made = [work for work in self.provider.world.works.values() if work.adapter == name]
            self.assertEqual(1, len(made), name)
            self.assertIsInstance(told, Accepted if name == "sume" else Failed, name)

    def test_bad_polls(self) -> None:
        """They tell nothing, and the next good one does."""
        for name in POLLED:
            for mode in ("500", "429", "404", "junk", "reset", "hang"):
                handle = self.handle(name, f"poll-{mode}=1")
                self.assertIsInstance(self.poll(name, handle), Transient, f"{name} {mode}")
                self.assertIsInstance(self.poll(name, handle), Running, f"{name} {mode}")

    def test_words_that_nobody_knows(self) -> None:
        """It goes on."""
        for name in POLLED:
            handle = self.handle(name, "unknown-status")
            self.assertIsInstance(self.poll(name, handle), Running, name)
            self.assertIsInstance(self.poll(name, handle), Done, name)

    def test_ends(self) -> None:
        """Failed, refused, expired, empty: all are failures in words."""
        for name in NAMES:
            for mode in ("fail", "moderated", "expired", "empty"):
                told = self.end(name, mode)
                assert isinstance(told, Failed), (name, mode, told)
                self.assertTrue(told.error.message, (name, mode))

    def test_cancels(self) -> None:
        """Proved, too late, or nobody knows."""
        for name in ("replicate", "fal", "gemini_interactions", "sume"):
            for mode, kinds in (
                ("cancel-ok", (Stopped,)),
                ("cancel-late", (NotCanceled, Unclear)),
                ("cancel-404", (Unclear, NotCanceled)),
                ("cancel-500", (Unclear,)),
            ):
                handle = self.handle(name, mode)
                told = self.converse(ADAPTERS[name].cancel(self.task(name), handle))
                self.assertIsInstance(told, kinds, f"{name} {mode}")
            handle = self.handle(name, "steps=1")
            self.assertIsInstance(self.poll(name, handle), Done, name)
            told = self.converse(ADAPTERS[name].cancel(self.task(name), handle))
            self.assertFalse(isinstance(told, Stopped), name)

    def test_foreign_urls(self) -> None:
        """No credential goes to another origin."""
        for name in ("replicate", "fal"):
            handle = self.handle(name, "foreign-urls")
            self.assertIsInstance(self.poll(name, handle), Running)
        for request in self.sent:
            self.assertTrue(request.url.startswith("http://127.0.0.1:1/"), request.url)

    def test_modes_stand_in_the_models_name(self) -> None:
        """So that one route of a config can be one way to go wrong."""
        told = self.end("openai_images", model="gpt-image-2~outputs=3~bytes=5000")
        assert isinstance(told, Done)
        self.assertEqual(3, len(told.sources))
        for source in told.sources:
            assert isinstance(source, InlineSource) and isinstance(source.content, bytes)
            self.assertEqual(5000, len(source.content))
        told = self.end("openai_images", model="gpt-image-2~surprise")
        assert isinstance(told, Failed)
        self.assertIn("surprise", told.error.message)

    def test_files(self) -> None:
        """What an answer names lies there, and no credential may come with it."""
        done = self.end("replicate", "outputs=2")
        assert isinstance(done, Done)
        urls = [source.url for source in done.sources if isinstance(source, UrlSource)]
        self.assertEqual(2, len({self.file(url).body for url in urls}))
        told = self.file(urls[0])
        self.assertEqual((200, "image/png"), (told.status, told.content_type))
        self.assertEqual(403, self.file(urls[0], {"authorization": "Bearer x"}).status)
        self.assertEqual(404, self.file("http://127.0.0.1:2/f/none/0").status)

    def test_files_that_go_wrong(self) -> None:
        """Each way is one that a download has to bear."""
        for modes, status, location in (
            ("file-404", 404, ""),
            ("redirect=1", 302, "hop=1"),
            ("redirect-loop", 302, "hop=1"),
            ("redirect-private", 302, "169.254.169.254"),
            ("redirect-file", 302, "file:"),
        ):
            done = self.end("replicate", modes)
            assert isinstance(done, Done) and isinstance(done.sources[0], UrlSource)
            told = self.file(done.sources[0].url)
            self.assertEqual(status, told.status, modes)
            self.assertIn(location, told.headers.get("location", ""))
        for modes, name in (
            ("no-length", "transfer-encoding"),
            ("file-gzip", "content-encoding"),
        ):
            done = self.end("replicate", modes)
            assert isinstance(done, Done) and isinstance(done.sources[0], UrlSource)
            self.assertIn(name, self.file(done.sources[0].url).headers)
        for modes in ("file-cut", "file-endless"):
            done = self.end("replicate", modes)
            assert isinstance(done, Done) and isinstance(done.sources[0], UrlSource)
            self.assertEqual("True", self.file(done.sources[0].url).broken)

    def test_where_outputs_are_said_to_lie(self) -> None:
        """Private addresses, names with several, users in a URL, and data."""
        for mode, part in (
            ("private-url", "169.254.169.254"),
            ("mixed-dns", "mixed.example.com"),
            ("userinfo-url", "user:pass@"),
        ):
            done = self.end("replicate", mode)
            assert isinstance(done, Done) and isinstance(done.sources[0], UrlSource)
            self.assertIn(part, done.sources[0].url)
        done = self.end("replicate", "data-url")
        assert isinstance(done, Done) and isinstance(done.sources[0], InlineSource)

    def test_the_provider_tells_its_seconds(self) -> None:
        """Where it does."""
        done = self.end("xai_video", "seconds=4")
        assert isinstance(done, Done)
        self.assertEqual(4000, done.provider_ms)

    def test_pictures_are_pictures(self) -> None:
        """Every chunk has its checksum, and the rows are as many as the head says."""
        data = png("a lake", 40, 30)
        self.assertEqual(data, png("a lake", 40, 30))
        self.assertNotEqual(data, png("a hill", 40, 30))
        at, rows = 8, b""
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
            check = int.from_bytes(data[at + 8 + size : at + 12 + size], "big")
            self.assertEqual(zlib.crc32(kind + content), check)
            rows += content if kind == b"IDAT" else b""
            at += 12 + size
        self.assertEqual(30 * (40 * 3 + 1), len(zlib.decompress(rows)))

    def test_what_is_told_of_it(self) -> None:
        """What was begun, every request, and nothing after a reset."""
        self.end("fal")
        told = self.direct("GET", "/_/jobs")
        self.assertEqual({"fal": 1}, told["submits"])
        self.assertEqual("fal-ai/flux/dev", told["works"][0]["model"])
        self.direct("POST", "/_/reset")
        self.assertEqual({"submits": {}, "works": []}, self.direct("GET", "/_/jobs"))
        self.direct("POST", "/_/script", {"adapter": "fal", "modes": "fail", "times": 1})
        self.assertIsInstance(self.end("fal"), Failed)
        for fields in ({"adapter": "fal", "modes": "nonsense"}, {}):
            seen = self.seen("POST", "http://x/_/script", {}, json.dumps(fields).encode())
            self.assertEqual(400, self.provider.answer(seen).status)

    def direct(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        """Direct the play."""
        body = b"" if fields is None else json.dumps(fields).encode()
        reply = self.provider.answer(self.seen(method, f"http://x{path}", {}, body))
        self.assertEqual(200, reply.status)
        return reply.body

    def test_webhooks_are_judged_as_the_standard_asks(self) -> None:
        """Signature, time and id; what the official package signs is right."""
        secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
        self.direct("POST", "/_/hook/a", {"secret": secret, "statuses": [503, 200]})
        body = b'{"type":"job.succeeded"}'
        for stamp, key, status in (
            (NOW, secret, 503),
            (NOW, secret, 200),
            (NOW - 400, secret, 400),
            (NOW, "whsec_" + base64.b64encode(b"x" * 32).decode(), 400),
        ):
            headers = self.signed(key, stamp, body)
            told = self.provider.answer(self.seen("POST", "http://x/hook/a", headers, body))
            self.assertEqual(status, told.status)
        faults = [each["fault"] for each in self.direct("GET", "/_/hooks")]
        self.assertEqual(["", "", "webhook-timestamp is too far off", "no signature fits"], faults)

    def signed(self, secret: str, stamp: float, body: bytes) -> dict[str, str]:
        """Sign as the official package does."""
        from datetime import UTC, datetime

        moment = datetime.fromtimestamp(stamp, UTC)
        return {
            "content-type": "application/json",
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(stamp)),
            "webhook-signature": Webhook(secret).sign("msg_1", moment, body.decode()),
        }

    def test_every_mode_is_used(self) -> None:
        """A mode that nothing looks at would promise what it does not do."""
        from pathlib import Path

        import omnigate.testing.media as package

        folder = Path(package.__path__[0])
        source = "".join(
            path.read_text() for path in folder.glob("*.py") if path.name != "modes.py"
        )
        for mode in MODES:
            stem = mode.partition("-")[2] if mode.startswith("poll-") else mode
            self.assertTrue(f'"{stem}"' in source or f"{stem}:" in source, mode)

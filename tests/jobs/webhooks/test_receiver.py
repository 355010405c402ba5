"""Deliveries over real sockets, to the receiver that the docs show."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest, TestCase
from twisted.web.http import Request as WebRequest
from twisted.web.resource import Resource
from twisted.web.server import Site

from omnigate.config.media import WebhooksConfig
from omnigate.jobs.job import DELIVERED, PENDING, SUCCEEDED, Job, Webhook
from omnigate.jobs.job_json import job_json
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from tests.jobs.webhooks.fakes import SECRET, MemoryJobs

DOCS = Path(__file__).parents[3] / "docs" / "jobs.md"


def shown_receiver(printed: list[tuple[str, ...]]) -> Callable[[dict[str, str], bytes], int]:
    """The function of the docs that takes a delivery; what it prints goes to ``printed``."""
    if not DOCS.is_file():
        raise SkipTest("the pages are in the checkout only, not in the installed package")
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (source,) = [example for example in examples if "def receive(" in example]
    names: dict[str, Any] = {"print": lambda *words: printed.append(words)}
    exec(compile(source, str(DOCS), "exec"), names)
    receive: Callable[[dict[str, str], bytes], int] = names["receive"]
    return receive


class Receiver(Resource):
    """Hands deliveries to the function of the docs.

    :ivar statuses: what it said to each.
    """

    isLeaf = True

    def __init__(self, receive: Callable[[dict[str, str], bytes], int]) -> None:
        super().__init__()
        self.receive = receive
        self.statuses: list[int] = []
        self.headers: dict[str, str] = {}
        self.body = b""
        self.forge = b""
        self.answer = b""
        self.location = b""

    def render_POST(self, request: WebRequest) -> bytes:
        self.headers = {
            name.decode().lower(): values[0].decode()
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        assert request.content is not None
        self.body = request.content.read() + self.forge
        status = self.receive(self.headers, self.body)
        if self.location:
            status = 307
            request.setHeader(b"location", self.location)
        self.statuses.append(status)
        request.setResponseCode(status)
        return self.answer


class ReceiverTests(TestCase):
    """One receiver on loopback."""

    def setUp(self) -> None:
        reactor: Any = global_reactor
        before = os.environ.get("WEBHOOK_SECRET")
        os.environ["WEBHOOK_SECRET"] = SECRET
        try:
            self.printed: list[tuple[str, ...]] = []
            self.receiver = Receiver(shown_receiver(self.printed))
        finally:
            del os.environ["WEBHOOK_SECRET"]
            if before is not None:
                os.environ["WEBHOOK_SECRET"] = before
        port = reactor.listenTCP(0, Site(self.receiver), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.url = f"http://127.0.0.1:{port.getHost().port}/hook"
        self.store = MemoryJobs()

    def delivered(self, allow: tuple[str, ...] = ("127.0.0.1/32",)) -> Deferred[Webhook]:
        """Deliver the end of a job once; fires with its webhook after that."""
        reactor: Any = global_reactor
        outbound = Outbound(reactor, AddressGuard(allow))
        hooks = Webhooks(
            self.store,
            outbound,
            reactor,
            lambda: int(time.time() * 1_000),
            lambda: WebhooksConfig(allow_http=True),
            job_json,
            lambda key: (SECRET,),
            lambda: 0.5,
        )
        done: Deferred[Webhook] = Deferred()

        def watch(before: Job | None, after: Job) -> None:
            assert after.webhook is not None
            hooks.arm(after)
            if before is not None and "is under way" not in after.webhook.last_error:
                reactor.callLater(0, done.callback, after.webhook)

        async def stop() -> None:
            await hooks.stop()
            await outbound.close()

        self.store.watchers = [watch]
        self.addCleanup(lambda: Deferred.fromCoroutine(stop()))
        hooks.start()
        self.store.put(
            Job(
                id="job_1",
                key_sha256="a",
                model="flux",
                created_ms=1,
                finished_ms=2,
                status=SUCCEEDED,
                metadata={"note": "Grüße"},
                webhook=Webhook(self.url, PENDING),
            )
        )
        return done

    async def test_it_verifies(self) -> None:
        """The receiver of the docs takes a delivery, and knows its repeat."""
        hook = await self.delivered()
        self.assertEqual((DELIVERED, 204), (hook.state, hook.last_status))
        self.assertEqual([204], self.receiver.statuses)
        self.assertEqual(204, self.receiver.receive(self.receiver.headers, self.receiver.body))
        self.assertEqual([("job.succeeded", "job_1")], self.printed)

    async def test_its_headers(self) -> None:
        """Nothing of the gateway's own goes with it: no cookie, no credential."""
        await self.delivered()
        named = {"content-type", "webhook-id", "webhook-timestamp", "webhook-signature"}
        usual = {"host", "content-length", "connection", "accept", "accept-encoding", "user-agent"}
        self.assertEqual(named, set(self.receiver.headers) - usual)

    async def test_a_forged_one(self) -> None:
        """A body that differs from what was signed is not taken."""
        self.receiver.forge = b" "
        hook = await self.delivered()
        self.assertEqual((PENDING, 401), (hook.state, hook.last_status))

    async def test_a_long_answer(self) -> None:
        """A receiver that says much with its 2xx has taken the delivery."""
        self.receiver.answer = b"x" * 1_000_000
        receive = self.receiver.receive
        self.receiver.receive = lambda headers, body: min(200, receive(headers, body))
        hook = await self.delivered()
        self.assertEqual((DELIVERED, 200), (hook.state, hook.last_status))

    async def test_a_redirect(self) -> None:
        """A redirect is a failed attempt, and is not followed."""
        self.receiver.location = self.url.encode()
        hook = await self.delivered()
        self.assertEqual((PENDING, 307), (hook.state, hook.last_status))
        self.assertEqual([307], self.receiver.statuses)

    async def test_a_private_address(self) -> None:
        """An address that is not public gets no connection."""
        hook = await self.delivered(allow=())
        self.assertEqual((PENDING, 0, []), (hook.state, hook.last_status, self.receiver.statuses))
        self.assertIn("not allowed", hook.last_error)

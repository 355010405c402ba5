"""What the tests with the official packages share: a gateway, a client of either kind, the bill.

Every scene is written once, as a coroutine, and is played twice: with the package's blocking client
and with its asynchronous one.
"""

import asyncio
import importlib
import inspect
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.process.daemons import (
    Gateway,
    cost_of,
    free_ports,
    key_of,
    key_table,
    route_table,
    shared,
    upstream_table,
    wait_for,
)

#: Model names of the gateway, and what the provider does at them.
SCENARIOS = {
    "small": "fake-small",
    "cached": "fake-input-500-cached-100-cache-write-20-reasoning-5",
    "large": "fake-large",
    "tools": "fake-tools-2",
    "org/small-v2:free": "fake-words-3",
    "bad": "fake-400",
    "limited": "fake-429-retry-after-7",
    "patient": "fake-429-retry-after-999",
    "overloaded": "fake-529",
    "cut": "fake-cut-after-4",
    "error-event": "fake-error-event-after-4",
    "busy-once-openai-sync": "fake-503-times-1-words-4",
    "busy-once-openai-async": "fake-503-times-1-words-5",
    "busy-once-anthropic-sync": "fake-503-times-1-words-6",
    "busy-once-anthropic-async": "fake-503-times-1-words-7",
}
#: Of a key that may use some only.
NARROW = ("small", "org/*")

_names = itertools.count(1)


def _config(protocol: str, provider_port: int) -> str:
    """Every model at upstreams of one protocol, so that nothing is translated."""
    (nowhere,) = free_ports(1)
    tables = [
        key_table("app"),
        key_table("narrow", models=NARROW),
        upstream_table(protocol, protocol, provider_port),
        upstream_table("nowhere", protocol, nowhere),
        upstream_table("keyless", protocol, provider_port, "NOT_THERE"),
    ]
    for model, target in SCENARIOS.items():
        tables.append(route_table(model, (protocol, target)))
    for name in ("nowhere", "keyless"):
        tables.append(route_table(name, (name, "fake-small")))
    return "".join(tables)


def sdk_gateway(protocol: str) -> Gateway:
    """The gateway of all these tests of one package."""
    return shared(f"sdk-{protocol}", lambda: Gateway(partial(_config, protocol)).start())


def unready_gateway(case: "SdkCase") -> Gateway:
    """A gateway without its control plane, whose data plane has never seen a config."""
    gateway = Gateway(partial(_config, case.package))
    case.addCleanup(gateway.stop)
    gateway.data = gateway.spawn("data")
    gateway.data.wait_ready(gateway.data_port, "/healthz")
    return gateway


async def done(value: Any) -> Any:
    """What a call of either client comes to."""
    return await value if inspect.isawaitable(value) else value


async def items(stream: Any) -> list[Any]:
    """Everything a stream of either client gives."""
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return list(stream)


class SdkCase(SynchronousTestCase):
    """A test that drives the gateway with an official package.

    :cvar package: the package's name, which is that of its protocol.
    :ivar asynchronous: whether its asynchronous client is at work.
    :ivar answers: every answer that came over HTTP, retried ones too.
    """

    package: ClassVar[str]

    def setUp(self) -> None:
        try:
            self.sdk: Any = importlib.import_module(self.package)
        except ImportError:
            raise SkipTest(f"the package {self.package} is not installed") from None
        # A proxy of the surroundings has no business on loopback.
        self.patch(os, "environ", {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
        self.gateway = self.find_gateway()
        self.addCleanup(self.check_logs)
        self.asynchronous = False
        self.answers: list[Any] = []

    def find_gateway(self) -> Gateway:
        """The gateway to drive."""
        return sdk_gateway(self.package)

    def check_logs(self) -> None:
        """Nothing of ours broke."""
        self.assertEqual(self.gateway.traces(), [])

    def client(self, key: str, **options: Any) -> Any:
        """A client of the package with this secret; it ends with the scene."""
        raise NotImplementedError

    def options(self, **options: Any) -> dict[str, Any]:
        """What both packages' clients are given."""
        if self.asynchronous:

            async def note(response: Any) -> None:
                self.answers.append(response)

            kind = self.sdk.DefaultAsyncHttpxClient
            return {"http_client": kind(event_hooks={"response": [note]}), **options}
        kind = self.sdk.DefaultHttpxClient
        return {"http_client": kind(event_hooks={"response": [self.answers.append]}), **options}

    def play(
        self,
        scene: Callable[[Any], Awaitable[None]],
        key: Callable[[], str] = lambda: key_of("app"),
        modes: Sequence[bool] = (False, True),
        **options: Any,
    ) -> None:
        """Play a scene with the blocking client, and again with the asynchronous one.

        :param key: makes the secret that the client has.
        :param options: of the client.
        """

        async def whole() -> None:
            client = self.client(key(), **options)
            try:
                await scene(client)
            finally:
                await done(client.close())

        for self.asynchronous in modes:
            self.answers.clear()
            try:
                asyncio.run(whole())
            except AssertionError as error:
                kind = "asynchronous" if self.asynchronous else "blocking"
                raise self.failureException(f"with the {kind} client: {error}") from error

    def request_id(self, index: int = -1) -> str:
        """The id of an answer; every one has it under three names or the provider's own."""
        headers = self.answers[index].headers
        for name in ("x-request-id", "request-id"):
            self.assertIn(name, headers)
        value: str = headers["x-omnigate-request-id"]
        return value

    def event(self, index: int = -1) -> dict[str, Any]:
        """The usage event of an answer: recorded once, at exactly its price."""
        event = self.gateway.event(self.request_id(index))
        self.assertEqual(event["cost_usd"], cost_of(event))
        return event

    def assert_billed(
        self,
        endpoint: str,
        tokens: tuple[int, int, int, int],
        stream: bool = False,
        upstream: str | None = None,
    ) -> None:
        """The last answer is in the ledger with these tokens.

        :param tokens: input, cached input, cache write, output.
        """
        event = self.event()
        self.assertEqual(
            (event["endpoint"], event["stream"], event["status"], event["estimated"]),
            (endpoint, stream, 200, False),
        )
        self.assertEqual(event["upstream"], upstream or self.package)
        names = ("input", "cached_input", "cache_write_input", "output")
        self.assertEqual(tuple(event[f"{name}_tokens"] for name in names), tokens)
        self.assertEqual(len(self.answers), 1)

    def make_key(self, **limits: Any) -> str:
        """Make a managed key and wait until the data plane knows it; its secret."""
        name = f"{self.package}-{next(_names)}"
        made = self.gateway.admin().call("POST", "/admin/keys", {"name": name, **limits})
        secret: str = made["secret"]
        wait_for(
            f"the key {name} to be known",
            lambda: self.gateway.get("/v1/models", secret).status == 200,
        )
        return secret

    def blocked(self, secret: str) -> Callable[[], bool]:
        """Ask whether the data plane has been told that a key is blocked; it costs nothing."""
        return lambda: self.gateway.post("/v1/messages/count_tokens", {}, secret).status == 402

    def requests_of(self, model: str) -> int:
        """How often the provider has been asked for a model."""
        row = self.gateway.served()["models"].get(model)
        return row["requests"] if row else 0

"""All fake media providers as one program on loopback.

``python -m omnigate.testing.media.provider`` prints the ports of the APIs and of the file host, and
serves until it is stopped. Each adapter's ``base_url`` is ``http://127.0.0.1:PORT/ADAPTER`` and its
credential ``test-ADAPTER``. How work goes wrong is said by the model's name (``flux~fail``;
``--list`` shows every word), or ordered before: ``POST /_/script`` with ``{"adapter", "modes",
"times"}`` for the next ones, or with ``"prompt"`` for all that are asked for with it.

``GET /_/jobs`` tells what was begun, ``GET /_/log`` every request, ``GET /_/hooks`` the webhooks
that came to ``/hook/NAME``; ``POST /_/hook/NAME`` says how one answers, and ``POST /_/reset``
forgets it all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs
from twisted.internet.interfaces import IListeningPort, IReactorTCP, IReactorTime

from omnigate.testing.media.api import Api
from omnigate.testing.media.at_once import (
    ElevenLabsApi,
    GeminiApi,
    GeminiInteractionsApi,
    OpenAiImagesApi,
)
from omnigate.testing.media.files import serve
from omnigate.testing.media.hooks import Hooks
from omnigate.testing.media.modes import MODES, UnknownModeError
from omnigate.testing.media.queued import FalApi, ReplicateApi, SumeApi, XaiVideoApi
from omnigate.testing.media.reply import Reply
from omnigate.testing.media.work import World
from omnigate.testing.provider import FakeProvider
from omnigate.testing.provider_plan import Plan
from omnigate.testing.provider_request import SeenRequest

APIS: Final[tuple[type[Api], ...]] = (
    ReplicateApi,
    FalApi,
    OpenAiImagesApi,
    ElevenLabsApi,
    GeminiApi,
    GeminiInteractionsApi,
    XaiVideoApi,
    SumeApi,
)

#: Works that an answer about them lists.
MAX_LISTED: Final = 2_000


class MediaProvider:
    """The fakes and what they share; two listeners, since files lie at another origin.

    :param clock: for what takes time.
    :param wall: seconds since 1970, for the timestamps of webhooks.
    :ivar world: what they work on.
    :ivar hooks: the receiver of webhooks.
    """

    def __init__(self, clock: IReactorTime, wall: Callable[[], float]) -> None:
        self._wall = wall
        self.world = World()
        self.hooks = Hooks()
        self.apis = FakeProvider(clock, script=self._api)
        self.files = FakeProvider(clock, script=self._file)
        self._by_name = {api.adapter: api(self.world) for api in APIS}

    def listen(self, reactor: IReactorTCP, port: int = 0, file_port: int = 0) -> tuple[int, int]:
        """Listen on loopback, and return the ports of the APIs and of the file host."""
        self.ports: tuple[IListeningPort, ...] = (
            self.apis.listen(reactor, port),
            self.files.listen(reactor, file_port),
        )
        found = [each.getHost().port for each in self.ports]  # type: ignore[attr-defined]
        self.at(f"http://127.0.0.1:{found[0]}", f"http://127.0.0.1:{found[1]}")
        return found[0], found[1]

    def at(self, base: str, files: str) -> None:
        """Say where the two are."""
        self.world.base, self.world.files = base, files

    def base_url(self, adapter: str) -> str:
        """Return the ``base_url`` of an adapter's target."""
        return f"{self.world.base}/{adapter}"

    def _api(self, request: SeenRequest) -> Plan:
        return self.answer(request).plan(request)

    def _file(self, request: SeenRequest) -> Plan:
        return serve(self.world, request).plan(request)

    def answer(self, request: SeenRequest) -> Reply:
        """Answer a request to the port of the APIs."""
        _, first, *rest = request.path.split("/")
        if first == "_":
            return self._order(request, rest)
        if first == "hook" and rest:
            return self.hooks.take(rest[0], request, self._wall())
        api = self._by_name.get(first)
        if api is None:
            return Reply(404, {"detail": "there is no such provider here"})
        return api.answer(request, "/" + "/".join(rest))

    def _order(self, request: SeenRequest, rest: list[str]) -> Reply:
        """Answer whoever directs the play."""
        what = "/".join(rest)
        if request.method == "GET":
            looks: dict[str, Callable[[], Any]] = {
                "jobs": self._jobs,
                "log": lambda: (
                    [_logged(seen, "api") for seen in self.apis.seen]
                    + [_logged(seen, "file") for seen in self.files.seen]
                ),
                "hooks": lambda: [attrs.asdict(each) for each in self.hooks.deliveries],
                "hook-ids": lambda: [each.id for each in self.hooks.deliveries],
            }
            look = looks.get(what)
            return Reply(404) if look is None else Reply(200, look())
        if what == "reset":
            self.world.reset()
            self.hooks = Hooks()
            self.apis.reset()
            self.files.reset()
            return Reply(200, {})
        fields = request.fields
        try:
            if what == "script":
                times = int(fields.get("times", 1))
                modes, prompt = str(fields.get("modes", "")), str(fields.get("prompt", ""))
                self.world.script(str(fields["adapter"]), modes, times, prompt)
                return Reply(200, {})
            if len(rest) == 2 and rest[0] == "hook":
                self.hooks.order(rest[1], fields)
                return Reply(200, {})
        except (KeyError, ValueError, TypeError, UnknownModeError) as error:
            return Reply(400, {"detail": f"not understood: {error}"})
        return Reply(404)

    def _jobs(self) -> dict[str, Any]:
        works = list(self.world.works.values())[-MAX_LISTED:]
        return {
            "submits": self.world.submits,
            "works": [
                {
                    "id": work.id,
                    "adapter": work.adapter,
                    "model": work.model,
                    "input": work.input,
                    "polls": work.polls,
                    "canceled": work.canceled,
                    "cancels": work.cancels,
                }
                for work in works
            ],
        }


def _logged(seen: SeenRequest, port: str) -> dict[str, Any]:
    body = seen.body[:4096].decode("utf-8", "replace")
    return {
        "port": port,
        "method": seen.method,
        "path": seen.path,
        "query": seen.query,
        "headers": seen.headers,
        "body": body,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until stopped; prints both ports in one line of JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m omnigate.testing.media.provider",
        description="Fake media providers, for tests and trials only.",
        epilog="example: python -m omnigate.testing.media.provider --port 9100 --file-port 9101",
    )
    parser.add_argument("--port", type=int, default=0, help="of the APIs; 0 takes a free one")
    parser.add_argument("--file-port", type=int, default=0, help="of the file host")
    parser.add_argument("--list", action="store_true", help="print the modes and leave")
    options = parser.parse_args(arguments)
    if options.list:
        sys.stdout.write("".join(f"  ~{mode:18} {what}\n" for mode, what in MODES.items()))
        return
    import time

    from twisted.internet import reactor

    provider = MediaProvider(cast(IReactorTime, reactor), time.time)
    port, file_port = provider.listen(cast(IReactorTCP, reactor), options.port, options.file_port)
    sys.stdout.write(json.dumps({"port": port, "file_port": file_port}) + "\n")
    sys.stdout.flush()
    reactor.run()


if __name__ == "__main__":
    main()

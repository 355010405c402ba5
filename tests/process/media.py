"""Both planes and the fake media providers as processes, for tests that make jobs and kill.

How work behaves is ordered by its prompt (``python -m omnigate.testing.media.provider --list``).
Clients speak to the data plane alone.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from standardwebhooks import Webhook

from omnigate.config.media import ADAPTERS
from tests.process.daemons import (
    SECONDS,
    Answer,
    Daemon,
    Gateway,
    Provider,
    files_below,
    free_ports,
    key_of,
    key_table,
    read_answer,
    wait_for,
)

#: A model of each provider, what it is asked for, and the type of what it makes.
MODELS: Final[Mapping[str, tuple[str, dict[str, Any], str]]] = {
    "replicate": ("acme/flux", {"prompt": "a lake"}, "image/png"),
    "fal": ("fal-ai/flux/dev", {"prompt": "a lake"}, "image/jpeg"),
    "openai_images": ("gpt-image-2", {"prompt": "a lake"}, "image/png"),
    "elevenlabs": ("eleven_flash_v2_5", {"text": "hello", "voice_id": "v1"}, "audio/mpeg"),
    "gemini": ("gemini-3.1-flash-image", {"prompt": "a lake"}, "image/png"),
    "gemini_interactions": (
        "gemini-omni-1.1-flash",
        {"prompt": "a lake", "duration": 5},
        "video/mp4",
    ),
    "xai_video": ("grok-imagine-video", {"prompt": "a lake", "duration": 6}, "video/mp4"),
    "sume": ("gpt-image-2", {"prompt": "a lake"}, "image/png"),
}

#: US dollars of one job on every route.
PER_JOB: Final = "0.013"

#: The secret that webhooks of every key are signed with.
HOOK_SECRET: Final = "whsec_" + base64.b64encode(b"secret-of-the-tests-24-b").decode()

FINAL: Final = ("succeeded", "failed", "canceled")


@attrs.frozen
class Target:
    """A target of a media route."""

    adapter: str

    def table(self, port: int) -> str:
        """Its table in the config."""
        model = MODELS[self.adapter][0]
        return (
            f'  [[media.routes.targets]]\n  adapter = "{self.adapter}"\n  model = "{model}"\n'
            f'  base_url = "http://127.0.0.1:{port}/{self.adapter}"\n'
            f'  api_key_env = "TEST_{self.adapter.upper()}"\n'
            f"  price = {{ per_job = {PER_JOB} }}\n"
        )


@attrs.frozen
class Route:
    """A media route; its targets are tried in their order."""

    targets: Sequence[Target]
    timeout_s: int = 60
    cache_ttl_s: int = 0

    def table(self, model: str, port: int) -> str:
        """Its table in the config."""
        head = (
            f'[[media.routes]]\nmodel = "{model}"\ntimeout_s = {self.timeout_s}\n'
            f"cache_ttl_s = {self.cache_ttl_s}\n"
        )
        return head + "".join(target.table(port) for target in self.targets)


def route(*adapters: str, **options: Any) -> Route:
    """Return a route with these targets."""
    return Route([Target(adapter) for adapter in adapters], **options)


class MediaGateway(Gateway):
    """Both daemons and the fake media providers.

    :param routes: by the name that jobs write.
    :param keys: the limits of each key.
    :param media: settings of ``[media]``, TOML.
    :param hooks: settings of ``[media.webhooks]``.
    :param more: further tables, out of the provider's port.
    :param sources: networks where outputs and webhooks may lie.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        keys: Mapping[str, Mapping[str, object]] | None = None,
        media: str = "",
        hooks: str = "",
        more: str = "",
        sources: Sequence[str] = ("127.0.0.0/8",),
        data: Mapping[str, str] | None = None,
    ) -> None:
        self.file_port = free_ports(1)[0]
        tables = [
            key_table(name, webhook_secret_env="HOOK_SECRET", **limits)
            for name, limits in (keys or {"app": {}, "other": {}}).items()
        ]

        def config(port: int) -> str:
            return "\n".join(
                [
                    f"[outbound]\nallow = {json.dumps(list(sources))}",
                    "[media]\npoll_interval_ms = 100",
                    media,
                    f"[media.webhooks]\nallow_http = true\n{hooks}",
                    *tables,
                    *[each.table(model, port) for model, each in routes.items()],
                    more.replace("PROVIDER_PORT", str(port)),
                ]
            )

        def command(port: int) -> Sequence[str]:
            module = [sys.executable, "-m", "omnigate.testing.media.provider"]
            return [*module, "--port", str(port), "--file-port", str(self.file_port)]

        super().__init__(config, data, Provider(command, "/_/jobs", "none"))

    def run(self, name: str, command: Sequence[str]) -> Daemon:
        """Start a program that stands beside them, and wait for nothing."""
        return self._run(name, command, {})

    def environ(self, plane: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a plane: the credentials of media are the control plane's alone."""
        environ = super().environ(plane, settings)
        if plane == "control":
            environ |= {f"TEST_{name.upper()}": f"test-{name}" for name in ADAPTERS}
            environ["HOOK_SECRET"] = HOOK_SECRET
        else:
            environ["TEXT_KEY"] = "none"
        return environ

    # -- as a client

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        key: str = "app",
        **headers: str,
    ) -> Answer:
        """Send a request to the data plane; ``key`` empty for none.

        :raises OSError: no head came.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.data_port, timeout=SECONDS)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            named["authorization"] = f"Bearer {key_of(key)}"
        if body is not None:
            named["content-type"] = "application/json"
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, text, named)
            return read_answer(connection.getresponse())
        except http.client.HTTPException as error:
            raise OSError(f"no answer: {error!r}") from None
        finally:
            connection.close()

    def hook_url(self, name: str) -> str:
        """The address of a receiver of webhooks."""
        return f"http://127.0.0.1:{self.provider_port}/hook/{name}"

    def ask_for(
        self,
        model: str,
        input: Mapping[str, Any] | None = None,
        *,
        hook: str = "",
        key: str = "app",
        idempotency_key: str = "",
        **fields: Any,
    ) -> Answer:
        """Ask for a job."""
        body: dict[str, Any] = {"model": model, "input": dict(input or {"prompt": "a lake"})}
        if hook:
            body["webhook_url"] = self.hook_url(hook)
        headers = {"idempotency_key": idempotency_key} if idempotency_key else {}
        return self.send("POST", "/v1/jobs", body | fields, key, **headers)

    def make(self, model: str, input: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Make a job and return its id.

        :raises AssertionError: it was refused.
        """
        answer = self.ask_for(model, input, **options)
        if answer.status != 202:
            raise AssertionError(f"no job of {model}: {answer.status} {answer.body[:500]!r}")
        made: str = answer.json["id"]
        return made

    def order(self, prompt: str, **modes: str) -> None:
        """Say how work for a prompt behaves, by adapter."""
        for adapter, words in modes.items():
            self.fake("/_/script", {"adapter": adapter, "modes": words, "prompt": prompt})

    def made(self, adapter: str, modes: str = "", prompt: str = "", **options: Any) -> str:
        """Make a job of one adapter that behaves so.

        :param prompt: by which it is known to the fakes; else the modes and a number.
        """
        prompt = prompt or f"{adapter} {modes} {next(self._numbers)}"
        self.order(prompt, **{adapter: modes})
        given = dict(MODELS[adapter][1])
        given["text" if "text" in given else "prompt"] = prompt
        return self.make(adapter, given, **options)

    def job(self, job_id: str, key: str = "app") -> dict[str, Any]:
        """A job as its client sees it."""
        answer = self.send("GET", f"/v1/jobs/{job_id}", key=key)
        if answer.status != 200:
            raise AssertionError(f"{job_id}: {answer.status} {answer.body[:500]!r}")
        shown: dict[str, Any] = answer.json
        return shown

    def end(self, job_id: str, key: str = "app") -> dict[str, Any]:
        """A job that has come to its end; waits for it."""

        def final() -> dict[str, Any] | None:
            shown = self.job(job_id, key)
            return shown if shown["status"] in FINAL else None

        return wait_for(f"the end of {job_id}", final)

    def told(self, job_id: str, key: str = "app") -> dict[str, Any]:
        """A job whose webhook is settled; waits for it."""

        def settled() -> dict[str, Any] | None:
            shown = self.job(job_id, key)
            return shown if shown["webhook"]["state"] in ("delivered", "given_up") else None

        return wait_for(f"the webhook of {job_id}", settled)

    # -- what the disk and the fakes say

    @property
    def log_path(self) -> Path:
        """The log of jobs."""
        return self.control_state / "jobs.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the log of jobs, in order."""
        try:
            text = self.log_path.read_bytes()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.split(b"\n")[:-1] if line.startswith(b"{")]

    def incoming(self) -> list[str]:
        """Files that are on their way, or were left there."""
        return list(map(str, files_below(self.control_state / "media" / ".incoming")))

    def fake(self, path: str, order: object = None) -> Any:
        """Ask the fakes something, or order something."""
        connection = http.client.HTTPConnection("127.0.0.1", self.provider_port, timeout=SECONDS)
        try:
            if order is None:
                connection.request("GET", path)
            else:
                headers = {"content-type": "application/json"}
                connection.request("POST", path, json.dumps(order), headers)
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise AssertionError(f"{path}: {response.status} {body[:500]!r}")
            return json.loads(body)
        finally:
            connection.close()

    def works(self, prompt: str) -> list[dict[str, Any]]:
        """The pieces of work that were begun for a prompt."""
        found: list[dict[str, Any]] = self.fake("/_/jobs")["works"]
        return [
            work
            for work in found
            if prompt in (work["input"].get("prompt"), work["input"].get("text"))
        ]

    def deliveries(self, hook: str) -> list[dict[str, Any]]:
        """The webhooks that came to a receiver."""
        found: list[dict[str, Any]] = self.fake("/_/hooks")
        return [each for each in found if each["hook"] == hook]

    def verified(self, hook: str) -> list[Any]:
        """What came to a receiver, verified by the official package.

        :raises standardwebhooks.WebhookVerificationError: a signature is none.
        """
        seen = [each for each in self.fake("/_/log") if each["path"] == f"/hook/{hook}"]
        webhook = Webhook(HOOK_SECRET)
        return [webhook.verify(each["body"], each["headers"]) for each in seen]

    def events_of(self, job_id: str) -> list[dict[str, Any]]:
        """What the ledger has of a job."""
        return [event for event in self.ledger() if event["id"] == job_id]

    def restart_control(self) -> Daemon:
        """``kill -9`` of the control plane, and start it again."""
        assert self.control is not None
        self.control.kill()
        return self.start_control()


def sha256(data: bytes) -> str:
    """The hash that a job tells of an output."""
    return hashlib.sha256(data).hexdigest()

"""Providers that are asked again and again: Replicate, fal, xAI's videos, Sume."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from omnigate.testing.media.api import Api, Ask, Refusal, bearer, need, only
from omnigate.testing.media.reply import Reply
from omnigate.testing.media.work import Work
from omnigate.testing.provider_request import SeenRequest

_VIDEO: Final = re.compile("video|veo|kling|wan|film")
_SOUND: Final = re.compile("audio|speech|music|tts")


class ReplicateApi(Api):
    """Predictions, https://replicate.com/docs/reference/http."""

    adapter: ClassVar[str] = "replicate"
    _SUBMIT: Final = re.compile(
        r"/v1/(?:models/(?P<model>[^/]+/[^/]+)|deployments/(?P<deployment>[^/]+/[^/]+))/predictions"
    )
    _ONE: Final = re.compile(r"/v1/predictions/(?P<id>[^/]+)(?P<cancel>/cancel)?")

    def credential(self, request: SeenRequest) -> str:
        """A bearer token."""
        return bearer(request)

    def error(self, status: int, message: str) -> Reply:
        """A problem object."""
        return Reply(status, {"title": "Error", "detail": message, "status": status})

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """By the model's name."""
        if _VIDEO.search(model):
            return "video/mp4"
        if _SOUND.search(model):
            return "audio/mpeg"
        wanted = given.get("output_format")
        return {"webp": "image/webp", "jpg": "image/jpeg"}.get(str(wanted), "image/png")

    def run(self, ask: Ask) -> Reply:
        """Predictions, and nothing else."""
        submit = self._SUBMIT.fullmatch(ask.path)
        if ask.path == "/v1/predictions" or submit is not None:
            if ask.method != "POST":
                raise Refusal(405, "Method not allowed.")
            return self._submit(ask, submit)
        one = self._ONE.fullmatch(ask.path)
        if one is None:
            raise Refusal(404, "Not found.")
        work = self.find(one["id"])
        if one["cancel"]:
            if ask.method != "POST":
                raise Refusal(405, "Method not allowed.")
            return self.cancel_fault(work) or Reply(200, self._prediction(work))
        if ask.method != "GET":
            raise Refusal(405, "Method not allowed.")
        return self.bad_poll(work) or Reply(200, self.padded(work, self._prediction(work)))

    def _submit(self, ask: Ask, submit: re.Match[str] | None) -> Reply:
        fields = ask.fields
        given = need(fields, "input", dict)
        if submit is None:
            only(fields, "input", "version")
            model = need(fields, "version")
            if not re.fullmatch(r"[0-9a-f]{64}(?:~.*)?", model):
                raise Refusal(422, "version: Invalid version")
        else:
            only(fields, "input")
            model = submit["model"] or submit["deployment"]
        work = self.begin(model, given)
        if isinstance(work, Reply):
            return work
        return self.sent(work, Reply(201, self._prediction(work)))

    def _prediction(self, work: Work) -> dict[str, Any]:
        status, output, error = "starting", None, None
        if work.canceled:
            status = "canceled"
        elif work.unknown:
            status = "daydreaming"
        elif work.done and work.failure:
            status = "aborted" if work.failure == "expired" else "failed"
            error = "NSFW content detected." if work.failure == "moderated" else "It went wrong."
        elif work.done:
            status = "succeeded"
            urls = self.world.urls(work)
            output = urls[0] if len(urls) == 1 else urls
        elif work.polls:
            status = "processing"
        base = self.world.files if "foreign-urls" in work.modes else self.base
        url = f"{base}/v1/predictions/{work.id}"
        return {
            "id": work.id,
            "model": work.model,
            "status": status,
            "input": work.input,
            "output": output,
            "error": error,
            "logs": "",
            "metrics": {"predict_time": 1.5} if status == "succeeded" else {},
            "urls": {"get": url, "cancel": f"{url}/cancel"},
        }


class FalApi(Api):
    """The queue, https://docs.fal.ai."""

    adapter: ClassVar[str] = "fal"
    _ONE: Final = re.compile(
        r"/(?P<app>(?:(?:workflows|comfy)/)?[^/]+/[^/]+)/requests/(?P<id>[^/]+)(?P<what>/status|/cancel)?"
    )
    _SUBMIT: Final = re.compile(r"/((?:(?:workflows|comfy)/)?[^/]+/[^/]+(?:/[^/]+)*)")

    def credential(self, request: SeenRequest) -> str:
        """``Key id:secret``."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return key if scheme == "Key" else ""

    def error(self, status: int, message: str) -> Reply:
        """A detail: a text, or for the input a list."""
        detail: Any = message
        if status == 422:
            name, _, text = message.rpartition(": ")
            detail = [{"loc": ["body", name or "prompt"], "msg": text, "type": "value_error"}]
        return Reply(status, {"detail": detail}, headers={"x-fal-request-id": "r"})

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """By the model's name."""
        if _VIDEO.search(model):
            return "video/mp4"
        return "audio/mpeg" if _SOUND.search(model) else "image/jpeg"

    def run(self, ask: Ask) -> Reply:
        """The queue's paths."""
        one = self._ONE.fullmatch(ask.path)
        if one is None:
            return self._submit(ask)
        work = self.find(one["id"])
        if one["app"] != self._app(work):
            raise Refusal(404, "Not found.")
        if one["what"] == "/cancel":
            if ask.method != "PUT":
                raise Refusal(405, "Method Not Allowed")
            return self._cancel(work)
        if ask.method != "GET":
            raise Refusal(405, "Method Not Allowed")
        return self._status(work) if one["what"] else self._result(work)

    def _app(self, work: Work) -> str:
        parts = work.model.split("/")
        return "/".join(parts[: 3 if parts[0] in ("workflows", "comfy") else 2])

    def _submit(self, ask: Ask) -> Reply:
        found = self._SUBMIT.fullmatch(ask.path)
        if found is None or ask.method != "POST":
            raise Refusal(404, "Not found.")
        work = self.begin(found[1], ask.fields)
        if isinstance(work, Reply):
            return work
        base = self.world.files if "foreign-urls" in work.modes else self.base
        url = f"{base}/{self._app(work)}/requests/{work.id}"
        return self.sent(
            work,
            Reply(
                200,
                {
                    "status": "IN_QUEUE",
                    "request_id": work.id,
                    "response_url": url,
                    "status_url": f"{url}/status",
                    "cancel_url": f"{url}/cancel",
                    "queue_position": 0,
                },
            ),
        )

    def _status(self, work: Work) -> Reply:
        bad = self.bad_poll(work)
        if bad is not None:
            return bad
        if work.canceled:
            return self.error(404, "Not found.")
        if work.unknown:
            return Reply(202, {"status": "DAYDREAMING", "request_id": work.id})
        if not work.done:
            state = "IN_PROGRESS" if work.polls > 1 else "IN_QUEUE"
            return Reply(202, {"status": state, "request_id": work.id, "queue_position": 0})
        answer: dict[str, Any] = {"status": "COMPLETED", "request_id": work.id}
        if work.failure == "expired":
            answer |= {"error": "Request timed out", "error_type": "request_timeout"}
        return Reply(200, self.padded(work, answer))

    def _result(self, work: Work) -> Reply:
        if not work.done or work.canceled:
            return self.error(400, "Request is still in progress")
        if work.failure:
            word = "content_policy_violation" if work.failure == "moderated" else "It went wrong."
            return self.error(422, f"prompt: {word}")
        files: list[dict[str, Any]] = [
            {"url": url, "content_type": work.content_type, "file_name": f"{index}"}
            for index, url in enumerate(self.world.urls(work))
        ]
        if work.content_type.startswith("image/"):
            return Reply(200, {"images": files, "seed": 7, "prompt": work.input.get("prompt", "")})
        name = "video" if work.content_type.startswith("video/") else "audio"
        if work.seconds:
            files = [{**file, "duration": work.seconds} for file in files]
        return Reply(200, {name: files[0] if len(files) == 1 else files})

    def _cancel(self, work: Work) -> Reply:
        fault = self.cancel_fault(work)
        if fault is not None:
            return fault
        if work.canceled or "cancel-ignored" in work.modes:
            return Reply(202, {"status": "CANCELLATION_REQUESTED"})
        return Reply(400, {"status": "ALREADY_COMPLETED"})


class XaiVideoApi(Api):
    """Videos, https://docs.x.ai."""

    adapter: ClassVar[str] = "xai_video"
    content_type: ClassVar[str] = "video/mp4"

    def credential(self, request: SeenRequest) -> str:
        """A bearer token."""
        return bearer(request)

    def error(self, status: int, message: str) -> Reply:
        """A code and a text; a wrong key may be a 400."""
        if status == 401:
            return Reply(400, {"code": "invalid-argument", "error": message})
        return Reply(status, {"code": str(status), "error": message})

    def run(self, ask: Ask) -> Reply:
        """Generate, edit, extend, and ask."""
        known = {
            "/videos/generations": (
                ("prompt",),
                (
                    "duration",
                    "aspect_ratio",
                    "resolution",
                    "image",
                    "reference_images",
                    "generate_audio",
                    "user",
                ),
            ),
            "/videos/edits": (("prompt", "video"), ()),
            "/videos/extensions": (("prompt", "video"), ("duration",)),
        }
        if ask.path in known and ask.method == "POST":
            return self._submit(ask, *known[ask.path])
        if not ask.path.startswith("/videos/") or ask.method != "GET":
            raise Refusal(404, "Not found.")
        work = self.find(ask.path.removeprefix("/videos/"))
        bad = self.bad_poll(work)
        if bad is not None:
            return bad
        if work.unknown:
            return Reply(202, {"status": "daydreaming"})
        if not work.done:
            return Reply(202, b"" if work.polls == 1 else {"status": "pending", "progress": 50})
        return Reply(200, self.padded(work, self._ended(work)))

    def _submit(self, ask: Ask, needed: tuple[str, ...], other: tuple[str, ...]) -> Reply:
        fields = ask.fields
        only(fields, "model", *needed, *other)
        model = need(fields, "model")
        for name in needed:
            need(fields, name, (str, dict))
        seconds = fields.get("duration")
        if seconds is not None and (not isinstance(seconds, int) or not 1 <= seconds <= 15):
            raise Refusal(400, "duration must be a whole number of 1 to 15 seconds")
        for name in ("image", "video"):
            if name in fields and not isinstance(fields[name].get("url"), str):
                raise Refusal(400, f"{name}.url is required")
        work = self.begin(model, fields)
        if isinstance(work, Reply):
            return work
        return self.sent(work, Reply(200, {"request_id": work.id}))

    def _ended(self, work: Work) -> dict[str, Any]:
        if work.failure == "expired":
            return {"status": "expired"}
        if work.failure == "fail":
            return {"status": "failed", "error": {"code": "internal", "message": "It went wrong."}}
        if work.failure == "moderated" or not work.outputs:
            return {"status": "done", "video": {"respect_moderation": False}}
        seconds = work.seconds or int(work.input.get("duration") or 8)
        return {
            "status": "done",
            "video": {
                "url": self.world.url(work, 0),
                "duration": seconds,
                "respect_moderation": True,
            },
            "usage": {"cost_in_usd_ticks": seconds * 500_000_000},
        }


class SumeApi(Api):
    """The Open API of Sume."""

    adapter: ClassVar[str] = "sume"
    _JOB: Final = re.compile(r"/v1/jobs/(?P<id>[^/]+)/(?P<what>status|result|cancel)")
    _ROUTERS: Final = {"image": "/v1/image-router/generate", "video": "/v1/video-router/generate"}

    def credential(self, request: SeenRequest) -> str:
        """A bearer token."""
        return bearer(request)

    def error(self, status: int, message: str) -> Reply:
        """An envelope that tells whether to try again."""
        code = {429: "rate_limited", 401: "unauthorized"}.get(status, "invalid_request")
        return Reply(
            status,
            {
                "error": {
                    "code": code,
                    "message": message,
                    "request_id": "q",
                    "retryable": status in (408, 429) or status >= 500,
                }
            },
            headers={"x-sume-request-id": "q"},
        )

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """By the model's name."""
        return "video/mp4" if self._kind(model) == "video" else "image/png"

    def _kind(self, model: str) -> str:
        return "video" if _VIDEO.search(model) else "image"

    def run(self, ask: Ask) -> Reply:
        """Catalog, routers and jobs."""
        if ask.path.startswith("/v1/open/catalog/") and ask.method == "GET":
            model = ask.path.removeprefix("/v1/open/catalog/")
            return Reply(200, {"data": {"id": model, "kind": self._kind(model.split("~")[0])}})
        if ask.path in self._ROUTERS.values() and ask.method == "POST":
            return self._submit(ask)
        found = self._JOB.fullmatch(ask.path)
        if found is None:
            raise Refusal(404, "Not found.")
        work = self.find(found["id"])
        if found["what"] == "cancel":
            if ask.method != "POST":
                raise Refusal(405, "Method not allowed.")
            return self._cancel(work)
        if ask.method != "GET":
            raise Refusal(405, "Method not allowed.")
        return self._status(work) if found["what"] == "status" else self._result(work)

    def _submit(self, ask: Ask) -> Reply:
        fields = ask.fields
        model = need(fields, "model")
        key = ask.request.headers.get("idempotency-key", "")
        if not key:
            raise Refusal(400, "Idempotency-Key is required")
        if ask.path != self._ROUTERS[self._kind(model.split("~")[0])]:
            raise Refusal(400, "this model is served by another router")
        known = self.world.by_key.get(key)
        if known is not None:
            return Reply(200, {"data": {"request_id": known}})
        given = {name: value for name, value in fields.items() if name != "model"}
        work = self.begin(model, given)
        if isinstance(work, Reply):
            if work.broken == "reset":
                self.world.by_key[key] = next(reversed(self.world.works))
            return work
        self.world.by_key[key] = work.id
        return self.sent(work, Reply(200, {"data": {"request_id": work.id}}))

    def _status(self, work: Work) -> Reply:
        bad = self.bad_poll(work)
        if bad is not None:
            return bad
        status, job = "processing", {}
        if work.canceled:
            status = "canceled"
        elif work.unknown:
            status = "daydreaming"
        elif work.done and work.failure:
            status = "failed"
            moderated = work.failure == "moderated"
            job = {
                "error": {
                    "code": "content_policy" if moderated else "generation_failed",
                    "message": "The content policy refused it." if moderated else "It went wrong.",
                    "public_reason": "content_policy_rejected" if moderated else "failed",
                }
            }
        elif work.done:
            status = "completed"
        data = {
            "sume_status": status,
            "status": status.upper(),
            "job": job,
            "recommended_poll_interval_seconds": 0,
        }
        return Reply(200, self.padded(work, {"data": data}))

    def _result(self, work: Work) -> Reply:
        if not work.done or work.failure or work.canceled:
            return self.error(409, "The job has no result.")
        artifacts = [
            {"url": url, "type": work.content_type.split("/")[0], "content_type": work.content_type}
            for url in self.world.urls(work)
        ]
        return Reply(200, {"data": {"result": {"artifacts": artifacts}}})

    def _cancel(self, work: Work) -> Reply:
        fault = self.cancel_fault(work)
        if fault is not None:
            return fault
        if work.canceled or "cancel-ignored" in work.modes:
            return Reply(200, {"data": {"sume_status": "canceled", "status": "CANCELED"}})
        return Reply(
            409,
            {
                "error": {
                    "code": "job_generation_already_started",
                    "message": "Generation has started.",
                    "request_id": "q",
                    "retryable": False,
                }
            },
        )

"""Providers whose answer is the work: OpenAI's images, ElevenLabs, and Google's two APIs."""

from __future__ import annotations

import base64
import re
from typing import Any, ClassVar, Final

import attrs

from omnigate.testing.media.api import Api, Ask, Refusal, bearer, need, only
from omnigate.testing.media.files import file_reply
from omnigate.testing.media.modes import count_of
from omnigate.testing.media.pictures import pcm
from omnigate.testing.media.reply import Reply
from omnigate.testing.media.work import Work
from omnigate.testing.provider_request import SeenRequest

_FORMATS: Final = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


class OpenAiImagesApi(Api):
    """``/images/generations`` of OpenAI."""

    adapter: ClassVar[str] = "openai_images"
    _FIELDS: Final = [
        "model",
        "prompt",
        "n",
        "size",
        "quality",
        "background",
        "output_format",
        "output_compression",
        "moderation",
        "complexity",
        "frame_count",
        "frame_duration_ms",
        "svg",
        "safety_identifier",
        "user",
        "response_format",
        "style",
    ]

    def credential(self, request: SeenRequest) -> str:
        """A bearer token."""
        return bearer(request)

    def error(self, status: int, message: str) -> Reply:
        """OpenAI's envelope."""
        kinds = {401: "invalid_request_error", 429: "rate_limit_error"}
        code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
        return Reply(
            status, {"error": {"message": message, "type": kind, "param": None, "code": code}}
        )

    def quota(self) -> Reply:
        """A 429 that says another thing than the others."""
        return Reply(
            429,
            {
                "error": {
                    "message": "You exceeded your current quota.",
                    "type": "insufficient_quota",
                    "param": None,
                    "code": "insufficient_quota",
                }
            },
        )

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """As the request asks."""
        return _FORMATS.get(str(given.get("output_format")), "image/png")

    def run(self, ask: Ask) -> Reply:
        """Images."""
        if ask.path != "/images/generations":
            raise Refusal(404, "Invalid URL")
        if ask.method != "POST":
            raise Refusal(405, "Not allowed to use this method")
        fields = ask.fields
        only(fields, *self._FIELDS)
        model, _ = need(fields, "model"), need(fields, "prompt")
        count = fields.get("n", 1)
        if not isinstance(count, int) or not 1 <= count <= 10:
            raise Refusal(400, "n must be between 1 and 10")
        work = self.begin(model, fields)
        if isinstance(work, Reply):
            return work
        if work.failure:
            return Reply(
                400,
                {
                    "error": {
                        "message": "Your request was rejected by the safety system.",
                        "type": "image_generation_user_error",
                        "param": None,
                        "code": "moderation_blocked",
                    }
                },
            )
        outputs = 0 if "empty" in work.modes else count_of(work.modes, "outputs", count)
        data = [{"b64_json": work.base64(number)} for number in range(outputs)]
        if "data-url" in work.modes or "private-url" in work.modes or "redirect" in work.modes:
            data = [{"url": self.world.url(work, number)} for number in range(outputs)]
        answer = {
            "created": 1_790_000_000,
            "data": data,
            "background": "opaque",
            "output_format": work.content_type.partition("/")[2],
            "quality": fields.get("quality", "auto"),
            "size": fields.get("size", "1024x1024"),
            "usage": {"input_tokens": 10, "output_tokens": 1000, "total_tokens": 1010},
        }
        return self.sent(work, Reply(200, self.padded(work, answer)))


class ElevenLabsApi(Api):
    """Speech, sounds and music of ElevenLabs."""

    adapter: ClassVar[str] = "elevenlabs"
    content_type: ClassVar[str] = "audio/mpeg"
    _SPEECH: Final = re.compile(r"/v1/text-to-speech/([A-Za-z0-9_-]+)")
    _FIELDS: Final = {
        "speech": [
            "text",
            "model_id",
            "language_code",
            "voice_settings",
            "seed",
            "previous_text",
            "next_text",
            "apply_text_normalization",
            "pronunciation_dictionary_locators",
            "audio_effects",
        ],
        "sound": ["text", "duration_seconds", "loop", "prompt_influence", "model_id"],
        "music": [
            "prompt",
            "composition_plan",
            "music_length_ms",
            "model_id",
            "seed",
            "force_instrumental",
            "sign_with_c2pa",
        ],
    }

    def credential(self, request: SeenRequest) -> str:
        """A header of its own."""
        return request.headers.get("xi-api-key", "")

    def error(self, status: int, message: str) -> Reply:
        """A detail, which for the input is a list."""
        if status == 422:
            return Reply(
                422, {"detail": [{"loc": ["body", "text"], "msg": message, "type": "missing"}]}
            )
        word = {401: "invalid_api_key", 429: "too_many_concurrent_requests"}.get(status, "error")
        return Reply(status, {"detail": {"status": word, "message": message}})

    def quota(self) -> Reply:
        """A 401 that is not about the key."""
        return Reply(
            401,
            {"detail": {"status": "quota_exceeded", "message": "This request exceeds your quota."}},
        )

    def run(self, ask: Ask) -> Reply:
        """Three endpoints."""
        speech = self._SPEECH.fullmatch(ask.path)
        kinds = {"/v1/sound-generation": "sound", "/v1/music": "music"}
        kind = "speech" if speech else kinds.get(ask.path, "")
        if not kind:
            raise Refusal(404, "Not found")
        if ask.method != "POST":
            raise Refusal(405, "Method Not Allowed")
        fields = ask.fields
        only(fields, *self._FIELDS[kind])
        if kind == "music":
            need(fields, "prompt") if "composition_plan" not in fields else None
            length = fields.get("music_length_ms", 3_000)
            if not isinstance(length, int) or not 3_000 <= length <= 600_000:
                raise Refusal(422, "music_length_ms must be 3000 to 600000")
        else:
            need(fields, "text")
        work = self.begin(str(fields.get("model_id") or "default"), fields)
        if isinstance(work, Reply):
            return work
        if work.failure or "empty" in work.modes:
            return self.error(400, "It went wrong.")
        return self.sent(
            work,
            Reply(
                200,
                work.content(0),
                work.served_type,
                {"request-id": work.id},
                chunked="no-length" in work.modes,
                broken="cut" if "file-cut" in work.modes else "",
            ),
        )


class _Google(Api):
    """What Google's two APIs share."""

    _FILE: Final = re.compile(r"/v1beta/files/(?P<id>[^/:]+)-(?P<number>[0-9]+)(?::download)?")

    def credential(self, request: SeenRequest) -> str:
        """A header of its own."""
        return request.headers.get("x-goog-api-key", "")

    def error(self, status: int, message: str) -> Reply:
        """Google's envelope."""
        words = {
            400: "INVALID_ARGUMENT",
            401: "UNAUTHENTICATED",
            403: "PERMISSION_DENIED",
            404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED",
            500: "INTERNAL",
            503: "UNAVAILABLE",
        }
        error: dict[str, Any] = {
            "code": status,
            "message": message,
            "status": words.get(status, "INVALID_ARGUMENT"),
        }
        if status == 429:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": "1s"}]
        return Reply(status, {"error": error})

    def quota(self) -> Reply:
        """A 403, as for a project without billing."""
        return self.error(403, "Billing is not enabled.")

    def stored(self, ask: Ask) -> Reply | None:
        """Serve a file of the provider's own store, which needs the key; None for another path."""
        found = self._FILE.fullmatch(ask.path)
        if found is None:
            return None
        if ask.method != "GET" or "alt=media" not in ask.request.query.split("&"):
            raise Refusal(404, "Not found.")
        return file_reply(self.world, self.find(found["id"]), int(found["number"]), 0)


class GeminiApi(_Google):
    """``generateContent`` and Veo."""

    adapter: ClassVar[str] = "gemini"
    _SUBMIT: Final = re.compile(
        r"/v1beta/models/(?P<model>[^/:]+):(?P<call>generateContent|predictLongRunning)"
    )
    _OPERATION: Final = re.compile(r"/v1beta/models/(?P<model>[^/]+)/operations/(?P<id>[^/]+)")

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """By the model's name."""
        if model.startswith("veo-"):
            return "video/mp4"
        return "audio/L16;codec=pcm;rate=24000" if "-tts" in model else "image/png"

    def run(self, ask: Ask) -> Reply:
        """One call, or one that is asked about."""
        file = self.stored(ask)
        if file is not None:
            return file
        submit = self._SUBMIT.fullmatch(ask.path)
        if submit is not None:
            if ask.method != "POST":
                raise Refusal(404, "Not found.")
            long = submit["call"] == "predictLongRunning"
            if long != submit["model"].startswith("veo-"):
                raise Refusal(404, f"{submit['model']} is not found for this method")
            return self._long(ask, submit["model"]) if long else self._short(ask, submit["model"])
        found = self._OPERATION.fullmatch(ask.path)
        if found is None or ask.method != "GET":
            raise Refusal(404, "Not found.")
        work = self.find(found["id"])
        return self.bad_poll(work) or Reply(200, self.padded(work, self._operation(work)))

    def _short(self, ask: Ask, model: str) -> Reply:
        fields = ask.fields
        only(fields, "contents", "generationConfig")
        contents = need(fields, "contents", list)
        if not contents or not need(contents[0], "parts", list):
            raise Refusal(400, "contents is empty")
        text = next((part["text"] for part in contents[0]["parts"] if "text" in part), "")
        wanted = (fields.get("generationConfig") or {}).get("responseModalities")
        if wanted != (["AUDIO"] if "-tts" in model else ["TEXT", "IMAGE"]):
            raise Refusal(400, "responseModalities is not supported by this model")
        work = self.begin(model, {"prompt": text})
        if isinstance(work, Reply):
            return work
        if work.failure == "moderated":
            return Reply(200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
        if work.failure or not work.outputs:
            return Reply(200, {"candidates": [{"finishReason": "IMAGE_SAFETY"}]})
        data = [work.base64(number) for number in range(work.outputs)]
        if work.content_type.startswith("audio/"):
            data = [base64.b64encode(pcm()).decode()]
        parts: list[dict[str, Any]] = [{"text": "Here it is."}]
        parts += [{"inlineData": {"mimeType": work.content_type, "data": each}} for each in data]
        answer = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
        return self.sent(work, Reply(200, self.padded(work, answer)))

    def _long(self, ask: Ask, model: str) -> Reply:
        fields = ask.fields
        only(fields, "instances", "parameters")
        instances = need(fields, "instances", list)
        prompt = need(instances[0] if instances else {}, "prompt")
        seconds = (fields.get("parameters") or {}).get("durationSeconds", 8)
        if not isinstance(seconds, (int, float)):
            raise Refusal(400, "durationSeconds must be a number")
        work = self.begin(model, {"prompt": prompt, "seconds": seconds})
        if isinstance(work, Reply):
            return work
        return self.sent(work, Reply(200, {"name": self._name(work)}))

    def _name(self, work: Work) -> str:
        return f"models/{work.model}/operations/{work.id}"

    def _operation(self, work: Work) -> dict[str, Any]:
        answer: dict[str, Any] = {"name": self._name(work)}
        if not work.done:
            return answer
        answer["done"] = True
        if work.failure in ("fail", "expired"):
            return {**answer, "error": {"code": 13, "message": "It went wrong."}}
        if work.failure == "moderated":
            response: dict[str, Any] = {
                "raiMediaFilteredCount": 1,
                "raiMediaFilteredReasons": ["The video was filtered."],
            }
        else:
            uri = f"{self.base}/v1beta/files/{work.id}"
            uris = [f"{uri}-{number}:download?alt=media" for number in range(work.outputs)]
            if work.modes.keys() & {"private-url", "mixed-dns", "userinfo-url", "data-url"}:
                uris = self.world.urls(work)
            response = {"generatedSamples": [{"video": {"uri": uri}} for uri in uris]}
        return {**answer, "response": {"generateVideoResponse": response}}


class GeminiInteractionsApi(_Google):
    """``/v1beta/interactions``."""

    adapter: ClassVar[str] = "gemini_interactions"
    _ONE: Final = re.compile(r"/v1beta/interactions/(?P<id>[^/]+)(?P<cancel>/cancel)?")
    _FIELDS: Final = [
        "model",
        "input",
        "response_format",
        "background",
        "store",
        "generation_config",
        "previous_interaction_id",
        "service_tier",
        "labels",
    ]

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """As the request asks."""
        kinds = {"video": "video/mp4", "audio": "audio/mpeg"}
        return kinds.get(str(given.get("kind")), "image/jpeg")

    def run(self, ask: Ask) -> Reply:
        """Interactions."""
        file = self.stored(ask)
        if file is not None:
            return file
        if ask.path == "/v1beta/interactions" and ask.method == "POST":
            return self._submit(ask)
        found = self._ONE.fullmatch(ask.path)
        if found is None:
            raise Refusal(404, "Not found.")
        work = self.find(found["id"])
        if found["cancel"]:
            if ask.method != "POST":
                raise Refusal(404, "Not found.")
            return self._cancel(work)
        if ask.method != "GET":
            raise Refusal(404, "Not found.")
        return self.bad_poll(work) or Reply(200, self.padded(work, self._interaction(work)))

    def _submit(self, ask: Ask) -> Reply:
        if ask.request.headers.get("api-revision") != "2026-05-20":
            raise Refusal(400, "Api-Revision is required")
        fields = ask.fields
        only(fields, *self._FIELDS)
        model = need(fields, "model")
        given = need(fields, "input", (str, list))
        wanted = fields.get("response_format") or {}
        if fields.get("background") and not fields.get("store"):
            raise Refusal(400, "background needs store")
        blocks = [] if isinstance(given, str) else given
        texts = [block.get("text", "") for block in blocks if block.get("type") == "text"]
        prompt = given if isinstance(given, str) else " ".join(texts)
        work = self.begin(
            model,
            {
                "prompt": prompt,
                "kind": wanted.get("type"),
                "by_uri": wanted.get("delivery") == "uri",
                "at_once": not fields.get("background"),
            },
        )
        if isinstance(work, Reply):
            return work
        if work.input["at_once"]:
            work = attrs.evolve(work, modes={**work.modes, "sync": ""})
            self.world.works[work.id] = work
        return self.sent(work, Reply(200, self.padded(work, self._interaction(work))))

    def _interaction(self, work: Work) -> dict[str, Any]:
        answer: dict[str, Any] = {"id": work.id, "object": "interaction", "status": "in_progress"}
        if work.canceled:
            return {**answer, "status": "cancelled"}
        if work.unknown:
            return {**answer, "status": "daydreaming"}
        if not work.done:
            return answer
        if work.failure:
            message = "The prompt was blocked." if work.failure == "moderated" else "It went wrong."
            error = {"code": "failed", "message": message}
            return {**answer, "status": "failed", "errors": [error]}
        kind = work.content_type.partition("/")[0]
        blocks: list[dict[str, Any]] = [{"type": "text", "text": "Here it is."}]
        for number in range(work.outputs):
            block = {"type": kind, "mime_type": work.content_type}
            if work.input["by_uri"]:
                block["uri"] = f"{self.base}/v1beta/files/{work.id}-{number}"
            else:
                block["data"] = work.base64(number)
            blocks.append(block)
        steps = [
            {"type": "user_input", "content": [{"type": "text", "text": work.input["prompt"]}]},
            {"type": "model_output", "content": blocks},
        ]
        return {**answer, "status": "completed", "steps": steps, "usage": {"total_tokens": 10}}

    def _cancel(self, work: Work) -> Reply:
        fault = self.cancel_fault(work)
        if fault is not None:
            return fault
        if "cancel-ignored" in work.modes:
            return Reply(200, {"id": work.id, "status": "cancelled"})
        if work.canceled:
            return Reply(200, self._interaction(work))
        return self.error(400, "The interaction cannot be cancelled.")

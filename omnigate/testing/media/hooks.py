"""A receiver of webhooks that looks at each one as the standard asks (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Final

import attrs

from omnigate.testing.media.reply import Reply
from omnigate.testing.provider_request import SeenRequest

#: A timestamp may be so far off.
TOLERANCE_S: Final = 300

#: Deliveries that are remembered.
MAX_DELIVERIES: Final = 10_000

BIG_BODY: Final = b"x" * 1_000_000


@attrs.frozen
class Delivered:
    """One request that came.

    :ivar fault: what a receiver would have against it; empty where it is as it should be.
    :ivar status: what it was answered.
    """

    hook: str
    at: float
    id: str
    fault: str
    status: int
    body: Any


@attrs.define
class Hook:
    """One address: its secret and how it answers.

    :ivar statuses: of the answers in turn, the last one for ever.
    """

    secret: str = ""
    statuses: tuple[int, ...] = (200,)
    retry_after: str = ""
    slow_ms: int = 0
    mode: str = ""
    count: int = 0


@attrs.define
class Hooks:
    """All addresses under ``/hook/``; one that nobody made takes everything unsigned."""

    hooks: dict[str, Hook] = attrs.Factory(dict)
    deliveries: list[Delivered] = attrs.Factory(list)

    def order(self, name: str, fields: dict[str, Any]) -> None:
        """Make an address: ``secret``, ``statuses``, ``retry_after``, ``slow_ms``, ``mode``."""
        self.hooks[name] = Hook(
            str(fields.get("secret", "")),
            tuple(int(status) for status in fields.get("statuses", (200,))),
            str(fields.get("retry_after", "")),
            int(fields.get("slow_ms", 0)),
            str(fields.get("mode", "")),
        )

    def take(self, name: str, request: SeenRequest, now: float) -> Reply:
        """Answer a delivery."""
        hook = self.hooks.setdefault(name, Hook())
        fault = fault_of(hook.secret, request, now)
        status = hook.statuses[min(hook.count, len(hook.statuses) - 1)]
        if fault:
            status = 400
        hook.count += 1
        try:
            body = json.loads(request.body)
        except ValueError:
            body = None
        told = Delivered(name, now, request.headers.get("webhook-id", ""), fault, status, body)
        if len(self.deliveries) < MAX_DELIVERIES:
            self.deliveries.append(told)
        if hook.mode == "reset":
            return Reply(0, broken="reset")
        if hook.mode == "hang":
            return Reply(0, broken="hang")
        headers = {"retry-after": hook.retry_after} if hook.retry_after else {}
        if 300 <= status < 400:
            headers["location"] = "https://elsewhere.example/"
        big = BIG_BODY if hook.mode == "big-body" else b""
        return Reply(status, big or fault.encode(), "text/plain", headers, hook.slow_ms / 1000)


def fault_of(secret: str, request: SeenRequest, now: float) -> str:
    """Return what is wrong with a delivery; without a secret its signature is not looked at."""
    if request.method != "POST":
        return "not a POST"
    if request.headers.get("content-type") != "application/json":
        return "content-type is not application/json"
    message_id = request.headers.get("webhook-id", "")
    stamp = request.headers.get("webhook-timestamp", "")
    if not message_id or not stamp.isdigit():
        return "webhook-id or webhook-timestamp is missing"
    if abs(int(stamp) - now) > TOLERANCE_S:
        return "webhook-timestamp is too far off"
    if not secret:
        return ""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{stamp}.".encode() + request.body
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    sent = request.headers.get("webhook-signature", "").split()
    if any(hmac.compare_digest(each, f"v1,{wanted}") for each in sent):
        return ""
    return "no signature fits"

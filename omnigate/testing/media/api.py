"""What all fake media APIs have in common: credentials, refusals, faults to order."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import attrs

from omnigate.testing.media.modes import Modes, UnknownModeError, count_of, split_model
from omnigate.testing.media.reply import Reply
from omnigate.testing.media.work import Work, World, prompt_of
from omnigate.testing.provider_request import SeenRequest

#: Beyond what a gateway takes of an answer about a job.
HUGE_BYTES: Final = 5 * 1024 * 1024

#: Why a submit is refused, by status.
WORDS: Final = {
    401: "Incorrect API key provided.",
    402: "You have run out of credit.",
    413: "The request is too large.",
    422: "The input is not valid.",
    429: "Too many requests.",
    500: "Internal error.",
    503: "The service is overloaded.",
}


class Refusal(Exception):  # noqa: N818
    """A request that the provider would refuse.

    :ivar status: the HTTP status.
    :ivar message: for people.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@attrs.frozen
class Ask:
    """A request to one API.

    :ivar path: below the base of the adapter, decoded.
    :ivar fields: the JSON object of its body.
    """

    request: SeenRequest
    path: str

    @property
    def method(self) -> str:
        """The method."""
        return self.request.method

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object of the body.

        :raises Refusal: there is none, or it is labelled as something else.
        """
        if self.request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refusal(415, "content-type must be application/json")
        try:
            value = json.loads(self.request.body)
        except ValueError:
            raise Refusal(400, "the body is no JSON") from None
        if not isinstance(value, dict):
            raise Refusal(400, "the body is no object")
        return value


class Api(ABC):
    """One provider's API.

    :cvar adapter: what the gateway calls it.
    :cvar content_type: what it makes unless it is asked for something else.
    """

    adapter: ClassVar[str]
    content_type: ClassVar[str] = "image/png"

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def base(self) -> str:
        """Its address."""
        return f"{self.world.base}/{self.adapter}"

    @abstractmethod
    def credential(self, request: SeenRequest) -> str:
        """Return the key that a request carries in this provider's way."""

    @abstractmethod
    def error(self, status: int, message: str) -> Reply:
        """Put a refusal into this provider's shape."""

    def quota(self) -> Reply:
        """Say that the quota is spent."""
        return self.error(402, "You have run out of credit.")

    @abstractmethod
    def run(self, ask: Ask) -> Reply:
        """Answer a request.

        :raises Refusal: it would be refused.
        """

    def answer(self, request: SeenRequest, path: str) -> Reply:
        """Answer a request to a path below the base."""
        if self.credential(request) != f"test-{self.adapter}":
            return self.error(401, WORDS[401])
        try:
            return self.run(Ask(request, unquote(path)))
        except Refusal as refusal:
            return self.error(refusal.status, refusal.message)

    # -- for those who answer

    def begin(self, model: str, given: dict[str, Any]) -> Work | Reply:
        """Begin a piece of work, unless it was ordered to go wrong at once.

        :raises Refusal: the model has a mode that is none.
        """
        submits = self.world.submits
        submits[self.adapter] = submits.get(self.adapter, 0) + 1
        try:
            name, modes = split_model(model)
        except UnknownModeError as error:
            raise Refusal(404, f"no such model: {error}") from None
        modes = {**modes, **self.world.scripted(self.adapter, given)}
        refusal = self._ordered_refusal(f"{self.adapter}/{model}/{prompt_of(given)}", modes)
        if refusal is not None:
            return refusal
        work = self.world.begin(self.adapter, name, modes, given, self.type_for(name, given))
        if "reset-submit" in modes:
            return Reply(0, broken="reset")
        return work

    def type_for(self, model: str, given: dict[str, Any]) -> str:
        """Return what a model makes of an input."""
        return self.content_type

    def _ordered_refusal(self, name: str, modes: Modes) -> Reply | None:
        if "hang" in modes:
            return Reply(0, broken="hang")
        if "quota" in modes:
            return self.quota()
        for status in WORDS:
            if str(status) not in modes:
                continue
            count = self.world.refused.get(name, 0)
            if count >= count_of(modes, str(status), count + 1):
                continue
            self.world.refused[name] = count + 1
            reply = self.error(status, WORDS[status])
            return attrs.evolve(reply, headers={**reply.headers, "retry-after": "1"})
        return None

    def sent(self, work: Work, reply: Reply) -> Reply:
        """Let the head of a submit's answer come late, where it was ordered."""
        return attrs.evolve(reply, before_s=count_of(work.modes, "slow-head", 0) / 1000)

    def find(self, work_id: str) -> Work:
        """Return a piece of work of this provider.

        :raises Refusal: there is none.
        """
        work = self.world.works.get(work_id)
        if work is None or work.adapter != self.adapter:
            raise Refusal(404, "Not found.")
        return work

    def bad_poll(self, work: Work) -> Reply | None:
        """Return the bad answer that a poll was ordered to get, or count it as a good one."""
        for mode in ("500", "429", "404", "junk", "reset", "hang"):
            ordered = count_of(work.modes, f"poll-{mode}", 0)
            if work.bad.get(mode, 0) < ordered:
                work.bad[mode] = work.bad.get(mode, 0) + 1
                if mode in ("reset", "hang"):
                    return Reply(0, broken=mode)
                if mode == "junk":
                    return Reply(200, b"<html>busy</html>", "text/html")
                return self.error(int(mode), WORDS.get(int(mode), "Not found."))
        work.polls += 1
        return None

    def padded(self, work: Work, value: dict[str, Any]) -> dict[str, Any]:
        """Make an answer too long, where that was ordered."""
        return {**value, "logs": "x" * HUGE_BYTES} if "huge-answer" in work.modes else value

    def cancel_fault(self, work: Work) -> Reply | None:
        """Return the bad answer that a cancel was ordered to get; else note it."""
        work.cancels += 1
        if "cancel-404" in work.modes:
            return self.error(404, "Not found.")
        if "cancel-500" in work.modes:
            return self.error(500, WORDS[500])
        goes_on = work.modes.keys() & {"cancel-late", "cancel-ignored"}
        if "cancel-ok" in work.modes or not (goes_on or work.done):
            work.canceled = True
        return None


def need(fields: dict[str, Any], name: str, kind: type | tuple[type, ...] = str) -> Any:
    """Return a required field.

    :raises Refusal: it is missing, or of another type.
    """
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refusal(422, f"{name}: Field required")
    return value


def only(fields: dict[str, Any], *known: str) -> None:
    """Refuse fields that this provider does not know."""
    for name in fields:
        if name not in known:
            raise Refusal(400, f"Unknown field: {name}")


def bearer(request: SeenRequest) -> str:
    """Return the key of an ``authorization: Bearer``."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key if scheme == "Bearer" else ""

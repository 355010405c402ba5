"""From a request and a scenario to the bytes and pauses that answer it.

A plan is a list of steps; nothing here touches a socket or a clock. A test that wants an answer
no scenario gives writes a plan by hand.
"""

import zlib
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import unquote

import attrs

from omnigate.testing.provider_anthropic import (
    PING,
    anthropic_error,
    messages_error,
    messages_events,
    messages_whole,
    model_page_entry,
    models_page,
)
from omnigate.testing.provider_heard import BrokenRuleError, Heard
from omnigate.testing.provider_loop import loop_reply
from omnigate.testing.provider_openai import (
    MODEL_IDS,
    chat_events,
    chat_whole,
    completion_events,
    completion_whole,
    context_length_error,
    embeddings_whole,
    model_entry,
    models_list,
    no_credit_error,
    openai_error,
)
from omnigate.testing.provider_reply import Event, Reply, Usage, compose, count_input, to_json
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_responses import (
    responses_error,
    responses_events,
    responses_whole,
)
from omnigate.testing.provider_rules_chat import hear_chat
from omnigate.testing.provider_rules_messages import hear_messages
from omnigate.testing.provider_rules_responses import hear_responses
from omnigate.testing.provider_scenario import Scenario

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"
# Long enough for what was written before to leave the socket, short for a test.
RESET_PAUSE_SECONDS = 0.05
ERROR_MESSAGE = "the fake provider was asked to fail"
TOO_LONG = "prompt is too long: 200001 tokens > 200000 maximum"
NO_CREDIT = "the account of the fake provider has no credit left"

# Who hears a request as strictly as the hosted API behind that path does.
RULES: dict[str, Callable[[SeenRequest], Heard]] = {
    "/chat/completions": hear_chat,
    "/messages": hear_messages,
    "/responses": hear_responses,
}
_HTML = b"<!doctype html><title>Welcome</title><p>This is no API.</p>\n"
_STREAMING = ("/chat/completions", "/completions", "/responses", "/messages")
_COUNTING = ("/messages/count_tokens", "/responses/input_tokens")
_POSTS = (*_STREAMING, *_COUNTING, "/embeddings")


@attrs.frozen
class Send:
    """Write these bytes."""

    data: bytes


@attrs.frozen
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


@attrs.frozen
class Hang:
    """Do nothing until the client goes."""


@attrs.frozen
class Close:
    """Close the connection once everything is written."""


@attrs.frozen
class Reset:
    """End the connection with a reset."""


Step = Send | Wait | Hang | Close | Reset


@attrs.frozen
class Plan:
    """How one request is answered.

    :ivar steps: played in order; the connection serves the next request after the last
    :ivar usage: what the answer says was used, or None where it says nothing of that
    """

    steps: tuple[Step, ...]
    usage: Usage | None = None


@attrs.frozen
class _Body:
    """A body before it is framed: its pieces, and what ends it."""

    content_type: str
    pieces: list[bytes]
    usage: Usage | None = None
    status: int = 200
    stream: bool = False
    # Whether ``pieces`` stop before the answer is whole.
    cut: bool = False


def plan(request: SeenRequest, scenario: Scenario, now: float) -> Plan:
    """The plan for a request.

    :param now: seconds since the epoch, for ``created`` and dates
    """
    if scenario.silent:
        return Plan((Hang(),))
    if scenario.connection == "drop_reused" and request.ordinal > 1:
        return Plan((Close(),))
    body = _body(request, scenario, int(now))
    in_chunks = body.stream or scenario.ending == "bad_chunk"
    framing = scenario.framing or ("chunked" if in_chunks else "length")
    pieces = _coded(body.pieces, scenario)
    steps: list[Step] = [Wait(scenario.first_byte_ms / 1000)] if scenario.first_byte_ms else []
    if scenario.interim:
        steps.append(Send(b"HTTP/1.1 103 Early Hints\r\nlink: </nothing>\r\n\r\n"))
    length = sum(len(piece) for piece in pieces)
    if body.cut and not body.stream:
        pieces = [piece[: len(piece) // 2] for piece in pieces[:1]]
    steps.append(Send(_head(request, scenario, body, framing, length, now)))
    if scenario.first_event_ms:
        steps.append(Wait(scenario.first_event_ms / 1000))
    chunked = framing in ("chunked", "both_lengths", "unknown_coding")
    steps += _paced([_chunk(piece) if chunked else piece for piece in pieces], scenario)
    steps += _ending(request, scenario, body, framing, chunked)
    return Plan(tuple(_joined(steps) if scenario.one_write else steps), body.usage)


def error_plan(request: SeenRequest, status: int, message: str) -> Plan:
    """A plain refusal in the protocol of the request."""
    body = _Body(JSON_TYPE, [_error_json(request, status, message)], status=status)
    length = len(body.pieces[0])
    head = _head(request, Scenario(), body, "length", length, 0)
    return Plan((Send(head + body.pieces[0]), *_last(request, Scenario(), "length")))


def _body(request: SeenRequest, scenario: Scenario, created: int) -> _Body:
    """What the answer holds, before any framing."""
    if scenario.status != 200:
        return _error_body(request, scenario)
    fault = _request_fault(request)
    if fault is not None:
        status, message = fault
        return _Body(JSON_TYPE, [_error_json(request, status, message)], status=status)
    try:
        reply = _reply(request, scenario)
    except BrokenRuleError as error:
        return _Body(JSON_TYPE, [_error_json(request, 400, str(error))], status=400)
    if scenario.body_form == "html":
        return _Body("text/html; charset=utf-8", [_HTML])
    if scenario.body_form == "error_envelope":
        return _Body(JSON_TYPE, [_error_json(request, 500, ERROR_MESSAGE)])
    stream = request.stream and request.endpoint in _STREAMING
    if scenario.body_form == "empty":
        return _Body(STREAM_TYPE if stream else JSON_TYPE, [], stream=stream)
    if stream:
        return _stream_body(request, scenario, reply, created)
    return _whole_body(request, scenario, reply, created)


def _reply(request: SeenRequest, scenario: Scenario) -> Reply:
    """What the model says.

    :raises BrokenRuleError: the scenario is strict, and the request breaks a rule
    """
    hear = RULES.get(request.endpoint) if scenario.strict else None
    if hear is None:
        return compose(request, scenario)
    heard = hear(request)
    return loop_reply(heard, request, scenario) if scenario.loop else compose(request, scenario)


def _request_fault(request: SeenRequest) -> tuple[int, str] | None:
    """What a real provider would refuse in this request, if anything."""
    if request.endpoint == "/models" or request.endpoint.startswith("/models/"):
        return None if request.method in ("GET", "HEAD") else (405, "only GET here")
    if request.endpoint not in _POSTS:
        return 404, f"unknown path {request.path}"
    if request.method != "POST":
        return 405, "only POST here"
    if not request.fields:
        return 400, "the body is no JSON object"
    if not request.model:
        return 400, "you must provide a model parameter"
    if request.endpoint == "/messages" and "max_tokens" not in request.fields:
        return 400, "max_tokens: Field required"
    return None


def _whole_body(request: SeenRequest, scenario: Scenario, reply: Reply, created: int) -> _Body:
    """An answer in one JSON object."""
    endpoint = request.endpoint
    if endpoint == "/models":
        answer = models_page() if request.anthropic else models_list(created)
        return _Body(JSON_TYPE, [to_json(answer)])
    if endpoint.startswith("/models/"):
        name = unquote(endpoint.removeprefix("/models/"))
        if name not in MODEL_IDS:
            return _Body(JSON_TYPE, [_error_json(request, 404, f"no model {name!r}")], status=404)
        answer = model_page_entry(name) if request.anthropic else model_entry(name, created)
        return _Body(JSON_TYPE, [to_json(answer)])
    if endpoint in _COUNTING:
        tokens = scenario.input_tokens or count_input(request)
        kind = {"object": "response.input_tokens"} if endpoint == _COUNTING[1] else {}
        return _Body(JSON_TYPE, [to_json({**kind, "input_tokens": tokens})])
    usage: Usage | None = reply.usage
    if endpoint == "/embeddings":
        answer = embeddings_whole(request, scenario)
        usage = attrs.evolve(reply.usage, output=0, reasoning=0)
    elif endpoint == "/messages":
        answer = messages_whole(request, scenario, reply)
    elif endpoint == "/responses":
        answer = responses_whole(request, scenario, reply, created)
    elif endpoint == "/completions":
        answer = completion_whole(request, scenario, reply, created)
    else:
        answer = chat_whole(request, scenario, reply, created)
    cut = scenario.stop_after is not None and scenario.ending not in ("end", "error_event")
    if cut or scenario.usage == "none":
        usage = None
    return _Body(JSON_TYPE, [to_json(answer)], usage, cut=cut)


def _stream_body(request: SeenRequest, scenario: Scenario, reply: Reply, created: int) -> _Body:
    """An answer in events, one piece each."""
    endpoint = request.endpoint
    if endpoint == "/messages":
        events = messages_events(request, scenario, reply)
    elif endpoint == "/responses":
        events = responses_events(request, scenario, reply, created)
    elif endpoint == "/completions":
        events = completion_events(request, scenario, reply, created)
    else:
        events = chat_events(request, scenario, reply, created)
    usage: Usage | None = None if scenario.usage == "none" else reply.usage
    cut = scenario.stop_after is not None
    if scenario.stop_after is not None:
        events = events[: scenario.stop_after]
        usage = None
        if scenario.ending == "error_event":
            events.append(_error_event(request, len(events)))
    pieces = [_block(event, request, scenario) for event in events]
    return _Body(STREAM_TYPE, pieces, usage, stream=True, cut=cut)


def _error_body(request: SeenRequest, scenario: Scenario) -> _Body:
    """An error in the form the scenario wants."""
    status = scenario.status
    envelope = openai_error(status, ERROR_MESSAGE)
    form = scenario.error_form
    if form == "text":
        return _Body("text/plain; charset=utf-8", [ERROR_MESSAGE.encode()], status=status)
    if form == "array":
        return _Body(JSON_TYPE, [to_json([envelope])], status=status)
    if form == "string":
        return _Body(JSON_TYPE, [to_json({"error": ERROR_MESSAGE})], status=status)
    if form == "too_long":
        if request.anthropic:
            return _Body(JSON_TYPE, [_error_json(request, status, TOO_LONG)], status=status)
        return _Body(JSON_TYPE, [to_json(context_length_error())], status=status)
    if form == "no_credit":
        status = 402 if request.anthropic else status
        said = anthropic_error(status, NO_CREDIT, request_id(request))
        error = said if request.anthropic else no_credit_error(NO_CREDIT)
        return _Body(JSON_TYPE, [to_json(error)], status=status)
    if form == "integer_code":
        error = {"code": status, "message": ERROR_MESSAGE, "type": "server_error"}
        return _Body(JSON_TYPE, [to_json({"error": error})], status=status)
    return _Body(JSON_TYPE, [_error_json(request, status, ERROR_MESSAGE)], status=status)


def _error_json(request: SeenRequest, status: int, message: str) -> bytes:
    """An error body in the protocol of the request."""
    if request.anthropic:
        return to_json(anthropic_error(status, message, request_id(request)))
    return to_json(openai_error(status, message))


def _error_event(request: SeenRequest, sequence_number: int) -> Event:
    """The event that ends a failed stream in the protocol of the request."""
    if request.anthropic:
        return messages_error(ERROR_MESSAGE, request_id(request))
    if request.endpoint == "/responses":
        return responses_error(ERROR_MESSAGE, sequence_number)
    return ("", to_json(openai_error(500, ERROR_MESSAGE)))


def request_id(request: SeenRequest) -> str:
    """The provider's own id of a request."""
    return f"req_fake{request.number:08d}"


def _block(event: Event, request: SeenRequest, scenario: Scenario) -> bytes:
    """The lines of one event."""
    line_end = b"\r\n" if scenario.crlf else b"\n"
    space = b"" if scenario.no_space else b" "
    lines: list[bytes] = []
    if scenario.comments and request.anthropic:
        lines += [b"event:" + space + PING[0].encode(), b"data:" + space + PING[1], b""]
    elif scenario.comments:
        lines += [b": keep-alive", b""]
    name, data = event
    if name:
        lines.append(b"event:" + space + name.encode())
    lines += [b"data:" + space + data, b"", b""]
    return line_end.join(lines)


def _coded(pieces: list[bytes], scenario: Scenario) -> list[bytes]:
    """The pieces after compression and after the scenario's own cuts."""
    if scenario.gzip:
        coder = zlib.compressobj(wbits=31)
        pieces = [coder.compress(piece) + coder.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
        pieces.append(coder.flush())
    if scenario.split:
        whole = b"".join(pieces)
        pieces = [whole[at : at + scenario.split] for at in range(0, len(whole), scenario.split)]
    return pieces


def _paced(pieces: Sequence[bytes], scenario: Scenario) -> list[Step]:
    """The pieces as steps, with the scenario's pauses between them."""
    steps: list[Step] = []
    for piece in pieces:
        if steps and scenario.gap_ms:
            steps.append(Wait(scenario.gap_ms / 1000))
        steps.append(Send(piece))
    return steps


def _ending(
    request: SeenRequest, scenario: Scenario, body: _Body, framing: str, chunked: bool
) -> list[Step]:
    """The steps behind the body's pieces."""
    if body.cut:
        if scenario.ending == "fin":
            return [Close()]
        if scenario.ending == "rst":
            return [Wait(RESET_PAUSE_SECONDS), Reset()]
        if scenario.ending == "silence":
            return [Hang()]
        if scenario.ending == "bad_chunk":
            return [Send(b"zz;what\r\ndata: {}\n\n\r\n"), Close()]
    last: list[Step] = [Send(b"0\r\n\r\n")] if chunked else []
    return last + _last(request, scenario, framing)


def _last(request: SeenRequest, scenario: Scenario, framing: str) -> list[Step]:
    """Close where the connection is not to be used again."""
    closes = scenario.connection in ("close", "drop_idle") or framing == "close"
    return [Close()] if closes or request.wants_close else []


def _head(
    request: SeenRequest,
    scenario: Scenario,
    body: _Body,
    framing: str,
    length: int,
    now: float,
) -> bytes:
    """The response head; where it lies, the scenario said so."""
    lines = [f"HTTP/1.1 {body.status} {_reason(body.status)}", f"content-type: {body.content_type}"]
    lines += _rate_headers(request)
    if scenario.gzip:
        lines.append("content-encoding: gzip")
    if scenario.retry_after is not None:
        lines.append(f"retry-after: {scenario.retry_after}")
    elif scenario.retry_date is not None:
        lines.append(f"retry-after: {formatdate(now + scenario.retry_date, usegmt=True)}")
    if framing in ("length", "both_lengths", "two_lengths"):
        lines.append(f"content-length: {length}")
    if framing == "two_lengths":
        lines.append(f"content-length: {length + 1}")
    if framing in ("chunked", "both_lengths"):
        lines.append("transfer-encoding: chunked")
    if framing == "unknown_coding":
        lines.append("transfer-encoding: squeeze, chunked")
    says_close = scenario.connection == "close" or request.wants_close or framing == "close"
    if says_close:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _rate_headers(request: SeenRequest) -> list[str]:
    """Ids and counters, and the headers that a gateway must keep to itself."""
    common = ["server: fake-provider", "set-cookie: sid=secret-of-the-provider; path=/"]
    number = request_id(request)
    if request.anthropic:
        return [
            *common,
            f"request-id: {number}",
            "anthropic-organization-id: org-fake",
            "anthropic-ratelimit-requests-limit: 1000",
            "anthropic-ratelimit-requests-remaining: 999",
        ]
    return [
        *common,
        f"x-request-id: {number}",
        "openai-processing-ms: 12",
        "x-ratelimit-limit-requests: 1000",
        "x-ratelimit-remaining-requests: 999",
    ]


def _reason(status: int) -> str:
    """The reason phrase; 529 is the one that no registry has."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded" if status == 529 else "Error"


def _chunk(piece: bytes) -> bytes:
    """One chunk; an empty piece is none, since it would end the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


def _joined(steps: list[Step]) -> list[Step]:
    """Neighbouring writes as one."""
    joined: list[Step] = []
    for step in steps:
        before = joined[-1] if joined else None
        if isinstance(step, Send) and isinstance(before, Send):
            joined[-1] = Send(before.data + step.data)
        else:
            joined.append(step)
    return joined

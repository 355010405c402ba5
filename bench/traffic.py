"""What goes over the wire in the benchmark, prepared as bytes: requests, answers, events.

The fake provider and the load driver share this module, so each knows to the byte what the other
sends; that is how a wrong answer, a lost event and a changed prompt are noticed.
"""

import json
import re
from typing import Final

import attrs

#: Whole answers by their kind, and how long the body of each is.
ANSWER_BYTES: Final = {
    "whole": 1024,
    "secure": 1024,
    "whole1m": 1024 * 1024,
    "whole8m": 8 * 1024 * 1024,
}
#: What is asked of the provider over TLS.
SECURE: Final = ("secure",)
#: Streams: of :data:`BURST_EVENTS` in one write, and with pauses.
STREAMS: Final = ("burst", "paced", "slow", "xburst")
#: The pause between two events of a paced stream, in seconds: fifty words a second, a fast model;
#: and five, a slow one, of which a machine can make thousands at a time.
PACES: Final = {"paced": 0.02, "slow": 0.2}
PACE_SECONDS: Final = PACES["paced"]
#: What a provider of another protocol answers; see :mod:`bench.messages`.
TRANSLATED: Final = ("xwhole", "xburst")

#: What clients ask for, and what the gateway's routes turn it into.
CLIENT_MODELS: Final = {
    kind: f"bench-{kind}" for kind in (*ANSWER_BYTES, "burst", *PACES, *TRANSLATED)
}
UPSTREAM_MODELS: Final = {kind: f"upstream-{kind}-2026-11-01" for kind in CLIENT_MODELS}

#: By the name in a body: the kind of answer, and whether a gateway chose that name.
MODELS: Final = {
    name.encode("ascii"): (kind, models is UPSTREAM_MODELS)
    for models in (CLIENT_MODELS, UPSTREAM_MODELS)
    for kind, name in models.items()
}

CHAT_PATH: Final = "/v1/chat/completions"

#: Events in a stream that comes in one write.
BURST_EVENTS: Final = 100

#: The temperature and the most tokens that every request asks for.
PARAMETERS: Final = (0.2, 256)

# Words with what JSON has to escape, so that a scan meets escapes at the rate of real prompts.
_WORDS = (
    'Tell me, in a few plain sentences, why "every" token should be counted.\n'
    "Mention costs, limits and trust – and keep it short, please.\n"
)

_MODEL = re.compile(rb'"model":"([^"\\]*)"')

# How far into a body the model is looked for: the gateway may put stream options in front.
_MODEL_WITHIN = 200


@attrs.frozen
class Tokens:
    """The usage that the provider states for one answer, as OpenAI's protocol counts it."""

    prompt: int
    completion: int


class OddRequestError(Exception):
    """The provider was sent something else than the client wrote; the text says what."""


def request_body(kind: str, size: int) -> bytes:
    """Return a chat request of exactly ``size`` bytes.

    :param kind: of the answer, one of :data:`CLIENT_MODELS`.
    """
    front = (
        f'{{"model":"{CLIENT_MODELS[kind]}","messages":[{{"role":"system","content":'
        '"You answer in plain words."},{"role":"user","content":"'
    )
    temperature, most = PARAMETERS
    back = f'"}}],"temperature":{temperature},"max_tokens":{most}'
    back += ',"stream":true}' if kind in STREAMS else "}"
    return (front + _text(size - len(front) - len(back)) + back).encode("ascii")


def request_bytes(kind: str, size: int, port: int, key: str) -> bytes:
    """Return a whole request, with the head lines that OpenAI's SDK sends."""
    body = request_body(kind, size)
    lines = [
        f"POST {CHAT_PATH} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Accept-Encoding: identity",
        "Connection: keep-alive",
        "Accept: application/json",
        "Content-Type: application/json",
        "User-Agent: OpenAI/Python 1.109.1",
        "X-Stainless-Lang: python",
        "X-Stainless-Package-Version: 1.109.1",
        "X-Stainless-OS: Linux",
        "X-Stainless-Arch: x64",
        "X-Stainless-Runtime: CPython",
        "X-Stainless-Runtime-Version: 3.11.7",
        f"Authorization: Bearer {key}",
        "X-Stainless-Async: false",
        "X-Stainless-Retry-Count: 0",
        "X-Stainless-Read-Timeout: 600",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


def read_model(body: bytes) -> tuple[str, bool, int]:
    """Return what a request asks for, whether a gateway chose the model, and where its name ends.

    What stands behind the name is the client's to the last byte: no gateway has a reason to
    change it.

    :raises OddRequestError: it names no model of the benchmark.
    """
    found = _MODEL.search(body, 0, _MODEL_WITHIN)
    known = MODELS.get(found[1]) if found else None
    if found is None or known is None:
        raise OddRequestError("the body names no model of the benchmark")
    return *known, found.end()


def asks_for_usage(body: bytes) -> bool:
    """Return whether the stream's usage was asked for, where the gateway would do it."""
    return body.find(b'"include_usage":true', 0, _MODEL_WITHIN) >= 0


def tokens_of(kind: str, paced_events: int) -> Tokens:
    """Return the usage that the provider states for an answer."""
    return Tokens(180, events_of(kind, paced_events) if kind in ("burst", *PACES) else 160)


def events_of(kind: str, paced_events: int) -> int:
    """Return how many events one answer has, or 1 where answers are counted.

    :param paced_events: of the faster paced streams; slower ones last as long.
    """
    if kind in PACES:
        return max(1, round(paced_events * PACE_SECONDS / PACES[kind]))
    return BURST_EVENTS if kind in STREAMS else 1


# -- answers


def whole_body(kind: str = "whole") -> bytes:
    """Return the body of a plain answer, as long as :data:`ANSWER_BYTES` says."""
    tokens = tokens_of(kind, 0)
    front = (
        '{"id":"chatcmpl-bench","object":"chat.completion","created":1793000000,"model":'
        f'"{UPSTREAM_MODELS[kind]}","choices":[{{"index":0,"message":{{"role":"assistant",'
        '"content":"'
    )
    back = (
        '","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":'
        f'{_usage_json(tokens)},"service_tier":"default","system_fingerprint":"fp_bench"}}'
    )
    size = ANSWER_BYTES[kind] - len(front) - len(back)
    return (front + _text(size) + back).encode("ascii")


def burst_payload(with_usage: bool) -> bytes:
    """Return the event stream of :data:`BURST_EVENTS` words and an end, as a client reads it."""
    events = [event_bytes(b" word-%05d" % index) for index in range(BURST_EVENTS)]
    return b"".join(events) + stream_end("burst", BURST_EVENTS, with_usage)


def event_bytes(text: bytes, kind: str = "burst") -> bytes:
    """Return the event of one word.

    :param text: has nothing that JSON would escape.
    """
    return (
        b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1793000000,'
        b'"model":"upstream-%b-2026-11-01","service_tier":"default","system_fingerprint":'
        b'"fp_bench","choices":[{"index":0,"delta":{"content":"%b"},"logprobs":null,'
        b'"finish_reason":null}]}\n\n' % (kind.encode("ascii"), text)
    )


def stream_end(kind: str, events: int, with_usage: bool) -> bytes:
    """Return the last events of a stream: the reason it ended, usage if asked for, the mark."""
    head = (
        b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1793000000,'
        b'"model":"upstream-%b-2026-11-01","choices":' % kind.encode("ascii")
    )
    out = head + b'[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
    if with_usage:
        usage = _usage_json(tokens_of(kind, events)).encode("ascii")
        out += head + b'[],"usage":%b}\n\n' % usage
    return out + b"data: [DONE]\n\n"


def paced_event(index: int, sent_ns: int) -> bytes:
    """Return one event of a paced stream, whose text tells its number and when it was sent.

    :param sent_ns: by the machine's monotonic clock, which all processes share.
    """
    return event_bytes(b" %05d %020d" % (index, sent_ns), "paced")


_PACED_FRONT, _, _PACED_BACK = event_bytes(b"|", "paced").partition(b"|")
_PACED_EVENT = re.compile(
    re.escape(_PACED_FRONT) + rb" ([0-9]{5}) ([0-9]{20})" + re.escape(_PACED_BACK)
)
PACED_EVENT_BYTES: Final = len(paced_event(0, 0))


def read_paced_event(event: bytes) -> tuple[int, int] | None:
    """Return number and time of one event of a paced stream; ``None`` where it is none."""
    found = _PACED_EVENT.fullmatch(event)
    return (int(found[1]), int(found[2])) if found else None


def chunks_of(payload: bytes) -> bytes:
    """Return an event stream in chunks, one for each event, without the last chunk."""
    events = payload.split(b"\n\n")[:-1]
    return b"".join([chunk(event + b"\n\n") for event in events])


def chunk(data: bytes) -> bytes:
    """Return one chunk of HTTP's chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK: Final = b"0\r\n\r\n"


def answer_head(content_type: str, framing: str) -> bytes:
    """Return an answer's head, with the lines that hosted providers send.

    :param framing: the line that tells how the body ends.
    """
    lines = [
        "HTTP/1.1 200 OK",
        "date: Sun, 29 Nov 2026 12:00:00 GMT",
        f"content-type: {content_type}",
        framing,
        "connection: keep-alive",
        "access-control-expose-headers: X-Request-ID",
        "openai-organization: org-bench",
        "openai-processing-ms: 312",
        "openai-version: 2020-10-01",
        "x-ratelimit-limit-requests: 30000",
        "x-ratelimit-limit-tokens: 150000000",
        "x-ratelimit-remaining-requests: 29999",
        "x-ratelimit-remaining-tokens: 149999742",
        "x-ratelimit-reset-requests: 2ms",
        "x-ratelimit-reset-tokens: 0s",
        "x-request-id: req_bench0000000000000000000000000000",
        "strict-transport-security: max-age=31536000; includeSubDomains; preload",
        "server: cloudflare",
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"


def whole_answer(kind: str = "whole") -> bytes:
    """Return the complete plain answer."""
    body = whole_body(kind)
    return answer_head("application/json", f"content-length: {len(body)}") + body


def stream_head() -> bytes:
    """Return the head of an event stream."""
    return answer_head("text/event-stream; charset=utf-8", "transfer-encoding: chunked")


def burst_answer(with_usage: bool) -> bytes:
    """Return the complete stream that comes in one write, each event a chunk."""
    return stream_head() + chunks_of(burst_payload(with_usage)) + LAST_CHUNK


def refusal(reason: str) -> bytes:
    """Return the provider's answer to a request that is not what the client wrote."""
    error = {"message": reason, "type": "invalid_request_error", "param": None, "code": "bench"}
    body = json.dumps({"error": error}).encode("ascii")
    return (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


def _usage_json(tokens: Tokens) -> str:
    """Return the usage member of an answer."""
    usage = {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.prompt + tokens.completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    return json.dumps(usage, separators=(",", ":"))


def words(size: int) -> str:
    """Return a text that takes so many bytes in JSON."""
    text: str = json.loads(f'"{_text(size)}"')
    return text


def _text(size: int) -> str:
    """Return so many bytes of words, as they stand within a JSON string."""
    escaped = json.dumps(_WORDS)[1:-1]
    if size < len(escaped):
        raise ValueError(f"{size} bytes have no room for a text of {len(escaped)}")
    times, rest = divmod(size, len(escaped))
    return escaped * times + "." * rest

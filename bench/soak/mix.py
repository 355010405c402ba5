"""The mixed traffic of a soak: what a client asks next, and how it behaves meanwhile; pure."""

import random
from collections.abc import Mapping
from typing import Final

import attrs

from bench.soak import replies, scene
from bench.soak.note import Note, noted

#: How often what is asked, out of the sum of all.
ORDINARY: Final = {
    "chat": 300,
    "responses": 120,
    "completions": 60,
    "embeddings": 60,
    "messages": 300,
    "count_tokens": 40,
    "cached": 60,
}
ASKED: Final = ORDINARY | {
    "models": 20,
    "model": 5,
    "probe": 20,
    "no-key": 6,
    "bad-key": 6,
    "bad-json": 8,
    "twice-model": 4,
    "unknown-model": 6,
    "forbidden-model": 6,
    "slow-key": 20,
    "narrow-key": 20,
    "spent-key": 6,
    "too-large": 5,
    "wrong-method": 4,
    "wrong-path": 4,
    "encoded-path": 4,
    "no-length": 4,
    "chunked-body": 4,
    "garbage-head": 6,
    "bare-feeds": 4,
    "odd-expectation": 3,
}

#: How a client behaves: only with ordinary requests, and rarely badly.
MANNERS: Final = {
    "plain": 700,
    "expects-continue": 10,
    "in-pieces": 20,
    "slow-reader": 20,
    "half-head": 5,
    "half-head-silent": 3,
    "half-body": 10,
    "half-body-silent": 4,
    "leaves-at-once": 12,
    "leaves-waiting": 20,
    "resets-waiting": 15,
    "leaves-reading": 30,
    "resets-reading": 25,
    "stops-reading": 12,
    "half-closes": 8,
}
#: Of a stream most are worth leaving in the middle, of a stalled reader only what is long.
_NEEDS_STREAM: Final = frozenset({"leaves-reading", "resets-reading"})
_NEEDS_LENGTH: Final = frozenset({"stops-reading", "slow-reader"})

#: Requests to the cached route that differ.
CACHED_MARKS: Final = 40

#: What a refused request is told, by what is asked.
REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "no-key": ("invalid_api_key",),
    "bad-key": ("invalid_api_key",),
    "bad-json": ("invalid_json",),
    "twice-model": ("invalid_request",),
    "unknown-model": ("model_not_found",),
    "forbidden-model": ("model_not_allowed",),
    "too-large": ("request_too_large",),
    "wrong-method": ("method_not_allowed",),
    "wrong-path": ("not_found",),
    "encoded-path": ("invalid_path",),
    "no-length": ("length_required",),
    "chunked-body": ("length_required",),
    "garbage-head": ("invalid_request",),
    "bare-feeds": ("invalid_request",),
    "odd-expectation": ("expectation_failed",),
}
#: Refused or answered, as it happens.
PERHAPS_REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "slow-key": ("rate_limit_exceeded",),
    "narrow-key": ("concurrency_limit_exceeded",),
    "spent-key": ("budget_exceeded",),
}
#: What any request that reaches an upstream may be told.
UPSTREAM_CODES: Final = (
    "upstream_rate_limited",
    "all_upstreams_failed",
    "upstream_authentication_failed",
    "soak_400",
)
_KEY_OF: Final = {
    "no-key": "",
    "bad-key": "nobody",
    "forbidden-model": "barred",
    "slow-key": "slow",
    "narrow-key": "narrow",
    "spent-key": "spent",
}
#: Refused before a request id is given: no line in the log.
_WITHOUT_LINE: Final = frozenset(
    {"no-length", "chunked-body", "garbage-head", "bare-feeds", "odd-expectation", "probe"}
)


@attrs.frozen
class Request:
    """One request, ready to be sent, and how its client goes about it.

    :ivar expected: the codes of errors that it may be answered with.
    :ivar lines: lines that it leaves in the access log if its client stays.
    :ivar fresh: whether it comes on a connection of its own.
    """

    mark: int
    kind: str
    manner: str
    model: str
    stream: bool
    key: str
    head: bytes
    body: bytes
    expected: tuple[str, ...]
    lines: int
    fresh: bool


def draw(rng: random.Random, mark: int) -> Request:
    """Choose the next request of a client.

    :param mark: its number.
    """
    asked = rng.choices(list(ASKED), list(ASKED.values()))[0]
    fresh = rng.random() < 0.3
    lines = 0 if asked in _WITHOUT_LINE else 1
    if asked in ORDINARY:
        return _ordinary(rng, mark, asked, fresh)
    if asked in ("models", "model", "probe"):
        path = {
            "models": "/v1/models",
            "model": "/v1/models/soak-first",
            "probe": rng.choice(("/healthz", "/readyz", "/livez")),
        }[asked]
        key = "" if asked == "probe" else "soak"
        head = _head("GET", path, key, rng.choice(("openai", "anthropic")))
        return Request(mark, asked, "plain", "", False, key, head, b"", (), lines, fresh)
    return _special(rng, mark, asked, lines, fresh)


def _ordinary(rng: random.Random, mark: int, asked: str, fresh: bool) -> Request:
    """Choose a request that reaches an upstream, and a manner."""
    kind = asked
    manner = rng.choices(list(MANNERS), list(MANNERS.values()))[0]
    if asked == "cached":
        mark = rng.randrange(CACHED_MARKS)
        # The same mark is the same request to the byte, whoever sends it.
        rng = random.Random(mark)
        kind = rng.choice(("chat", "messages", "embeddings"))
        model, stream, manner = scene.CACHED_MODELS[replies.PROTOCOL_OF[kind]], False, "plain"
    else:
        model = rng.choice(scene.MODELS[replies.PROTOCOL_OF[kind]])
        stream = kind not in ("embeddings", "count_tokens") and rng.random() < 0.4
        if manner in _NEEDS_STREAM and kind not in ("embeddings", "count_tokens"):
            stream = True
        if manner in _NEEDS_LENGTH:
            stream = False
    note = _note(rng, mark, stream, manner)
    body = body_of(kind, model, stream, note, _prompt_bytes(rng, manner))
    head = _head("POST", replies.PATHS[kind], "soak", replies.PROTOCOL_OF[kind], len(body), manner)
    fresh = fresh or manner not in ("plain", "in-pieces", "leaves-waiting", "leaves-reading")
    return Request(mark, asked, manner, model, stream, "soak", head, body, UPSTREAM_CODES, 1, fresh)


def _note(rng: random.Random, mark: int, stream: bool, manner: str) -> Note:
    """Choose the answer to wish for."""
    # Most answers are short, a few have a hundred thousand bytes, very few a million.
    size = rng.choices((200, 2_000, 20_000, 150_000, 1_000_000), (50, 30, 12, 3, 1))[0]
    if manner in _NEEDS_LENGTH:
        size = rng.choice((300_000, 1_000_000))
    events, gap = rng.choices(
        ((10, 0), (100, 0), (10, 20), (30, 20), (100, 20), (300, 15), (8, 300)),
        (20, 10, 20, 20, 8, 3, 5),
    )[0]
    if manner in _NEEDS_STREAM and not gap:
        gap = 20
    size = max(1, int(size * rng.uniform(0.7, 1.0)))
    return Note(mark, size, events, gap, rng.random() < 0.3)


def _prompt_bytes(rng: random.Random, manner: str) -> int:
    size = rng.choices((100, 1_000, 10_000, 100_000, 1_000_000), (40, 40, 14, 3, 1))[0]
    if manner in ("half-body", "half-body-silent", "in-pieces"):
        size = max(size, 10_000)
    return int(size * rng.uniform(0.7, 1.0))


def body_of(kind: str, model: str, stream: bool, note: Note, prompt_bytes: int) -> bytes:
    """Return the body of an ordinary request."""
    front = f'{{"model":"{model}",'
    if stream:
        front += '"stream":true,'
        if note.asked and kind in ("chat", "completions"):
            front += '"stream_options":{"include_usage":true},'
    if kind in ("chat", "messages", "count_tokens"):
        if kind == "messages":
            front += '"max_tokens":512,'
        front += '"messages":[{"role":"user","content":"'
        closing = b'"}]}'
    else:
        front += '"prompt":"' if kind == "completions" else '"input":"'
        closing = b'"}'
    return front.encode() + noted(note, prompt_bytes, closing)


def _special(rng: random.Random, mark: int, asked: str, lines: int, fresh: bool) -> Request:
    """Make a request that is refused, or may be."""
    key = _KEY_OF.get(asked, "soak")
    model = {"unknown-model": "no-such-model", "forbidden-model": "soak-secret"}.get(
        asked, "soak-first"
    )
    note = Note(mark, 200, 5, 20 if asked == "narrow-key" else 0)
    body = body_of("chat", model, asked == "narrow-key", note, 100)
    method, path, size = "POST", "/v1/chat/completions", len(body)
    if asked == "bad-json":
        body = body[:-1] + rng.choice((b",", b"]", b"\x01"))
    elif asked == "twice-model":
        body = b'{"model":"soak-first",' + body[1:]
        size = len(body)
    elif asked == "too-large":
        size = (scene.MAX_REQUEST_MB + 1) * 1024 * 1024
        body = body[:50]
    elif asked == "wrong-method":
        method = "PUT"
    elif asked == "wrong-path":
        path = "/v1/chat"
    elif asked == "encoded-path":
        path = "/v1/chat%2Fcompletions"
    head = _head(method, path, key, "openai", size)
    if asked == "no-length":
        head = head.replace(b"content-length: %d\r\n" % size, b"")
    elif asked == "chunked-body":
        head = head.replace(b"content-length: %d" % size, b"transfer-encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif asked == "garbage-head":
        head = bytes(rng.randrange(32, 256) for _ in range(60)) + b"\r\n\r\n"
        body = b""
    elif asked == "bare-feeds":
        head = head.replace(b"\r\n", b"\n")
    elif asked == "odd-expectation":
        head = head[:-2] + b"expect: a-miracle\r\n\r\n"
    refused = REFUSED.get(asked) or (*PERHAPS_REFUSED[asked], *UPSTREAM_CODES)
    stream = asked == "narrow-key"
    return Request(mark, asked, "plain", model, stream, key, head, body, refused, lines, fresh)


def _head(
    method: str, path: str, key: str, protocol: str, size: int | None = None, manner: str = ""
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: soak.test", "user-agent: soak"]
    if key:
        secret = scene.secret_of(key)
        name = "x-api-key: " if protocol == "anthropic" else "authorization: Bearer "
        lines.append(name + secret)
    if protocol == "anthropic":
        lines.append("anthropic-version: 2023-06-01")
    if size is not None:
        lines += ["content-type: application/json", f"content-length: {size}"]
    if manner == "expects-continue":
        lines.append("expect: 100-continue")
    return "\r\n".join((*lines, "", "")).encode()

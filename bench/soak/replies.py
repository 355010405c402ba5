"""The answers of the soak's providers, in pieces: every kind of endpoint, whole and streamed.

Each attempt at a provider has a serial number, and its figures follow from that number, so that an
event in the ledger leads back to the one answer that it bills.
"""

import json
import zlib
from typing import Any, Final

import attrs

from bench.soak.note import Note, filler

#: The member that holds the answer's text takes this many bytes a streamed piece.
PIECE_TEXT: Final = b" a word or two"

KINDS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/embeddings": "embeddings",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "count_tokens",
}
PATHS: Final = {kind: path for path, kind in KINDS.items()}
PROTOCOL_OF: Final = {
    kind: "anthropic" if path.startswith("/v1/messages") else "openai"
    for path, kind in KINDS.items()
}


@attrs.frozen
class Figures:
    """What one answer bills, none of the counts within another."""

    input: int
    cached: int
    written: int
    output: int

    @property
    def prompt(self) -> int:
        """All input, the way OpenAI counts it."""
        return self.input + self.cached + self.written


def figures_of(serial: int, kind: str) -> Figures:
    """Return the figures of an attempt; the input of no two attempts is the same."""
    if kind == "embeddings":
        return Figures(2 * serial + 1, 0, 0, 0)
    return Figures(2 * serial + 1, serial % 97, serial % 89, 3 + serial % 4093)


def serial_of(input_tokens: int) -> int:
    """Return the attempt whose figures have this input."""
    return (input_tokens - 1) // 2


@attrs.frozen
class Reply:
    """One answer before any framing and any fault.

    :ivar pieces: of the payload, one an event in a stream.
    :ivar usage_at: the piece that holds the closing figures; -1 where none does.
    :ivar hidden_at: the piece that is kept from a client who did not ask for usage; or -1.
    :ivar text_bytes: of generated text in each piece of a stream.
    """

    content_type: str
    pieces: list[bytes]
    usage_at: int
    hidden_at: int = -1
    text_bytes: int = 0

    def crc(self, hides: bool) -> int:
        """Return the checksum of what a client gets of it, comments and pings left out."""
        crc = 0
        for index, piece in enumerate(self.pieces):
            if not (hides and index == self.hidden_at):
                crc = zlib.crc32(piece, crc)
        return crc


def whole(kind: str, model: str, serial: int, size: int, with_usage: bool = True) -> Reply:
    """Return an answer in one JSON object with so many bytes of text."""
    figures = figures_of(serial, kind)
    usage = _usage(kind, figures)
    text = '"' + filler(size).decode() + '"'
    if kind == "count_tokens":
        body = f'{{"input_tokens":{figures.input}}}'
    elif kind == "embeddings":
        vector = ",".join(["0.25"] * max(1, size // 5))
        front = f'{{"object":"list","data":[{{"object":"embedding","index":0,"embedding":[{vector}]'
        body = f'{front}}}],"model":"{model}"'
    elif kind == "messages":
        body = (
            f'{{"id":"msg_{serial}","type":"message","role":"assistant","model":"{model}",'
            f'"content":[{{"type":"text","text":{text}}}],"stop_reason":"end_turn"'
        )
    elif kind == "responses":
        body = (
            f'{{"id":"resp_{serial}","object":"response","status":"completed","model":"{model}",'
            '"output":[{"type":"message","role":"assistant","content":'
            f'[{{"type":"output_text","text":{text}}}]}}],"error":null'
        )
    else:
        name = "chat.completion" if kind == "chat" else "text_completion"
        said = f'"message":{{"role":"assistant","content":{text}}}'
        if kind == "completions":
            said = f'"text":{text}'
        body = (
            f'{{"id":"cmpl-{serial}","object":"{name}","model":"{model}",'
            f'"choices":[{{"index":0,{said},"finish_reason":"stop"}}]'
        )
    if kind != "count_tokens":
        body += f',"usage":{json.dumps(usage)}}}' if with_usage else "}"
    return Reply("application/json", [body.encode()], 0 if with_usage else -1)


def streamed(kind: str, model: str, serial: int, events: int, with_usage: bool = True) -> Reply:
    """Return an answer in events, so many of which carry text."""
    figures = figures_of(serial, kind)
    usage = _usage(kind, figures) if with_usage else None
    build = {"messages": _messages, "responses": _responses}.get(kind, _chunks)
    pieces, usage_at, hidden_at = build(kind, model, serial, events, usage)
    return Reply(
        "text/event-stream; charset=utf-8",
        pieces,
        usage_at if with_usage else -1,
        hidden_at if with_usage else -1,
        len(PIECE_TEXT),
    )


def reply_for(
    kind: str, stream: bool, model: str, serial: int, note: Note, with_usage: bool
) -> Reply:
    """Return the answer that a note asks for."""
    if stream:
        return streamed(kind, model, serial, note.events, with_usage)
    return whole(kind, model, serial, note.size, with_usage)


def error_body(protocol: str, status: int) -> bytes:
    """Return the body of a provider's error."""
    error = {
        "type": "api_error",
        "message": f"the provider fails with {status}",
        "code": f"soak_{status}",
    }
    if protocol == "anthropic":
        return json.dumps({"type": "error", "error": error, "request_id": "req_soak"}).encode()
    return json.dumps({"error": {**error, "param": None}}).encode()


def error_event(kind: str) -> bytes:
    """Return the event of a stream that failed."""
    if kind == "messages":
        return b"event: error\ndata: " + error_body("anthropic", 529) + b"\n\n"
    if kind == "responses":
        fault = {"type": "error", "code": "server_error", "message": "failed", "param": None}
        return b"event: error\ndata: " + json.dumps(fault).encode() + b"\n\n"
    return b"data: " + error_body("openai", 500) + b"\n\n"


def _usage(kind: str, figures: Figures) -> dict[str, Any]:
    """Return figures in the words of an endpoint."""
    if kind == "messages":
        return {
            "input_tokens": figures.input,
            "cache_read_input_tokens": figures.cached,
            "cache_creation_input_tokens": figures.written,
            "output_tokens": figures.output,
        }
    details = {"cached_tokens": figures.cached, "cache_write_tokens": figures.written}
    total = figures.prompt + figures.output
    if kind == "responses":
        return {
            "input_tokens": figures.prompt,
            "input_tokens_details": details,
            "output_tokens": figures.output,
            "total_tokens": total,
        }
    if kind == "embeddings":
        return {"prompt_tokens": figures.prompt, "total_tokens": total}
    return {
        "prompt_tokens": figures.prompt,
        "completion_tokens": figures.output,
        "total_tokens": total,
        "prompt_tokens_details": details,
    }


def _chunks(
    kind: str, model: str, serial: int, events: int, usage: dict[str, Any] | None
) -> tuple[list[bytes], int, int]:
    """Return the chunks of a chat or a completion."""
    name = "chat.completion.chunk" if kind == "chat" else "text_completion"
    front = f'data: {{"id":"cmpl-{serial}","object":"{name}","model":"{model}",'.encode()
    text = PIECE_TEXT
    if kind == "chat":
        said = b'"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text
        last = b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    else:
        said = b'"choices":[{"index":0,"text":"%b","finish_reason":null}]}\n\n' % text
        last = b'"choices":[{"index":0,"text":"","finish_reason":"stop"}]}\n\n'
    pieces = [front + said] * events + [front + last]
    at = -1
    if usage is not None:
        at = len(pieces)
        pieces.append(front + b'"choices":[],"usage":' + json.dumps(usage).encode() + b"}\n\n")
    pieces.append(b"data: [DONE]\n\n")
    return pieces, at, at


def _event(kind: str, **members: object) -> bytes:
    data = json.dumps({"type": kind, **members}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def _messages(
    kind: str, model: str, serial: int, events: int, usage: dict[str, Any] | None
) -> tuple[list[bytes], int, int]:
    """Return the events of a message."""
    message: dict[str, Any] = {
        "id": f"msg_{serial}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    ending: dict[str, Any] = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    if usage is not None:
        message["usage"] = {**usage, "output_tokens": 1}
        ending["usage"] = usage
    delta = {"type": "text_delta", "text": PIECE_TEXT.decode()}
    said = _event("content_block_delta", index=0, delta=delta)
    pieces = [_event("message_start", message=message)]
    pieces.append(
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    )
    pieces += [said] * events
    pieces.append(_event("content_block_stop", index=0))
    at = len(pieces)
    pieces.append(_event("message_delta", **ending))
    pieces.append(_event("message_stop"))
    return pieces, at, -1


def _responses(
    kind: str, model: str, serial: int, events: int, usage: dict[str, Any] | None
) -> tuple[list[bytes], int, int]:
    """Return the events of a response."""
    opening = {"id": f"resp_{serial}", "object": "response", "model": model, "output": []}
    said = _event("response.output_text.delta", output_index=0, delta=PIECE_TEXT.decode())
    pieces = [_event("response.created", response={**opening, "status": "in_progress"})]
    pieces += [said] * events
    at = len(pieces)
    final = {**opening, "status": "completed", "usage": usage}
    pieces.append(_event("response.completed", response=final))
    return pieces, at, -1

"""What the fake provider is asked to do, read from the model name of a request.

A name is ``fake-`` and phrases joined by ``-``, in any order, each with its number where it
takes one: ``fake-paced-20-cut-after-3`` sends an event every 20 ms and drops the connection
after the third. A name that does not begin with ``fake-`` behaves like ``fake-small``, so that
real model ids and their prices can be tried; an unknown phrase is answered 404, as a real
provider does with a model it does not have.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

Ending = Literal["fin", "rst", "end", "silence", "error_event", "bad_chunk"]
Framing = Literal["", "length", "chunked", "close", "both_lengths", "two_lengths", "unknown_coding"]
BodyForm = Literal["normal", "html", "error_envelope", "empty"]
ErrorForm = Literal["envelope", "text", "array", "string", "integer_code", "too_long", "no_credit"]
UsageForm = Literal["normal", "none", "every"]
ConnectionForm = Literal["keep", "close", "drop_idle", "drop_reused"]

PREFIX = "fake-"

SMALL_WORDS = 12
# More than 64 KiB of text, so that an answer is no longer one the gateway holds whole.
LARGE_WORDS = 16_384
# What one request may ask this process to hold: some 60 MB of prepared chat events.
MAX_WORDS = 200_000
# One hour; longer waits are what ``silent`` is for.
MAX_MS = 3_600_000


class UnknownScenarioError(Exception):
    """The model name holds a phrase that no scenario has; the text names it."""


@attrs.frozen
class Scenario:
    """One way to answer; the fields that are not named keep the answer an ordinary one.

    :ivar words: words of the answer, one output token each
    :ivar input_tokens: the input count to report, or None for one token per four bytes of text
    :ivar first_byte_ms: silence before the head
    :ivar first_event_ms: silence between the head and the first byte of the body
    :ivar gap_ms: silence between two events of a stream
    :ivar stop_after: the event after which ``ending`` happens, or None for a whole answer
    :ivar framing: how the body is delimited; empty for the usual way
    :ivar split: cut the body into pieces of so many bytes, whatever stands there; 0 is off
    :ivar strict: refuse with 400 what the hosted APIs refuse, in chats, messages and responses
    :ivar loop: play a model that thinks and calls tools (:mod:`omnigate.testing.provider_loop`)
    :ivar redacted: in that play, tell nothing of what it thinks; Anthropic's blocks are redacted
    :ivar times: only the first so many requests of this model name; 0 is always
    """

    words: int = SMALL_WORDS
    input_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    tools: int = 0
    usage: UsageForm = "normal"
    first_byte_ms: int = 0
    first_event_ms: int = 0
    gap_ms: int = 0
    silent: bool = False
    status: int = 200
    retry_after: int | None = None
    retry_date: int | None = None
    error_form: ErrorForm = "envelope"
    body_form: BodyForm = "normal"
    stop_after: int | None = None
    ending: Ending = "fin"
    framing: Framing = ""
    comments: bool = False
    crlf: bool = False
    no_space: bool = False
    no_done: bool = False
    split: int = 0
    one_write: bool = False
    gzip: bool = False
    interim: bool = False
    connection: ConnectionForm = "keep"
    echo_key: bool = False
    strict: bool = False
    loop: bool = False
    redacted: bool = False
    times: int = 0


PLAIN = Scenario()

# phrase → (fields it sets, what it does); "#" among the fields takes the phrase's number.
_Fields = Mapping[str, object]
_PHRASES: dict[str, tuple[_Fields, str]] = {
    "small": ({"words": SMALL_WORDS}, "a short answer of 12 words"),
    "large": ({"words": LARGE_WORDS}, "an answer of 16,384 words, more than 64 KiB"),
    "words-#": ({"words": "#"}, "an answer of so many words"),
    "input-#": ({"input_tokens": "#"}, "report so many input tokens, cached ones included"),
    "cached-#": ({"cached_tokens": "#"}, "report so many cached input tokens"),
    "cache-write-#": ({"cache_write_tokens": "#"}, "report so many tokens written to the cache"),
    "reasoning-#": ({"reasoning_tokens": "#"}, "so many reasoning tokens on top of the words"),
    "tools": ({"tools": 1}, "call the first tool the request offers"),
    "tools-#": ({"tools": "#"}, "call so many tools"),
    "no-usage": ({"usage": "none"}, "report no usage at all"),
    "usage-on-every-chunk": ({"usage": "every"}, "running usage in every chat chunk"),
    "slow-first-byte-#": ({"first_byte_ms": "#"}, "wait so many ms before the head"),
    "slow-first-event-#": ({"first_event_ms": "#"}, "wait so many ms between head and body"),
    "paced-#": ({"gap_ms": "#"}, "wait so many ms between events"),
    "silent": ({"silent": True}, "take the request and never answer"),
    "silent-after-#": ({"stop_after": "#", "ending": "silence"}, "go silent after so many events"),
    "cut-after-#": ({"stop_after": "#", "ending": "fin"}, "close after so many events"),
    "reset-after-#": ({"stop_after": "#", "ending": "rst"}, "reset after so many events"),
    "end-after-#": (
        {"stop_after": "#", "ending": "end"},
        "end the HTTP body whole after so many events, unfinished as a stream",
    ),
    "error-event": ({"stop_after": 0, "ending": "error_event"}, "the first event is an error"),
    "error-event-after-#": (
        {"stop_after": "#", "ending": "error_event"},
        "an error event after so many events",
    ),
    "bad-chunk": ({"stop_after": 1, "ending": "bad_chunk"}, "a chunk size that is no number"),
    "bad-chunk-after-#": (
        {"stop_after": "#", "ending": "bad_chunk"},
        "the same after so many events",
    ),
    "empty-stream": ({"body_form": "empty"}, "a good head and a body without a byte"),
    "both-lengths": ({"framing": "both_lengths"}, "a length together with chunked encoding"),
    "two-lengths": ({"framing": "two_lengths"}, "two different lengths"),
    "unknown-coding": ({"framing": "unknown_coding"}, "a transfer coding that nobody knows"),
    "with-length": ({"framing": "length"}, "an event stream with a content-length"),
    "chunked": ({"framing": "chunked"}, "chunked, also where the answer is whole"),
    "until-close": ({"framing": "close"}, "a body that the end of the connection ends"),
    "html": ({"body_form": "html"}, "200 and an HTML page"),
    "error-envelope": ({"body_form": "error_envelope"}, "200 and an error object as the body"),
    "retry-after-#": ({"retry_after": "#"}, "a retry-after header in seconds"),
    "retry-date-#": ({"retry_date": "#"}, "a retry-after header with the date in so many seconds"),
    "plain-error": ({"error_form": "text"}, "the error as plain text"),
    "array-error": ({"error_form": "array"}, "the error in a JSON array"),
    "string-error": ({"error_form": "string"}, "the error as a string"),
    "too-long": (
        {"status": 400, "error_form": "too_long"},
        "the error of a prompt that is longer than the model's window",
    ),
    "no-credit": (
        {"status": 429, "error_form": "no_credit"},
        "the error of an account without credit: 429 (OpenAI), 402 (Anthropic)",
    ),
    "integer-code-error": ({"error_form": "integer_code"}, "an integer error code"),
    "comments": ({"comments": True}, "a comment (OpenAI) or ping (Anthropic) before each event"),
    "crlf": ({"crlf": True}, "event lines that end in CR LF"),
    "no-space": ({"no_space": True}, "'data:' without a space behind it"),
    "no-done": ({"no_done": True}, "no [DONE] at the end"),
    "split-#": ({"split": "#"}, "cut the body every so many bytes"),
    "one-write": ({"one_write": True}, "the whole stream in one write"),
    "gzip": ({"gzip": True}, "compress the body, asked or not"),
    "interim": ({"interim": True}, "a 103 head before the real one"),
    "close": ({"connection": "close"}, "close the connection after the answer"),
    "drop-idle": ({"connection": "drop_idle"}, "the same, without saying so in the head"),
    "drop-reused": (
        {"connection": "drop_reused"},
        "close without a byte when a second request comes on a connection",
    ),
    "echo-key": ({"echo_key": True}, "the credential of the request as the first word"),
    "strict": (
        {"strict": True},
        "refuse with 400 what the hosted APIs refuse, and the tools they run themselves",
    ),
    "loop": (
        {"strict": True, "loop": True},
        "strict; the play of omnigate/testing/provider_loop.py: thinking, tools, an image, a PDF",
    ),
    "redacted": ({"redacted": True}, "in that play, think what only the provider can read"),
    "times-#": ({"times": "#"}, "only for the first so many requests of this name"),
}

_BOUNDS = {"words": MAX_WORDS, "first_byte_ms": MAX_MS, "first_event_ms": MAX_MS, "gap_ms": MAX_MS}
# No count of tokens or events has to be larger than what the gateway believes.
_OTHER_BOUND = 1 << 41
_STATUS = re.compile(r"([45]\d\d)(?:-|$)")
_NUMBER = re.compile(r"-(\d{1,13})(?=-|$)")
_BY_LENGTH = sorted(_PHRASES, key=len, reverse=True)


def scenario_of(model: str) -> Scenario:
    """Read the scenario out of a model name.

    :raises UnknownScenarioError: when a phrase after ``fake-`` is not known
    """
    if not model.startswith(PREFIX):
        return PLAIN
    fields: dict[str, Any] = {}
    rest = model[len(PREFIX) :]
    while rest:
        status = _STATUS.match(rest)
        if status is not None:
            fields["status"] = int(status[1])
            rest = rest[status.end() :]
            continue
        rest = _take_phrase(rest, fields)
    return attrs.evolve(PLAIN, **fields)


def scenario_table() -> list[tuple[str, str]]:
    """Every phrase and what it does, in the order of the documentation."""
    rows = [("400 … 599", "that status with the protocol's error body")]
    rows.extend((phrase, meaning) for phrase, (_, meaning) in _PHRASES.items())
    return rows


def _take_phrase(rest: str, fields: dict[str, Any]) -> str:
    """Put the fields of the longest phrase ``rest`` begins with into ``fields``."""
    for phrase in _BY_LENGTH:
        word = phrase.removesuffix("-#")
        if not rest.startswith(word):
            continue
        end = len(word)
        number = 0
        if phrase.endswith("-#"):
            digits = _NUMBER.match(rest, end)
            if digits is None:
                continue
            number = int(digits[1])
            end = digits.end()
        elif rest[end : end + 1] not in ("", "-"):
            continue
        for field, value in _PHRASES[phrase][0].items():
            fields[field] = min(number, _BOUNDS.get(field, _OTHER_BOUND)) if value == "#" else value
        return rest[end + 1 :]
    raise UnknownScenarioError(f"no scenario begins like {rest!r}")

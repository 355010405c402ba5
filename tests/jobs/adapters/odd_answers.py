"""Answers that a provider should not give, and inputs that a client should not: made at random.

Most are golden ones with a piece put out of joint, since what is nearly right comes furthest.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from omnigate.outbound import messages
from omnigate.outbound.messages import Answer, Cap, Request
from tests.jobs.cases import every_case, kept_media

CREDENTIAL = "kid-4711:sk-very-secret-0815-abcdef"
BASE_URL = "https://media.example:8443/base"

#: The content of a file that a marker stands for.
MARKER = "6b1f-marker-of-a-file"

_STATUSES = (0, 200, 200, 200, 201, 202, 204, 302, 400, 401, 402, 403, 404, 408, 409, 410, 413, 422)
_MORE_STATUSES = (425, 429, 500, 502, 503, 599, 999)

ODD_TEXTS: Final = (
    "",
    " ",
    "x",
    "..",
    "../../v1/keys",
    "a/b?c=d#e",
    "\ud800",
    "\udfff tail",
    "line\nline\r\nx: y",
    "\x00\x1b[31m\u202e",
    "é" * 300,
    f"key {CREDENTIAL} is wrong",
    CREDENTIAL,
    "padding " * 511 + CREDENTIAL,
    "data:image/png;base64,iVBORw0KGgo=",
    "data:image/png;base64,???",
    "data:,a%20b",
    "data:" + "x" * 200,
    "https://media.example:8443/base/files/f1",
    "https://media.example:8443/v1beta/files/f1:download",
    "https://media.example/base/files/f1",
    "http://media.example:8443/base/files/f1",
    "https://media.example:8443@elsewhere.example/f",
    "https://elsewhere.example/f.png",
    "HTTPS://ELSEWHERE.EXAMPLE/F",
    "https://[",
    "https://media.example:99999/f",
    "https://media.example:8443\\@elsewhere.example/",
    "https://med\u0131a.example/f",
    MARKER,
    "5s",
    "-5",
    "1e999",
    "9" * 40,
)
_TEXTS = st.sampled_from(ODD_TEXTS)

_NUMBERS = st.sampled_from(
    (0, -1, 1, 5, 4.5, 10**18, 10**40, -(10**4000), 1e308, float("nan"), float("inf"), 0.1)
)

_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS, st.text(max_size=8))

#: The names that golden answers have members by, in all of them together.
NAMES: tuple[str, ...]
#: And the short words that stand in them.
WORDS: tuple[str, ...]


def _words_of(value: Any, names: set[str], words: set[str]) -> None:
    if isinstance(value, dict):
        names.update(value)
        for part in value.values():
            _words_of(part, names, words)
    elif isinstance(value, list):
        for part in value:
            _words_of(part, names, words)
    elif isinstance(value, str) and 0 < len(value) < 40:
        words.add(value)


def _golden() -> tuple[list[Any], tuple[str, ...], tuple[str, ...]]:
    trees, names, words = [], set[str](), set[str]()
    for case in every_case():
        for exchange in case.exchanges:
            if "json" in exchange.response:
                trees.append(exchange.response["json"])
                _words_of(trees[-1], names, words)
    return trees, tuple(sorted(names)), tuple(sorted(words))


GOLDEN, NAMES, WORDS = _golden()

_VALUES = st.recursive(
    st.one_of(_LEAVES, st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=3)), inner, max_size=4),
    ),
    max_leaves=8,
)


@st.composite
def _out_of_joint(draw: st.DrawFn, tree: Any) -> Any:
    """A tree with one of its pieces, or two, replaced, left out or wrapped."""
    for _ in range(draw(st.integers(1, 2))):
        tree = _changed(draw, tree)
    return tree


def _changed(draw: st.DrawFn, tree: Any) -> Any:
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(tree)))
        if not draw(st.integers(0, 7)):
            return {other: part for other, part in tree.items() if other != name}
        return {**tree, name: _changed(draw, tree[name])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(tree) - 1))
        return [*tree[:place], _changed(draw, tree[place]), *tree[place + 1 :]]
    if not draw(st.integers(0, 4)):
        return [tree]
    return draw(_VALUES)


def out_of_joint(tree: Any) -> st.SearchStrategy[Any]:
    """Trees that differ from one by a piece or two."""
    return _out_of_joint(tree)


_TREES = st.one_of(_VALUES, st.sampled_from(GOLDEN), st.sampled_from(GOLDEN).flatmap(out_of_joint))

_BODIES = st.one_of(
    _TREES.map(lambda tree: json.dumps(tree).encode()),
    _TREES.map(lambda tree: json.dumps(tree).encode()),
    _TREES.map(lambda tree: json.dumps(tree).encode()),
    st.binary(max_size=40),
    st.sampled_from(
        (
            b"",
            b" ",
            b"{",
            b"[" * 3000,
            b'{"a":' * 70 + b"1" + b"}" * 70,
            b'{"status":' * 4000,
            b'{"a":[' + b"1," * 100_000 + b"1]}",
            b'{"a":"' + b"\\n" * 300_000 + b'"}',
            b'{"detail":"\xff\xfe"}',
            b'{"error":{"message":"\\ud83d"}}',
            b'{"status":"succeeded","status":"failed"}',
            b"<html>",
        )
    ),
)

_HEADERS = st.dictionaries(
    st.sampled_from(("retry-after", "date", "content-type", "x-fal-request-id")),
    st.sampled_from(
        (
            "",
            "1",
            "30",
            "99999999999999999999",
            "-1",
            "1.5",
            "Mon, 30 Nov 2026 12:00:10 GMT",
            "Mon, 30 Nov 2026 12:00:00 GMT",
            "Mon, 99 Nov 2026",
            "soon",
            "audio/mpeg",
            "text/html; charset=utf-8",
            "\u00e9",
        )
    ),
    max_size=3,
)

_FAULTS = st.sampled_from(
    (
        messages.CONNECT_ERROR,
        messages.CONNECTION_LOST,
        messages.TIMEOUT,
        messages.BAD_FRAMING,
        messages.TRUNCATED,
        messages.TOO_LARGE,
        messages.NOT_KEPT,
    )
)


@st.composite
def answers(draw: st.DrawFn, request: Request) -> Answer:
    """Any answer to a request, as who sends it would give it."""
    status = draw(st.sampled_from(_STATUSES + _MORE_STATUSES))
    headers = draw(_HEADERS)
    if not draw(st.integers(0, 7)):
        return Answer(status, headers, fault=draw(_FAULTS), detail=f"what broke: {CREDENTIAL}")
    if request.cap is Cap.OUTPUT and 200 <= status < 300:
        return Answer(status, headers, kept=kept_media(draw(st.binary(max_size=8))))
    body = draw(_BODIES)
    if request.cap is Cap.INLINE:
        prefix = draw(st.sampled_from(("", "data:image/png;base64,", "data:;,", "x" * 300)))
        return Answer(status, headers, body, media={MARKER: kept_media(b"\x89PNG", prefix)})
    return Answer(status, headers, body)


def inputs(like: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs of jobs, most of them nearly like one that is known."""
    return st.one_of(
        st.just(like),
        out_of_joint(like),
        st.dictionaries(
            st.one_of(st.sampled_from(sorted({*like, "duration"})), st.text()), _VALUES
        ),
    ).filter(lambda value: isinstance(value, dict) and _is_of_a_client(value))


def _is_of_a_client(value: Any) -> bool:
    """Whether a client could have sent it: it does not know the credential, and what reads
    requests lets no odd number or text in.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode().decode()
    except ValueError:
        return False
    return CREDENTIAL not in text

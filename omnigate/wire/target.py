"""The one canonical spelling of a request target: a plain path and a plain query.

What a request is gets decided from its path, and the path is passed on: with a
single spelling the two readings cannot differ. Percent-encoding is decoded in
one place only, the model id of ``/v1/models/{id}``, because SDKs encode ids.
"""

from __future__ import annotations

import re

import attrs

#: Longest path and longest query. Known paths are under 100 bytes; a signed file
#: URL has a query of about 150, and cursors of lists are shorter.
MAX_PATH_BYTES = 1024
MAX_QUERY_BYTES = 2048
#: Longest model id after decoding.
MAX_MODEL_ID = 256
_TOO_LONG = (
    f"The path may have at most {MAX_PATH_BYTES} bytes, and the query {MAX_QUERY_BYTES} more."
)

# Segments of unreserved characters and the few marks that ids use. Empty
# segments cannot match, and ``.`` and ``..`` are asked for separately.
_path = re.compile(rb"/|(?:/[A-Za-z0-9\-._~:@+=,]++)++").fullmatch
_dot_segment = re.compile(rb"/\.\.?(?:/|\Z)").search
# No percent, quote, backslash, angle bracket or ``#``: nothing that two readers
# decode differently.
_query = re.compile(rb"[A-Za-z0-9\-._~:@!$()*+,;=&/?]*+").fullmatch
_model_id = re.compile(rb"(?:[A-Za-z0-9\-._~:@+=,!$()*;&'/]|%[0-9A-Fa-f]{2})++").fullmatch
_encoded = re.compile(rb"%([0-9A-Fa-f]{2})")
_plain_id = re.compile(rb"[\x20-\x7e]++").fullmatch

_MODELS = b"/v1/models/"
#: What clients ask for when their base URL lacks ``/v1``.
_WITHOUT_V1 = re.compile(
    rb"/(?:chat/completions|completions|responses|embeddings|messages|messages/count_tokens"
    rb"|models|jobs|files)(?:/|\Z)"
).match


class TargetError(Exception):
    """A target that is refused.

    :param code: ``invalid_path`` (400) for a spelling that is not canonical,
        ``not_found`` (404) for a path that was clearly meant to be another.
    :param message: one sentence for the client.
    :param status: 414 for a target that is too long (RFC 9112, 3), else that of the code.
    """

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


@attrs.frozen
class Target:
    """A canonical target.

    ``path`` is as sent; for ``/v1/models/{id}`` it holds the decoded id, which
    is also ``model_id`` (and may hold slashes and blanks). ``query`` is what
    stood behind the question mark, never decoded.
    """

    path: str
    query: bytes
    model_id: str | None


# The targets of nearly every request, read once.
_KNOWN = {
    path + mark + query: Target(path.decode("ascii"), query, None)
    for path in (
        b"/v1/chat/completions",
        b"/v1/completions",
        b"/v1/responses",
        b"/v1/embeddings",
        b"/v1/messages",
        b"/v1/messages/count_tokens",
        b"/v1/models",
    )
    for mark, query in ((b"", b""), (b"?", b"beta=true"))
}


def parse_target(target: bytes) -> Target:
    """Read a request target in origin form.

    :raises TargetError: for any other spelling.
    """
    known = _KNOWN.get(target)
    if known is not None:
        return known
    path, _, query = target.partition(b"?")
    if len(path) > MAX_PATH_BYTES or len(query) > MAX_QUERY_BYTES:
        raise TargetError("invalid_path", _TOO_LONG, 414)
    if query and _query(query) is None:
        raise TargetError("invalid_path", "The query may hold plain, unencoded characters only.")
    if path.startswith(_MODELS) and len(path) > len(_MODELS):
        return _model_target(path[len(_MODELS) :], query)
    if _path(path) is None or _dot_segment(path) is not None:
        raise _why_refused(path)
    if path.startswith(b"/v1/v1/"):
        raise _not_here(path[3:])
    if not path.startswith(b"/v1/") and _WITHOUT_V1(path) is not None:
        raise _not_here(b"/v1" + path)
    return Target(path.decode("ascii"), query, None)


def _model_target(raw: bytes, query: bytes) -> Target:
    """Decode the id of ``/v1/models/{id}``, once."""
    if _model_id(raw) is None:
        raise TargetError("invalid_path", "The model id in the path is not spelled plainly.")
    model = raw
    if b"%" in raw:
        model = _encoded.sub(lambda match: bytes((int(match[1], 16),)), raw)
    if _plain_id(model) is None or len(model) > MAX_MODEL_ID:
        raise TargetError("invalid_path", "The model id in the path may hold plain ASCII only.")
    # A model id is looked up, never walked; it still shall not look like a way up.
    if b"//" in b"/" + model + b"/" or _dot_segment(b"/" + model) is not None:
        raise TargetError("invalid_path", "The model id in the path has an empty or dot segment.")
    text = model.decode("ascii")
    return Target("/v1/models/" + text, query, text)


def _why_refused(path: bytes) -> TargetError:
    """Name what is wrong with a path; off the hot path."""
    if path.startswith(b"//"):
        single = b"/" + path.lstrip(b"/")
        if _path(single) is not None and _dot_segment(single) is None:
            if _WITHOUT_V1(single) is not None:
                single = b"/v1" + single
            return _not_here(single)
    if b"%" in path:
        return TargetError("invalid_path", "The path must not be percent-encoded.")
    return TargetError(
        "invalid_path",
        "The path must be spelled plainly: no empty, dot or encoded segment, no trailing slash.",
    )


def _not_here(path: bytes) -> TargetError:
    """Tell a client whose base URL is a little off what it wanted."""
    return TargetError(
        "not_found", f"There is nothing at this path; did you mean {path.decode('ascii')}?"
    )

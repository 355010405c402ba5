"""The model endpoints of the public port: what each path speaks, and whether its tokens are billed.

These are the paths that start work at a provider. The model list, the jobs, the files and the
probes are answered by the planes themselves and have no place here.
"""

from collections.abc import Container

import attrs

OPENAI = "openai"
ANTHROPIC = "anthropic"


@attrs.frozen
class Endpoint:
    """One path a client may post a model request to.

    :ivar path: the canonical path on the public port.
    :ivar protocol: ``"openai"`` or ``"anthropic"``: the shape of bodies, streams and errors there.
    :ivar kind: the short name used in usage events, logs and metrics.
    :ivar metered: whether the provider bills tokens for it; what is not metered is not rate
        limited either.
    :ivar upstream_path: what follows the ``/v1`` in which an upstream's base address ends.
    """

    path: str
    protocol: str
    kind: str
    metered: bool
    upstream_path: bytes


def _endpoint(protocol: str, kind: str, upstream_path: str, *, metered: bool = True) -> Endpoint:
    sent = upstream_path.encode("ascii")
    return Endpoint("/v1" + upstream_path, protocol, kind, metered, sent)


ENDPOINTS: dict[str, Endpoint] = {
    endpoint.path: endpoint
    for endpoint in (
        _endpoint(OPENAI, "chat", "/chat/completions"),
        _endpoint(OPENAI, "completions", "/completions"),
        _endpoint(OPENAI, "responses", "/responses"),
        _endpoint(OPENAI, "embeddings", "/embeddings"),
        _endpoint(ANTHROPIC, "messages", "/messages"),
        _endpoint(ANTHROPIC, "count_tokens", "/messages/count_tokens", metered=False),
    )
}
"""Every model endpoint by its path."""


#: Headers that clients of one protocol alone send: its SDKs name the version, and who writes a
#: request by hand may send the key alone. A bearer token is what current SDKs of both send.
_ANTHROPIC_HEADERS = (b"anthropic-version", b"x-api-key")


def protocol_at(path: str, headers: Container[bytes]) -> str:
    """Tell in whose shape errors and lists are told at a path: its own, where it has one.

    :param path: as a client wrote it; it need not be a path that there is.
    :param headers: the names of the request's headers.
    """
    endpoint = ENDPOINTS.get(path)
    if endpoint is not None:
        return endpoint.protocol
    if any(name in headers for name in _ANTHROPIC_HEADERS):
        return ANTHROPIC
    # Near the beginning: a base address that is a little off puts something before it.
    meant = "/v1/messages" in path[:32] or path.startswith("/messages")
    return ANTHROPIC if meant else OPENAI

"""The official packages' clients, played a stream without a network."""

import sys
from types import ModuleType
from typing import Any


def playing(sdk: ModuleType, stream: bytes) -> Any:
    """Return an HTTP client for an official client, to which every request is answered so.

    :param sdk: ``openai`` or ``anthropic``; which HTTP package it is built on depends on its age.
    :param stream: the body of an event stream.
    """
    for base in sdk.DefaultHttpxClient.__mro__:
        package: Any = sys.modules[base.__module__.partition(".")[0]]
        if hasattr(package, "MockTransport"):
            break
    headers = {"content-type": "text/event-stream"}
    answer = package.MockTransport(lambda _: package.Response(200, headers=headers, content=stream))
    return package.Client(transport=answer)

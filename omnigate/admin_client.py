"""A small client of the admin API for the command line: one call at a time, blocking."""

import http.client
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from omnigate.settings import SettingsError, provider_key
from omnigate.text import REDACTED, one_line, without_controls

DEFAULT_URL = "http://127.0.0.1:8081"
# Of each wait for the control plane, which answers in milliseconds, or seconds on a loaded machine.
TIMEOUT_SECONDS = 30
# How many waits one answer may take in all: it may come slowly, but not for ever.
_WAITS = 10
# Ten thousand keys with their limits are a few megabytes.
MAX_ANSWER_BYTES = 64 * 1024 * 1024

_JSON = "application/json"
_KINDS = {_JSON: "JSON", "text/csv": "CSV", "text/plain": "plain text"}

# Amounts have some thirty digits; written out, one of a thousand million would fill the memory.
_MAX_EXPONENT = 100

# The escape of half a character, which alone stands for nothing that can be written.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

# Name and password of an address. Up to the last @, since a password may hold what it must not.
_USERINFO = re.compile(r"^(\w+://)?.*@", re.DOTALL)

# What to do about a refusal, by its code, where the control plane cannot know how it was asked.
_REMEDIES = {
    "address_not_allowed": "use another admin key, or call from an address that this one allows",
    "invalid_token": "give the right one in OMNIGATE_ADMIN_TOKEN or OMNIGATE_ADMIN_TOKEN_FILE",
    "not_found": "see with list which there are",
    "not_ready": "try again in a moment; omnigate doctor tells more",
    "storage_unavailable": "see to the control plane's disk; omnigate doctor tells more",
}

# Money goes out as it was given, to the last digit.
_encode = msgspec.json.Encoder(decimal_format="number").encode


class AdminError(Exception):
    """A call failed; the text says where and what to do about it."""


class AdminClient:
    """Calls one control plane with one admin token.

    :param url: where the control plane listens, such as ``http://127.0.0.1:8081``
    :param seconds: how long each wait for the control plane may take
    """

    def __init__(self, url: str, token: str, seconds: float = TIMEOUT_SECONDS) -> None:
        self._url = _judged(url)
        self._shown = shown_url(url)
        self._token = token
        self._seconds = seconds

    @property
    def address(self) -> str:
        """Where the control plane is, as it may be shown."""
        return self._shown

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Make one call and return the decoded JSON of its answer, None for an empty one.

        Numbers with a point come as :class:`decimal.Decimal`, since they are money.

        :raises AdminError: when the control plane is away, refuses, or answers no JSON
        """
        text = self._answer(method, path, body, _JSON)
        if not text:
            return None
        try:
            return _value(text)
        except (ValueError, RecursionError):
            raise self._foreign(_JSON) from None

    def text(self, method: str, path: str, body: object = None, *, accept: str = _JSON) -> str:
        """Make one call and return its answer as it came, but for control characters.

        :param accept: the media type that is asked for
        :raises AdminError: when the control plane is away, refuses, or answers something else
        """
        text = self._answer(method, path, body, accept)
        if not text:
            raise self._foreign(accept)
        return without_controls(text)

    def _answer(self, method: str, path: str, body: object, accept: str) -> str:
        """Make one call; the text of its answer, which may be empty."""
        answer, content = self._exchange(method, path, body, accept)
        text = content.decode("utf-8", "replace")
        # A control plane sends nobody elsewhere; what stands before it may.
        if not 200 <= answer.status < 300:
            raise AdminError(_refusal(answer.status, text))
        if text and answer.headers.get_content_type() != accept:
            raise self._foreign(accept)
        return text

    def _foreign(self, accept: str) -> AdminError:
        """The error for an answer that no control plane gives."""
        return AdminError(
            f"{self._shown} answered something else than {_KINDS.get(accept, accept)}; "
            "is OMNIGATE_CONTROL_URL the address of the control plane?"
        )

    def _exchange(
        self, method: str, path: str, body: object, accept: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request; the head and the whole content of the answer."""
        headers = {"authorization": f"Bearer {self._token}", "accept": accept}
        content = None
        if body is not None:
            try:
                content = _encode(body)
            except UnicodeEncodeError:
                raise AdminError("what was typed is no UTF-8; write it in UTF-8") from None
            headers["content-type"] = "application/json"
        try:
            connection = connection_to(self._url, self._seconds)
        except http.client.InvalidURL:
            raise _no_address(self._shown) from None
        try:
            connection.request(method, self._url.path.rstrip("/") + path, content, headers)
            with cut_off(connection, _WAITS * self._seconds):
                answer = connection.getresponse()
                data = answer.read(MAX_ANSWER_BYTES + 1)
            if answer.length and len(data) <= MAX_ANSWER_BYTES:
                # A read of so many bytes at most does not find that itself.
                raise http.client.IncompleteRead(data, answer.length)
        except (UnicodeError, http.client.InvalidURL):
            # A name or a path that cannot be written on the wire.
            raise _no_address(self._shown) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            # A ValueError is a chunk of less than no length.
            reason = one_line(getattr(error, "strerror", None) or str(error) or repr(error), 200)
            raise AdminError(
                f"cannot reach the control plane at {self._shown} ({reason}); "
                "is it running, and is OMNIGATE_CONTROL_URL right?"
            ) from None
        finally:
            connection.close()
        if len(data) > MAX_ANSWER_BYTES:
            raise AdminError(f"{self._shown} answered more than {MAX_ANSWER_BYTES} bytes")
        return answer, data


def connection_to(
    parts: SplitResult, seconds: float, context: ssl.SSLContext | None = None
) -> http.client.HTTPConnection:
    """Return a connection to the host of an address, which is not made yet.

    :param seconds: how long each wait for the other side may take.
    :param context: what a certificate is judged by; None for what is trusted here.
    :raises http.client.InvalidURL: the host cannot be written on the wire.
    """
    host, port = parts.hostname or "", parts.port
    # Always with a port: without one the end of an IPv6 address would be taken for it.
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port or 443, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, port or 80, timeout=seconds)


@contextmanager
def cut_off(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """End an answer that takes longer in all, though a byte comes now and then.

    :param connection: has sent its request.
    :raises TimeoutError: the time is over.
    """
    # Kept, since the connection gives it away to an answer that ends with it.
    stream = connection.sock
    late = threading.Event()

    def cut() -> None:
        late.set()
        with suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if late.is_set():
            # What was cut may look like a whole answer, or like any fault of the other side.
            raise TimeoutError(f"no whole answer within {seconds:g} seconds")


def client_from(environ: Mapping[str, str], seconds: float = TIMEOUT_SECONDS) -> AdminClient:
    """The client that ``OMNIGATE_CONTROL_URL`` and ``OMNIGATE_ADMIN_TOKEN`` (or its file) name.

    :param seconds: how long each wait for the control plane may take
    :raises AdminError: when there is no token, or it cannot be read
    """
    try:
        token = provider_key(environ, "OMNIGATE_ADMIN_TOKEN")
    except SettingsError as error:
        raise AdminError(str(error)) from None
    if token is None:
        raise AdminError(
            "OMNIGATE_ADMIN_TOKEN is not set; give it the control plane's admin token, "
            "or OMNIGATE_ADMIN_TOKEN_FILE the path of a file that holds it"
        )
    return AdminClient(environ.get("OMNIGATE_CONTROL_URL") or DEFAULT_URL, token, seconds)


def shown_url(url: str) -> str:
    """Return an address as a message may repeat it: one line, and no password in it."""
    return one_line(_USERINFO.sub(rf"\g<1>{REDACTED}@", url), 200)


def _value(text: str) -> Any:
    """What JSON says.

    :raises ValueError: it is none, or holds what no control plane says: a number that is none or
        beyond all amounts, a text that cannot be written.
    """
    value = json.loads(text, parse_float=_amount, parse_constant=_amount)
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except ArithmeticError:
        raise ValueError(text) from None
    if not amount.is_finite() or abs(amount.adjusted()) > _MAX_EXPONENT:
        raise ValueError(text)
    return amount


def _judged(url: str) -> SplitResult:
    """The parts of a usable address."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise _no_address(url)
    return parts


def _no_address(url: str) -> AdminError:
    return AdminError(
        f'OMNIGATE_CONTROL_URL: "{shown_url(url)}" is no address; write it like {DEFAULT_URL}'
    )


def _refusal(status: int, text: str) -> str:
    """What a refusal says: the problem document's detail where it is one."""
    try:
        problem = json.loads(text)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    said = problem.get("detail") or problem.get("title")
    name = problem["code"] if isinstance(problem.get("code"), str) else ""
    code, remedy = f" {name}" if name else "", _REMEDIES.get(name, "")
    if said is None:
        shown = one_line(text, 2000) or "no reason given"
        return f"{status}: {shown}; is OMNIGATE_CONTROL_URL the address of the control plane?"
    told = f"{status}{code}: {one_line(str(said), 2000)}"
    return f"{told}; {remedy}" if remedy else told

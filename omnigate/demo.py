"""The demonstration: both planes, fake providers, a streamed answer, a picture, and what they cost.

Everything runs on free loopback ports and in a temporary folder. The bill is checked: the fake
provider tells how many tokens it served, the demonstration multiplies them with the prices that it
wrote into the config itself, and the ledger must say the same to the last decimal. The picture is
made by a media job (:mod:`omnigate.demo_media`).
"""

import hashlib
import http.client
import importlib.util
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

from omnigate.admin_client import AdminClient, AdminError
from omnigate.demo_children import Child, ChildError, Children, free_ports, python_environ, twistd
from omnigate.demo_media import (
    MEDIA_ROUTE,
    PROMPT,
    DemoError,
    MediaPlace,
    Picture,
    media_config,
    media_environ,
    show_picture,
)
from omnigate.testing.provider_reply import WORDS
from omnigate.text import one_line

ROUTE = "demo"
ANTHROPIC_ROUTE = "demo-claude"
CACHED_TOKENS = 24
# About two seconds of words at a pace that can be watched.
TARGET = f"fake-paced-40-words-{len(WORDS)}-cached-{CACHED_TOKENS}"
QUESTION = "Why should every word that a model says be counted?"
# US dollars for a million tokens; written into the config, and multiplied again here.
PRICES = {"input": "0.15", "cached_input": "0.075", "cache_write": "0.15", "output": "0.60"}
# The ledger has the event after one flush, which is every 100 ms here.
LEDGER_SECONDS = 15.0
ANSWER_SECONDS = 60.0


@attrs.frozen
class Place:
    """The addresses and secrets of one demonstration."""

    data_port: int
    control_port: int
    provider_port: int
    key: str
    admin_token: str = attrs.field(repr=False)
    internal_token: str = attrs.field(repr=False)
    provider_key: str
    media: MediaPlace

    @property
    def data_url(self) -> str:
        """Where applications go."""
        return f"http://127.0.0.1:{self.data_port}"

    @property
    def control_url(self) -> str:
        """Where operators go."""
        return f"http://127.0.0.1:{self.control_port}"


@attrs.define
class Answer:
    """What the client got."""

    client: str
    request_id: str = ""
    text: str = ""
    pieces: int = 0


def run_demo(once: bool = False) -> int:
    """Run the demonstration and return its exit status: 0 when the bill was right.

    :param once: end after the answer instead of staying up until Ctrl-C
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="omnigate-demo-") as name, Children() as children:
            place = start(children, Path(name))
            right = show_answer(place)
            print(
                f"\nAsking {place.data_url}/v1/jobs for a picture, as a job of {MEDIA_ROUTE!r}:\n"
            )
            picture = Picture(place.media, place.data_port, place.key)
            right = show_picture(picture, Path(name), partial(ledger_event, place)) and right
            if once:
                return 0 if right else 1
            try:
                show_ways(place)
                wait_for_end(children)
            except KeyboardInterrupt:
                print("\nStopping.")
            return 0 if right else 1
    except (DemoError, ChildError, AdminError) as error:
        print(f"\nomnigate demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nomnigate demo: interrupted", file=sys.stderr)
        return 130


def start(children: Children, folder: Path) -> Place:
    """Start the provider and both planes, and wait until each is ready.

    :raises ChildError: when one of them does not come up
    """
    began = time.monotonic()
    print("Starting fake providers and both planes on loopback.", flush=True)
    provider_key = "sk-demo-" + secrets.token_hex(12)
    provider = children.add(
        Child(
            "fake-provider",
            [sys.executable, "-m", "omnigate.testing.provider", "--key", provider_key],
            python_environ({}),
            folder,
            read_output=True,
        )
    )
    media = children.add(
        Child(
            "fake-media",
            [sys.executable, "-m", "omnigate.testing.media.provider"],
            python_environ({}),
            folder,
            read_output=True,
        )
    )
    data_port, control_port = free_ports(2)
    place = Place(
        data_port=data_port,
        control_port=control_port,
        provider_port=int(provider.first_line()),
        key="demo-" + secrets.token_hex(16),
        admin_token=secrets.token_hex(24),
        internal_token=secrets.token_hex(24),
        provider_key=provider_key,
        media=MediaPlace(int(json.loads(media.first_line())["port"])),
    )
    (folder / "omnigate.toml").write_text(config_text(place), encoding="utf-8")
    for plane, port in (("control", place.control_port), ("data", place.data_port)):
        state = folder / plane
        state.mkdir()
        environ = python_environ(plane_environ(plane, place, folder))
        children.add(Child(plane, twistd(f"omnigate-{plane}"), environ, folder)).wait_ready(port)
    print(f"Both planes are up after {time.monotonic() - began:.1f} s.")
    return place


def config_text(place: Place) -> str:
    """The config of the demonstration."""
    price = ", ".join(f"{name} = {value}" for name, value in PRICES.items())
    digest = hashlib.sha256(place.key.encode()).hexdigest()
    parts = [
        f'[[keys]]\nname = "demo"\nkey_sha256 = "{digest}"\n'
        'webhook_secret_env = "DEMO_WEBHOOK_SECRET"',
        *media_config(place.media),
    ]
    for protocol, route in (("openai", ROUTE), ("anthropic", ANTHROPIC_ROUTE)):
        parts.append(
            f'[[upstreams]]\nname = "fake-{protocol}"\nprotocol = "{protocol}"\n'
            f'base_url = "http://127.0.0.1:{place.provider_port}/v1"\n'
            'api_key_env = "DEMO_PROVIDER_KEY"'
        )
        parts.append(
            f'[[routes]]\nmodel = "{route}"\n  [[routes.targets]]\n'
            f'  upstream = "fake-{protocol}"\n  model = "{TARGET}"\n  price = {{ {price} }}'
        )
    return "\n\n".join(parts) + "\n"


def plane_environ(plane: str, place: Place, folder: Path) -> dict[str, str]:
    """The settings of one plane; the admin token and the provider key each go to one only."""
    common = {
        "OMNIGATE_INTERNAL_TOKEN": place.internal_token,
        "OMNIGATE_STATE_DIR": str(folder / plane),
    }
    if plane == "control":
        return {
            **common,
            "OMNIGATE_CONTROL_LISTEN": f"tcp:{place.control_port}:interface=127.0.0.1",
            "OMNIGATE_DATA_URL": place.data_url,
            "OMNIGATE_CONFIG": str(folder / "omnigate.toml"),
            "OMNIGATE_ADMIN_TOKEN": place.admin_token,
            **media_environ(place.media),
        }
    return {
        **common,
        "OMNIGATE_DATA_LISTEN": f"tcp:{place.data_port}:interface=127.0.0.1",
        "OMNIGATE_CONTROL_URL": place.control_url,
        "OMNIGATE_POLL_MS": "200",
        "OMNIGATE_FLUSH_MS": "100",
        "OMNIGATE_SHUTDOWN_GRACE_MS": "2000",
        "DEMO_PROVIDER_KEY": place.provider_key,
    }


def show_answer(place: Place) -> bool:
    """Ask, print the words as they come, and judge the bill.

    :raises DemoError: when the answer or its event does not come
    """
    answer = ask(place)
    print(f"\n\nThat was {answer.pieces} words, streamed to {answer.client}.")
    event = ledger_event(place, answer.request_id)
    served = provider_tokens(place)
    tokens = {name: event.get(name) for name in served}
    expected = expected_usd(served)
    print("\nThe ledger has this usage event:")
    for name in ("id", "route_model", "upstream", "target_model", "status", *served, "cost_usd"):
        value = event.get(name)
        shown = f"{value:f}" if isinstance(value, Decimal) else one_line(str(value), 100)
        print(f"  {name:26}{shown}")
    cost = Decimal(str(event.get("cost_usd", "nan")))
    right = tokens == served and cost == expected and served["output_tokens"] == answer.pieces
    counts = " + ".join(
        f"{served[name]} x ${PRICES[kind]}"
        for name, kind in _PRICE_OF.items()
        if served[name] or kind in ("input", "output")
    )
    print(f"\nThe provider served {counts} a million tokens, which is ${expected:f}.")
    if right:
        print("The bill is right.")
    else:
        print(f"THE BILL IS WRONG: the ledger has {tokens} and ${cost}, the provider {served}.")
    return right


_PRICE_OF = {
    "input_tokens": "input",
    "cached_input_tokens": "cached_input",
    "cache_write_input_tokens": "cache_write",
    "output_tokens": "output",
}


def expected_usd(served: dict[str, int]) -> Decimal:
    """The price of some tokens in dollars, rounded half up to nine places as the ledger does."""
    million = 10**6
    total = sum(
        (
            Fraction(served[name]) * Fraction(PRICES[kind]) / million
            for name, kind in _PRICE_OF.items()
        ),
        Fraction(0),
    )
    nano = (total * 10**9 + Fraction(1, 2)).__floor__()
    return Decimal(nano) / Decimal(10**9)


def ask(place: Place) -> Answer:
    """Send one streamed chat completion, with the official package where it is installed."""
    print(f"\nAsking {place.data_url}/v1 for a streamed chat completion of {ROUTE!r}:\n")
    if importlib.util.find_spec("openai") is not None:
        return _ask_with_sdk(place)
    return _ask_by_hand(place)


def _ask_with_sdk(place: Place) -> Answer:
    """The way an application does it."""
    import openai

    # A proxy of the surroundings has no business on loopback.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    answer = Answer(f"the official openai package {openai.__version__}")
    try:
        with openai.OpenAI(
            base_url=f"{place.data_url}/v1", api_key=place.key, timeout=ANSWER_SECONDS
        ) as client:
            raw = client.chat.completions.with_raw_response.create(
                model=ROUTE, messages=[{"role": "user", "content": QUESTION}], stream=True
            )
            answer.request_id = raw.headers.get("x-omnigate-request-id") or ""
            for chunk in raw.parse():
                for choice in chunk.choices:
                    _take(answer, choice.delta.content)
    except openai.OpenAIError as error:
        raise DemoError(f"the request failed: {error}") from None
    return answer


def _ask_by_hand(place: Place) -> Answer:
    """The same with the standard library alone."""
    answer = Answer("Python's http.client (the openai package is not installed)")
    connection = http.client.HTTPConnection("127.0.0.1", place.data_port, timeout=ANSWER_SECONDS)
    body = {"model": ROUTE, "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    headers = {"authorization": f"Bearer {place.key}", "content-type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        answer.request_id = response.getheader("x-omnigate-request-id", "")
        if response.status != 200:
            said = response.read(2000).decode("utf-8", "replace")
            raise DemoError(f"the request failed: {response.status} {one_line(said, 500)}")
        for chunk in _events(response):
            for choice in chunk["choices"]:
                _take(answer, choice["delta"].get("content"))
    except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
        raise DemoError(f"the request failed: {error!r}") from None
    finally:
        connection.close()
    return answer


def _events(response: http.client.HTTPResponse) -> Iterator[Any]:
    """The JSON of each event of a chat stream."""
    for line in response:
        data = line.strip().removeprefix(b"data: ")
        if data == b"[DONE]":
            return
        if data != line.strip():
            yield json.loads(data)
    raise DemoError("the stream ended before its [DONE]")


def _take(answer: Answer, piece: str | None) -> None:
    """Count a piece of the answer and show it at once."""
    if piece:
        answer.pieces += 1
        answer.text += piece
        print(piece, end="", flush=True)


def ledger_event(place: Place, request_id: str) -> dict[str, Any]:
    """The usage event of a request, as the admin API tells it; waits until it is recorded.

    :raises DemoError: when it does not come
    """
    client = AdminClient(place.control_url, place.admin_token)
    end = time.monotonic() + LEDGER_SECONDS
    while time.monotonic() < end:
        answer = client.call("GET", "/admin/requests")
        events: list[dict[str, Any]] = answer.get("requests", [])
        found = [event for event in events if event.get("id") == request_id]
        if len(found) > 1:
            raise DemoError(f"the ledger has request {request_id} {len(found)} times")
        if found:
            return found[0]
        time.sleep(0.05)
    raise DemoError(f"the ledger did not have request {request_id} after {LEDGER_SECONDS:.0f} s")


def provider_tokens(place: Place) -> dict[str, int]:
    """What the fake provider says it served; it saw no other request of this model."""
    connection = http.client.HTTPConnection("127.0.0.1", place.provider_port, timeout=10)
    try:
        connection.request("GET", "/__stats")
        stats = json.loads(connection.getresponse().read())
        row = stats["models"][TARGET]
        return {name: int(row[name]) for name in _PRICE_OF}
    except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
        raise DemoError(f"the fake provider does not tell what it served: {error!r}") from None
    finally:
        connection.close()


def show_ways(place: Place) -> None:
    """Addresses, how to sign in, a key, and lines to paste."""
    auth = f"-H 'authorization: Bearer {place.key}'"
    kind = "-H 'content-type: application/json'"
    message = '"messages": [{"role": "user", "content": "Hello"}], "stream": true'
    chat = f'{{"model": "{ROUTE}", {message}}}'
    turn = f'{{"model": "{ANTHROPIC_ROUTE}", "max_tokens": 100, {message}}}'
    job = json.dumps({"model": MEDIA_ROUTE, "input": {"prompt": PROMPT}})
    admin = f"-H 'authorization: Bearer {place.admin_token}'"
    print(
        f"""
  applications   {place.data_url}/v1
  dashboard      {place.control_url}/
  sign in with   {place.admin_token}
  admin API      {place.control_url}/admin/
  gateway key    {place.key}

Lines to paste, for OpenAI style, Anthropic style, a picture, all jobs, and the bill:

curl -sN {place.data_url}/v1/chat/completions {auth} {kind} -d '{chat}'

curl -sN {place.data_url}/v1/messages {auth} {kind} -d '{turn}'

curl -s {place.data_url}/v1/jobs {auth} {kind} -d '{job}'

curl -s {place.data_url}/v1/jobs {auth}

curl -s '{place.control_url}/admin/usage?by=model' {admin}

Ctrl-C ends the demonstration and removes its folder."""
    )


def wait_for_end(children: Children) -> None:
    """Stay until Ctrl-C, which is a KeyboardInterrupt.

    :raises ChildError: when a child ends before that
    """
    while True:
        ended = children.ended()
        if ended is not None:
            raise ended.failure("ended")
        time.sleep(0.2)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demonstration the way Ctrl-C does."""
    raise KeyboardInterrupt

"""The second half of the demonstration: a picture made by a media job, told of, fetched and paid.

The fake provider draws it after two polls, and is the receiver of the webhook too, whose signature
it checks as any receiver would. What the job costs is reckoned here from the prices of the config,
and the ledger must say the same.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import attrs

from omnigate.text import one_line

MEDIA_ROUTE: Final = "demo-picture"
MEDIA_MODEL: Final = "acme/sunset"
PROMPT: Final = "A sunset over hills, for whoever counts every word."
# US dollars; written into the config, and added up again here.
MEDIA_PRICES: Final = {"per_job": "0.002", "per_output": "0.01"}
# The fake takes no other key.
MEDIA_KEY: Final = "test-replicate"
HOOK: Final = "/hook/demo"

#: The picture takes a second or so; a loaded machine more.
JOB_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


class DemoError(Exception):
    """The demonstration did not come to its end; the text says why."""


@attrs.frozen
class MediaPlace:
    """Where media is made, and told of.

    :ivar port: of the fake's APIs and of the receiver of webhooks.
    :ivar hook_secret: what webhooks are signed with.
    """

    port: int
    hook_secret: str = attrs.field(
        repr=False,
        factory=lambda: "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    )

    @property
    def hook_url(self) -> str:
        """Where the end of a job is told."""
        return f"http://127.0.0.1:{self.port}{HOOK}"


def media_config(place: MediaPlace) -> list[str]:
    """The tables of the config that are about media."""
    price = ", ".join(f"{name} = {value}" for name, value in MEDIA_PRICES.items())
    return [
        # Pictures and webhooks may lie at public addresses alone, unless a network is opened.
        '[outbound]\nallow = ["127.0.0.1/32"]',
        "[media]\npoll_interval_ms = 400",
        "[media.webhooks]\nallow_http = true",
        f'[[media.routes]]\nmodel = "{MEDIA_ROUTE}"\n  [[media.routes.targets]]\n'
        f'  adapter = "replicate"\n  base_url = "http://127.0.0.1:{place.port}/replicate"\n'
        f'  model = "{MEDIA_MODEL}"\n  api_key_env = "DEMO_MEDIA_KEY"\n  price = {{ {price} }}',
    ]


def media_environ(place: MediaPlace) -> dict[str, str]:
    """What the control plane is told of secrets of media."""
    return {"DEMO_MEDIA_KEY": MEDIA_KEY, "DEMO_WEBHOOK_SECRET": place.hook_secret}


def expected_usd(outputs: int) -> Decimal:
    """The price of a job with so many outputs."""
    return Decimal(MEDIA_PRICES["per_job"]) + outputs * Decimal(MEDIA_PRICES["per_output"])


class Picture:
    """A job from its making to its file.

    :param data_port: of the public port.
    :param key: the gateway key.
    """

    def __init__(self, place: MediaPlace, data_port: int, key: str) -> None:
        self._place = place
        self._data_port = data_port
        self._key = key
        self.job: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """The job's."""
        return str(self.job["id"])

    def make(self) -> None:
        """Ask for it, twice with one idempotency key, and wait for its end.

        :raises DemoError: it does not come, or is a failure.
        """
        call(self._place.port, "POST", f"/_{HOOK}", {"secret": self._place.hook_secret})
        body = {
            "model": MEDIA_ROUTE,
            "input": {"prompt": PROMPT},
            "webhook_url": self._place.hook_url,
        }
        began = time.monotonic()
        ids = [
            self._ask("POST", "/v1/jobs", body, {"idempotency-key": "demo-1"})["id"]
            for _ in range(2)
        ]
        if ids[0] != ids[1]:
            raise DemoError(f"one idempotency key made two jobs: {ids[0]} and {ids[1]}")
        print(f"  {ids[0]}, which a second request with the same Idempotency-Key got too")
        seen: list[str] = []
        while time.monotonic() - began < JOB_SECONDS:
            self.job = self._ask("GET", f"/v1/jobs/{ids[0]}")
            status = str(self.job["status"])
            if status not in seen:
                seen.append(status)
                print(f"  {time.monotonic() - began:5.1f} s  {status}", flush=True)
            if status in ("failed", "canceled"):
                raise DemoError(f"the job {status}: {self.job['error']}")
            if status == "succeeded":
                return
            time.sleep(_POLL_SECONDS)
        raise DemoError(f"the job had not ended after {JOB_SECONDS:.0f} s")

    def webhook(self) -> str:
        """What was told at the job's end; waits for it.

        :raises DemoError: nothing comes, or nothing that is right.
        """
        end = time.monotonic() + JOB_SECONDS
        while time.monotonic() < end:
            for delivery in call(self._place.port, "GET", "/_/hooks"):
                if delivery["id"] != f"msg_{self.id}":
                    continue
                if delivery["fault"]:
                    raise DemoError(f"the webhook was refused: {delivery['fault']}")
                return str(delivery["body"]["type"])
            time.sleep(_POLL_SECONDS)
        raise DemoError(f"no webhook came within {JOB_SECONDS:.0f} s")

    def fetch(self, path: Path) -> tuple[int, int]:
        """Fetch the picture by its signed URL, without a key, and save it.

        :return: its width and height.
        :raises DemoError: it is not what the job says.
        """
        (output,) = self.job["outputs"]
        data = request(self._data_port, "GET", output["signed_url"])
        if hashlib.sha256(data).hexdigest() != output["sha256"]:
            raise DemoError("the picture is not the one whose hash the job tells")
        if data[:8] != b"\x89PNG\r\n\x1a\n":
            raise DemoError(f"the picture is no PNG: {data[:16]!r}")
        path.write_bytes(data)
        width, height = struct.unpack(">II", data[16:24])
        return width, height

    def submits(self) -> int:
        """How often the provider was asked for it."""
        works = call(self._place.port, "GET", "/_/jobs")["works"]
        return sum(work["input"].get("prompt") == PROMPT for work in works)

    def _ask(
        self, method: str, path: str, body: object = None, more: Mapping[str, str] | None = None
    ) -> Any:
        headers = {"authorization": f"Bearer {self._key}", **(more or {})}
        return call(self._data_port, method, path, body, headers)


def show_picture(
    picture: Picture, folder: Path, event_of: Callable[[str], Mapping[str, Any]]
) -> bool:
    """Have a picture made, save it, and judge the bill.

    :param event_of: returns what the ledger has of a job.
    :raises DemoError: when the picture, its webhook or its event does not come.
    """
    picture.make()
    told = picture.webhook()
    path = folder / f"{MEDIA_ROUTE}.png"
    width, height = picture.fetch(path)
    print(f"\nThe webhook came: {told}, and its signature is right.")
    print(
        f"The picture, {width} x {height}, was fetched by its signed URL without a key:\n  {path}"
    )
    submits, expected = picture.submits(), expected_usd(1)
    cost = Decimal(str(event_of(picture.id).get("cost_usd", "nan")))
    print(
        f"The provider was asked {'once' if submits == 1 else f'{submits} times'}; a job and its "
        f"output cost {' + '.join(f'${price}' for price in MEDIA_PRICES.values())}, "
        f"and the ledger has ${cost:f}."
    )
    right = cost == expected and submits == 1
    print("The bill is right." if right else f"THE BILL IS WRONG: it should be ${expected}.")
    return right


def call(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Send JSON and return what is answered; see :func:`request`."""
    return json.loads(request(port, method, path, body, headers))


def request(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Send a request to a port of loopback, and return the body of the answer.

    :raises DemoError: it is not answered, or with a refusal.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=JOB_SECONDS)
    text = None if body is None else json.dumps(body)
    lines = {**(headers or {}), **({} if text is None else {"content-type": "application/json"})}
    try:
        connection.request(method, path, text, lines)
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise DemoError(f"{method} {path} failed: {error!r}") from None
    finally:
        connection.close()
    if answer.status >= 300:
        said = one_line(data[:2000].decode("utf-8", "replace"), 500)
        raise DemoError(f"{method} {path} failed: {answer.status} {said}")
    return data

"""Both planes and the fake media providers on loopback, for :mod:`bench.jobs`."""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from bench.place import Program
from bench.watched_turns import FIGURES, PROGRAM
from omnigate.demo_children import Children, free_ports, python_environ, twistd

HOOK_SECRET: Final = "whsec_" + base64.b64encode(b"secret-of-the-benchmark-").decode()


@attrs.frozen
class Options:
    """What is asked for.

    :ivar running: how many may run at the provider at once.
    :ivar poll_ms: milliseconds between two polls of a job.
    :ivar keep: where the figures go, too.
    """

    jobs: int = 1_000
    keys: int = 20
    running: int = 64
    poll_ms: int = 100
    keep: Path | None = None


@attrs.frozen
class Place:
    """Where all of it runs."""

    folder: Path
    data_port: int
    control_port: int
    port: int
    file_port: int
    keys: tuple[str, ...]
    admin_token: str


def start(options: Options, children: Children, folder: Path) -> tuple[Place, Program, Program]:
    """Start the provider and both planes; returns the place, the control and the data plane."""
    data_port, control_port, port, file_port = free_ports(4)
    keys = tuple(f"key-{secrets.token_hex(16)}" for _ in range(options.keys))
    place = Place(folder, data_port, control_port, port, file_port, keys, secrets.token_hex(16))
    (folder / "omnigate.toml").write_text("\n".join(config(options, place)), encoding="utf-8")
    fake = [sys.executable, "-m", "omnigate.testing.media.provider"]
    ports = ["--port", str(port), "--file-port", str(file_port)]
    children.add(Program("provider", [*fake, *ports], python_environ({}), folder)).wait_ready(
        port, "/_/jobs"
    )
    token = secrets.token_hex(16)
    watched = twistd("omnigate-control")
    watched[2] = PROGRAM
    control = Program(
        "control",
        watched,
        python_environ(
            {
                "OMNIGATE_INTERNAL_TOKEN": token,
                "OMNIGATE_ADMIN_TOKEN": place.admin_token,
                "OMNIGATE_CONFIG": str(folder / "omnigate.toml"),
                "OMNIGATE_STATE_DIR": str(folder / "control"),
                "OMNIGATE_CONTROL_LISTEN": f"tcp:{control_port}:interface=127.0.0.1",
                "MEDIA_KEY": "test-replicate",
                "HOOK_SECRET": HOOK_SECRET,
                FIGURES: str(folder / "figures.json"),
            }
        ),
        folder,
    )
    children.add(control).wait_ready(control_port)
    data = Program(
        "data",
        twistd("omnigate-data"),
        python_environ(
            {
                "OMNIGATE_INTERNAL_TOKEN": token,
                "OMNIGATE_STATE_DIR": str(folder / "data"),
                "OMNIGATE_DATA_LISTEN": f"tcp:{data_port}:interface=127.0.0.1",
                "OMNIGATE_CONTROL_URL": f"http://127.0.0.1:{control_port}",
            }
        ),
        folder,
    )
    children.add(data).wait_ready(data_port)
    return place, control, data


def config(options: Options, place: Place) -> Iterator[str]:
    """Yield the tables of the config."""
    yield '[outbound]\nallow = ["127.0.0.0/8"]\n[media]'
    yield f"poll_interval_ms = {options.poll_ms}"
    yield f"max_running_per_provider = {options.running}"
    yield "[media.webhooks]\nallow_http = true"
    for number, key in enumerate(place.keys):
        digest = hashlib.sha256(key.encode()).hexdigest()
        yield f'[[keys]]\nname = "key-{number}"\nkey_sha256 = "{digest}"'
        yield 'webhook_secret_env = "HOOK_SECRET"'
    yield '[[media.routes]]\nmodel = "picture"\n[[media.routes.targets]]'
    yield 'adapter = "replicate"\nmodel = "acme/flux"\napi_key_env = "MEDIA_KEY"'
    yield f'base_url = "http://127.0.0.1:{place.port}/replicate"\nprice = {{ per_job = 0.01 }}'

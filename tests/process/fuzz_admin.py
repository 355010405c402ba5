"""Has schemathesis ask the admin API of a real control plane whatever its OpenAPI document allows.

And what it does not allow. No answer may be a server error, or other than the document says, and
what the document refuses must be refused. ``python -m tests.process.fuzz_admin 200`` asks 200
examples of each call; a seed may follow.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile

from tests.process.daemons import (
    ADMIN_TOKEN,
    Gateway,
    key_table,
    route_table,
    upstream_table,
)

#: What is not checked. Wrong credentials are ``tests.process.test_credentials``' to try: twenty of
#: them end the run with a lock-out. And a schema cannot say all that a body must be: that a budget
#: is there for a period, that a network has no bits behind its prefix.
LEFT_OUT = ("ignored_auth", "positive_data_acceptance")

#: What a run of a thousand examples takes at most.
SECONDS = 3600


def config(provider_port: int) -> str:
    """One key and one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


def is_installed() -> bool:
    """Whether schemathesis is there."""
    return importlib.util.find_spec("schemathesis") is not None


def fuzz(gateway: Gateway, examples: int, seed: int) -> tuple[int, str]:
    """Ask a control plane that is up.

    :param examples: how many of each call.
    :return: 0 where nothing was found, and what schemathesis printed.
    """
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        f"http://127.0.0.1:{gateway.control_port}/admin/openapi.json",
        *("--header", f"Authorization: Bearer {ADMIN_TOKEN}"),
        *("--max-examples", str(examples), "--seed", str(seed)),
        *("--exclude-checks", ",".join(LEFT_OUT)),
        *("--no-color", "--output-sanitize", "true"),
    ]
    with tempfile.TemporaryDirectory(prefix="omnigate-fuzz-") as folder:
        run = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    return run.returncode, run.stdout.decode("utf-8", "replace")


def main(words: list[str]) -> int:
    """Start a control plane, ask it, and print what came out."""
    if not is_installed():
        print("schemathesis is not here; install it with: pip install -e '.[fuzz]'")
        return 1
    examples = int(words[0]) if words else 200
    seed = int(words[1]) if len(words) > 1 else 1
    gateway = Gateway(config)
    try:
        gateway.start_control()
        status, told = fuzz(gateway, examples, seed)
    finally:
        gateway.stop()
    print(told)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

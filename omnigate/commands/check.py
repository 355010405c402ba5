"""``omnigate check``: every fault of a config file, without asking a daemon."""

import argparse
import sys
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

from omnigate.commands.arguments import CommandError, add_examples, counted
from omnigate.config.agreement import caps_of_other_protocol, models_of_no_route
from omnigate.config.schema import MAX_CONFIG_BYTES, ConfigError, load_config

# Notes on one config that ``check`` prints; to look for what was meant takes milliseconds each.
_MAX_NOTES = 20


def add_check(commands: Any) -> None:
    """Add the command to the command line."""
    check = commands.add_parser(
        "check",
        help="tell every fault of a config file; status 1 if there is one",
        description="Read a config file as the control plane would and tell every fault, each with "
        "its place; status 1 if there is one. What is no fault but may be a slip, a model of a key "
        "that no route has, is noted. No daemon is asked, and no variable is looked up.",
    )
    check.add_argument("config", metavar="CONFIG", help="the TOML file, such as etc/omnigate.toml")
    add_examples(check, "  omnigate check /etc/omnigate/omnigate.toml\n")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate check``."""
    try:
        with open(options.config, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{options.config}: {error.strerror}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise CommandError(f"{options.config}: more than {MAX_CONFIG_BYTES} bytes")
    try:
        config = load_config(data.decode())
    except UnicodeDecodeError as error:
        raise CommandError(f"{options.config}: not UTF-8 at byte {error.start}") from None
    except ConfigError as error:
        for fault in error.faults:
            print(f"{options.config}: {fault}", file=sys.stderr)
        print(f"omnigate: {counted(len(error.faults), 'fault')}", file=sys.stderr)
        return 1
    counts = [
        counted(len(found), what)
        for found, what in (
            (config.keys, "key"),
            (config.upstreams, "upstream"),
            (config.routes, "route"),
        )
    ]
    print(f"{options.config}: good, with {counts[0]}, {counts[1]} and {counts[2]}")
    notes = chain(models_of_no_route(config), caps_of_other_protocol(config))
    for note in islice(notes, _MAX_NOTES):
        print(f"{options.config}: note: {note}", file=sys.stderr)
    return 0

"""``omnigate check``: every fault of a config file, without asking a daemon."""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

from omnigate.commands.arguments import CommandError, add_examples, counted
from omnigate.config.agreement import caps_of_other_protocol, models_of_no_route
from omnigate.config.credentials import media_variables
from omnigate.config.json_schema import config_schema
from omnigate.config.places import Places
from omnigate.config.prices import price_for
from omnigate.config.schema import MAX_CONFIG_BYTES, Config, ConfigError, load_config
from omnigate.config.structure import Fault
from omnigate.config.values import quoted
from omnigate.settings import SettingsError, provider_key
from omnigate.text import one_line

# Notes of one kind that ``check`` prints; to look for what was meant takes milliseconds each.
_MAX_NOTES = 20
# The longest path that Linux takes.
_PATH_CHARS = 4096

_EXAMPLES = """\
  omnigate check /etc/omnigate/omnigate.toml
  omnigate check --format json omnigate.toml | jq '.faults[].line'
  omnigate check --schema > omnigate.schema.json   for editors that know JSON Schema
"""

#: What the TOML reader says of a place.
_SYNTAX = re.compile(r"(?:at )?line (\d+)")


@attrs.frozen
class Finding:
    """One fault or note, with the line it stands on where that can be told."""

    fault: Fault
    line: int | None

    def words(self, file: str, kind: str = "") -> str:
        """Return it as compilers do: file, line, what it is."""
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {kind}{self.fault}"

    def row(self) -> dict[str, Any]:
        """Return it for a program."""
        return {
            "line": self.line,
            "path": self.fault.path,
            "row": self.fault.row,
            "message": self.fault.message,
        }


def add_check(commands: Any) -> None:
    """Add the command to the command line."""
    check = commands.add_parser(
        "check",
        help="tell every fault of a config file; status 1 if there is one",
        description="Read a config file as the control plane would and tell every fault, each with "
        "its line and its place. What is no fault but may be a slip is noted: a model of a key "
        "that no route has, a key that has expired, a route whose model has no known price, a "
        "model that its media provider cannot be asked for, and variables that are not set in "
        "this environment. No daemon is asked. The exit status is 0 for a good file, 1 for one "
        "with faults, 2 where the file cannot be read.",
    )
    check.add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        help="the TOML file, such as etc/omnigate.toml",
    )
    check.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text (default) for people and editors, json for programs",
    )
    check.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON Schema of config files, and read none",
    )
    add_examples(check, _EXAMPLES)
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate check``."""
    if options.schema:
        if options.config is not None:
            raise CommandError("--schema reads no file; leave CONFIG out", 2)
        print(schema_text(), end="")
        return 0
    if options.config is None:
        raise CommandError("name the file to check, such as /etc/omnigate/omnigate.toml", 2)
    text = _read(options.config)
    faults: Sequence[Fault] = ()
    notes: list[Fault] = []
    config = Config()
    try:
        config = load_config(text)
        notes = list(_notes(config, environ))
    except ConfigError as error:
        faults = error.faults
    found, noted = _placed(text, faults), _placed(text, notes)
    if options.format == "json":
        _print_json(options.config, config, found, noted)
    else:
        _print_text(one_line(options.config, _PATH_CHARS), config, found, noted)
    return 1 if found else 0


def schema_text() -> str:
    """Return the JSON Schema of config files as it is shipped."""
    return json.dumps(config_schema(), indent=2) + "\n"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", 2) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise CommandError(f"{path}: more than {MAX_CONFIG_BYTES} bytes", 2)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not UTF-8 at byte {error.start}", 2) from None


def _placed(text: str, faults: Sequence[Fault]) -> list[Finding]:
    """Return faults with their lines."""
    places: Places | None = None
    found = []
    for fault in faults:
        syntax = _SYNTAX.match(fault.path)
        if syntax:
            line: int | None = int(syntax[1])
        else:
            # Not for a fault of syntax, which tells its line: such a text may take long to walk.
            places = places or Places(text.removeprefix("\ufeff"))
            line = places.line_of(fault.path)
        found.append(Finding(fault, line))
    return found


def _print_text(
    path: str, config: Config, faults: Sequence[Finding], notes: Sequence[Finding]
) -> None:
    for finding in faults:
        print(finding.words(path), file=sys.stderr)
    if faults:
        print(f"omnigate: {counted(len(faults), 'fault')}", file=sys.stderr)
        return
    counts = [
        counted(count, what.removesuffix("s").replace("_", " "))
        for what, count in _counts(config).items()
        if count or what != "media_routes"
    ]
    print(f"{path}: good, with {', '.join(counts[:-1])} and {counts[-1]}")
    for finding in notes:
        print(finding.words(path, "note: "), file=sys.stderr)


def _print_json(
    path: str, config: Config, faults: Sequence[Finding], notes: Sequence[Finding]
) -> None:
    document: dict[str, Any] = {"file": path, "good": not faults}
    if not faults:
        document |= _counts(config)
    document["faults"] = [finding.row() for finding in faults]
    document["notes"] = [finding.row() for finding in notes]
    print(json.dumps(document, indent=2))


def _counts(config: Config) -> dict[str, int]:
    return {
        "keys": len(config.keys),
        "upstreams": len(config.upstreams),
        "routes": len(config.routes),
        "media_routes": len(config.media.routes),
    }


def _notes(config: Config, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Yield what is no fault but may be a slip, of each kind the first few."""
    for kind in (
        models_of_no_route(config),
        caps_of_other_protocol(config),
        _expired(config, int(time.time() * 1000)),
        _unpriced(config),
        _unusable(config),
        _lacking(config),
        _unset(config, environ),
    ):
        yield from islice(kind, _MAX_NOTES)


def _expired(config: Config, now_ms: int) -> Iterator[Fault]:
    for index, key in enumerate(config.keys):
        if 0 < key.expires_ms <= now_ms:
            message = f"the key expired at {key.expires_at} and opens nothing"
            yield Fault(f"keys[{index}].expires_at", message, quoted(key.name))


def _unpriced(config: Config) -> Iterator[Fault]:
    for number, route in enumerate(config.routes):
        for place, target in enumerate(route.targets):
            if price_for(config, route.model, target.upstream, target.model) is None:
                message = (
                    f"no price is known of {quoted(target.model)}, so its usage costs nothing and "
                    "counts for no budget; give it a price"
                )
                yield Fault(f"routes[{number}].targets[{place}]", message, quoted(route.model))
    for number, media in enumerate(config.media.routes):
        for place, job in enumerate(media.targets):
            if job.price is None:
                message = "has no price, so its jobs cost nothing and count for no budget"
                path = f"media.routes[{number}].targets[{place}]"
                yield Fault(path, message, quoted(media.model))


def _unusable(config: Config) -> Iterator[Fault]:
    """Find models that no job could be sent to: each would be refused to the client who asks."""
    if not config.media.routes:
        return
    # Every command of ``omnigate`` would wait for these.
    from omnigate.jobs.adapters.base import InputFault
    from omnigate.jobs.adapters.registry import ADAPTERS

    for number, media in enumerate(config.media.routes):
        for place, target in enumerate(media.targets):
            try:
                ADAPTERS[target.adapter].check(target.model, {})
            except InputFault as fault:
                if not fault.field:  # else it is the input that is at fault, and there is none
                    path = f"media.routes[{number}].targets[{place}].model"
                    yield Fault(path, fault.message, quoted(media.model))


def _lacking(config: Config) -> Iterator[Fault]:
    """Find what this installation has no modules for; the control plane's may have them."""
    # Every command of ``omnigate`` would wait for these.
    from omnigate.control.config_reading import extra_faults

    for fault in extra_faults(config):
        yield attrs.evolve(
            fault, message=f"{fault.message}; run from here, the control plane refuses this config"
        )


def _unset(config: Config, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Find variables that daemons started from here would lack; theirs may have them."""
    named = [
        (f"keys[{index}].key_env", key.name, key.key_env, "control plane")
        for index, key in enumerate(config.keys)
    ]
    named += [
        (f"upstreams[{index}].api_key_env", upstream.name, upstream.api_key_env, "data plane")
        for index, upstream in enumerate(config.upstreams)
    ]
    named += [
        (f"keys[{index}].webhook_secret_env", key.name, key.webhook_secret_env, "control plane")
        for index, key in enumerate(config.keys)
    ]
    named += [(path, row, name, "control plane") for path, row, name in media_variables(config)]
    for path, row, name, plane in named:
        try:
            if name is not None and provider_key(environ, name) is None:
                message = f"{name} is not set in this environment; the {plane} needs it in its own"
                yield Fault(path, message, quoted(row) if row else "")
        except SettingsError as error:
            yield Fault(path, "; ".join(error.faults), quoted(row) if row else "")

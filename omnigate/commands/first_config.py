"""What ``omnigate init`` writes: a config file and two environment files, as text.

Lines of environment files are read alike by a shell and by systemd: a value that either would take
for more than itself stands in single quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from omnigate.commands.providers import FAST, SMART, Found

# A shell takes a value that begins with = for a command (zsh).
_PLAIN = re.compile(r"(?!=)[A-Za-z0-9_./:@%+=,-]*", re.ASCII)

_CONFIG_HEAD = """\
# omnigate's config: who may call, and where calls go. Written by `omnigate init`.
#
# The control plane reads it again when it changes; a file with a fault never replaces the config in
# force. `omnigate check FILE` tells every fault. Each key is told in docs/configuration.md.

# ---- Keys ---------------------------------------------------------------------------------------
# More keys are made with `omnigate keys create NAME`, which needs no change here.

[[keys]]
name = "app"
key_sha256 = "{key_sha256}"
# rpm = 600                # requests a minute
# budget_usd = 50          # what it may spend
# budget_period = "monthly"
"""

_UPSTREAMS_HEAD = """
# ---- Upstreams ----------------------------------------------------------------------------------
# Credentials stand in the environment of the data plane, under the names that api_key_env gives.
"""

_ROUTES_HEAD = """
# ---- Routes -------------------------------------------------------------------------------------
# `model` is what clients write. Of several targets the first that answers has it. Prices are those
# of the built-in table of list prices, unless a target has a `price` of its own.
"""

_NO_UPSTREAM = """
# No credential of a provider of text was found, so no text is routed yet. Take the marks away, and
# give the data plane OPENAI_API_KEY in its environment:

# [[upstreams]]
# name = "openai"
# protocol = "openai"        # or "anthropic", with https://api.anthropic.com/v1
# base_url = "https://api.openai.com/v1"
# api_key_env = "OPENAI_API_KEY"

# [[routes]]
# model = "fast"
#   [[routes.targets]]
#   upstream = "openai"
#   model = "gpt-6-luna"
"""

_ENV_HEAD = """\
# The environment of the {plane} plane, written by `omnigate init`. It holds secrets: mode 0600.
# Every setting is told in docs/configuration.md.
"""


def config_text(found: Sequence[Found], key_sha256: str) -> str:
    """Return a config with one key, and routes to all that was found.

    Each model has a route of its name; ``fast`` and ``smart`` lead to one model of each upstream,
    in the order in which they were found.
    """
    text = _CONFIG_HEAD.format(key_sha256=key_sha256)
    if not found:
        return text + _NO_UPSTREAM
    routes: dict[str, list[tuple[Found, str]]] = {FAST: [], SMART: []}
    for upstream in found:
        routes[FAST].append((upstream, upstream.fast))
        routes[SMART].append((upstream, upstream.smart))
        for model in upstream.models:
            routes.setdefault(model, []).append((upstream, model))
    text += _UPSTREAMS_HEAD + "".join(map(_upstream, found)) + _ROUTES_HEAD
    return text + "".join(_route(model, targets) for model, targets in routes.items())


def models_of(text: str) -> list[str]:
    """Return the models of text that a config written here routes, in its order."""
    return re.findall(r'(?m)^model = "(.*)"$', text.partition("[[media.routes]]")[0])


def _upstream(found: Found) -> str:
    lines = [
        "",
        "[[upstreams]]",
        f"name = {_quoted(found.name)}",
        f"protocol = {_quoted(found.protocol)}",
        f"base_url = {_quoted(found.base_url)}",
    ]
    if found.variable is not None:
        lines.append(f"api_key_env = {_quoted(found.variable)}")
    if found.local:
        lines.append('abandon = "cancel"         # nobody bills what a client did not wait for')
    return "\n".join(lines) + "\n"


def _route(model: str, targets: Iterable[tuple[Found, str]]) -> str:
    lines = ["", "[[routes]]", f"model = {_quoted(model)}"]
    for upstream, target in targets:
        lines += [
            "  [[routes.targets]]",
            f"  upstream = {_quoted(upstream.name)}",
            f"  model = {_quoted(target)}",
        ]
        if upstream.chat_only:
            lines.append('  caps = { upstream_api = "chat" }')
        if upstream.local:
            lines.append("  price = { input = 0, output = 0 }")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as TOML has it; that of JSON is the same for what can stand here."""
    return json.dumps(text, ensure_ascii=False)


def env_text(plane: str, lines: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Return an environment file.

    :param lines: comments, each with the variables that stand below it.
    """
    parts = [_ENV_HEAD.format(plane=plane)]
    for comment, variables in lines:
        parts.append(f"\n# {comment}\n")
        parts.extend(f"{name}={env_value(value)}\n" for name, value in variables.items())
    return "".join(parts)


def env_value(value: str) -> str:
    """Return a value as an environment file has it.

    :raises ValueError: no line can say it so that a shell and systemd read the same.
    """
    if _PLAIN.fullmatch(value):
        return value
    if "'" in value or not value.isprintable():
        raise ValueError(value)
    return f"'{value}'"

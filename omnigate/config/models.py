"""What models can do: the target's own ``caps``, and else the built-in table, ``models.toml``.

The control plane asks it when it makes a snapshot; the data plane is handed the outcome.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final

import attrs

from omnigate.capabilities import DEFAULT_ANTHROPIC_VERSION, Capabilities
from omnigate.config.model_ids import spellings
from omnigate.config.schema import CapsConfig, ProtocolName, TargetConfig, UpstreamConfig

#: From this version of Anthropic's API on no model takes sampling parameters.
WITHOUT_SAMPLING: Final = "2026-10-21"

_DATE = re.compile(r"20\d\d-\d\d-\d\d", re.ASCII)
_OPENAI_HOST = re.compile(r"https?://(?:[a-z-]+\.)?api\.openai\.com[:/]", re.ASCII | re.IGNORECASE)

#: How hosts other than the vendor name a Claude: ``us.anthropic.claude-opus-4-1-20250805-v1:0``,
#: ``claude-4-7-opus``.
_CLAUDE_WITHIN = re.compile(r"(?:\A|[.:])(?=claude-)")
_BUILD = re.compile(r"-v\d\Z", re.ASCII)
_VERSION_FIRST = re.compile(r"claude-([4-9](?:-\d)?)-([a-z]+)(?=-|\Z)", re.ASCII)


@attrs.frozen
class _Rows:
    """The rows of one protocol: by whole ids, and by the beginnings of ids, longest first."""

    whole: Mapping[str, Capabilities]
    beginnings: tuple[tuple[str, Capabilities], ...]


def _read_table() -> tuple[str, Mapping[str, _Rows]]:
    """Return the date of the built-in table and its rows by protocol."""
    text = resources.files("omnigate.config").joinpath("models.toml").read_text("utf-8")
    document = tomllib.loads(text)
    rows = {protocol: _rows(document[protocol]) for protocol in ("openai", "anthropic")}
    return document["date"].isoformat(), rows


def _rows(rows: list[dict[str, Any]]) -> _Rows:
    whole: dict[str, Capabilities] = {}
    beginnings: dict[str, Capabilities] = {}
    for row in rows:
        ids = row.pop("ids")
        if "efforts" in row:
            row["efforts"] = tuple(row["efforts"])
        capabilities = Capabilities(**row)
        for model_id in ids:
            if model_id.endswith("*"):
                beginnings[model_id[:-1]] = capabilities
            else:
                whole[model_id] = capabilities
    longest_first = sorted(beginnings.items(), key=lambda item: -len(item[0]))
    return _Rows(whole, tuple(longest_first))


#: The day of the built-in table (``YYYY-MM-DD``), and the table.
MODELS_DATE, _TABLE = _read_table()

_COMPATIBLE: Final = _TABLE["openai"].beginnings[-1][1]
_NEW_AT_OPENAI: Final = Capabilities()


# The models of a config, asked for at each snapshot: equal ones get the same record.
@functools.lru_cache(maxsize=16_384)
def known_capabilities(
    protocol: ProtocolName, model: str, anthropic_version: str | None = None, base_url: str = ""
) -> Capabilities:
    """Return what is known of a model at an upstream of a protocol.

    :param anthropic_version: the one the upstream's config names.
    :param base_url: where the upstream is: OpenAI itself names the bound of the output and the end
        user otherwise than most compatible servers, which matters for models that nobody knows.
    """
    known = _in_table(protocol, model)
    if protocol == "anthropic":
        version = anthropic_version or DEFAULT_ANTHROPIC_VERSION
        if known.sampling and _DATE.fullmatch(version) and version >= WITHOUT_SAMPLING:
            return _without_sampling(known)
    elif known is _COMPATIBLE and _OPENAI_HOST.match(base_url):
        return _NEW_AT_OPENAI
    return known


def _in_table(protocol: str, model: str) -> Capabilities:
    rows = _TABLE[protocol]
    spelled = list(dict.fromkeys((*spellings(model), *_elsewhere(model))))
    for model_id in spelled:
        if model_id in rows.whole:
            return rows.whole[model_id]
    return next(
        capabilities
        for beginning, capabilities in rows.beginnings
        if any(model_id.startswith(beginning) for model_id in spelled)
    )


@functools.lru_cache(maxsize=64)
def _without_sampling(known: Capabilities) -> Capabilities:
    return attrs.evolve(known, sampling=False)


def _elsewhere(model: str) -> Iterator[str]:
    """Yield the vendor's id of a model as other hosts, variants and fine-tuned models name it.

    Good for a guess at what a model can do; at another host it may cost something else.
    """
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    name = name[_place(name) :].partition(":")[0]
    for spelled in spellings(_BUILD.sub("", name)):
        yield spelled
        turned = _VERSION_FIRST.sub(r"claude-\2-\1", spelled)
        if turned != spelled:
            yield turned


def _place(name: str) -> int:
    """Return where a Claude's own id begins in a longer name; 0 where there is none."""
    found = _CLAUDE_WITHIN.search(name)
    return 0 if found is None else found.end()


def target_capabilities(target: TargetConfig, upstream: UpstreamConfig) -> Capabilities:
    """Return what a target's model can do: what its ``caps`` say, and else what is known."""
    known = known_capabilities(
        upstream.protocol, target.model, upstream.anthropic_version, upstream.base_url
    )
    changes: dict[str, Any] = {}
    if target.caps is not _NO_CAPS:
        changes = {
            field.name: value
            for field in attrs.fields(CapsConfig)
            if (value := getattr(target.caps, field.name)) is not None
        }
        if "upstream_api" in changes:  # which also settles where requests with tools go
            changes["tools_over_responses"] = False
        if "none" in changes.get("efforts", ()):  # the same as effort_none, which wins
            changes["efforts"] = tuple(word for word in changes["efforts"] if word != "none")
            changes.setdefault("effort_none", True)
    if target.default_max_tokens is not None:
        changes["default_max_tokens"] = target.default_max_tokens
    return attrs.evolve(known, **changes) if changes else known


#: What a target has whose table has no ``caps``; another one that is empty does no harm.
_NO_CAPS: Final = attrs.fields(TargetConfig).caps.default

"""Parameters of a request as an OpenAI upstream takes them, over Chat and Responses alike."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.dialects.shapes import Quirk, Request
from omnigate.errors import GatewayError
from omnigate.wire.json_values import decode_values

MAX_STOP_SEQUENCES = 4
"""What Chat takes; Messages takes more."""
MAX_USER_CHARS = 128
"""What ``safety_identifier`` takes; a longer name is told apart by its hash."""

# Where a budget of thinking begins to be a medium and a high effort.
_MEDIUM_BUDGET = 4096
_HIGH_BUDGET = 16384

# A schema of this size is already far beyond what providers take for a strict one (5,000
# properties); a longer one is not walked.
_MAX_STRICT_SCHEMA_BYTES = 256 * 1024


def openai_effort(request: Request, caps: Capabilities) -> str | None:
    """Return the effort to reason with; ``None`` to leave it to the model.

    An effort by name wins over a wish of Messages: a budget is an effort by its size, thinking
    that is switched off is ``none``, or ``low`` where there is no such effort. What the model does
    not have becomes the nearest it has.
    """
    if not caps.reasoning:
        return None
    if request.effort is not None:
        return _nearest_effort(request.effort, caps)
    thinking = request.thinking
    if thinking is None:
        return None
    if thinking.type == "disabled":
        return _nearest_effort("none" if caps.effort_none else "low", caps)
    if thinking.type != "enabled":
        return None
    if thinking.budget < _MEDIUM_BUDGET:
        return _nearest_effort("low", caps)
    return _nearest_effort("medium" if thinking.budget < _HIGH_BUDGET else "high", caps)


def _nearest_effort(effort: str, caps: Capabilities) -> str:
    if effort not in EFFORTS:
        # The provider may know a word that is newer than the table; if not, it says so itself.
        return effort
    if effort == "none" and caps.effort_none:
        return effort
    # Whoever wants little thinking is not given none at all.
    there = [known for known in caps.efforts if known in EFFORTS and known != "none"]
    if not there:
        return "low" if effort == "none" else effort
    rank = EFFORTS.index(effort)
    # Of two that are as near the weaker, which costs less.
    return min(there, key=lambda known: (abs(EFFORTS.index(known) - rank), EFFORTS.index(known)))


def openai_sampling(request: Request, caps: Capabilities, quirks: Quirk) -> dict[str, float]:
    """Return ``temperature`` and ``top_p`` as far as the client gave them and the model takes."""
    if not caps.sampling or Quirk.NO_SAMPLING in quirks:
        return {}
    wished = {"temperature": request.temperature, "top_p": request.top_p}
    return {name: value for name, value in wished.items() if value is not None}


def openai_stop(request: Request, caps: Capabilities) -> list[str]:
    """Return the stop sequences; none where the model takes none.

    :raises GatewayError: they are more than :data:`MAX_STOP_SEQUENCES`.
    """
    if not caps.stop:
        return []
    stop = [sequence for sequence in request.stop if sequence]
    if len(stop) > MAX_STOP_SEQUENCES:
        message = (
            f"stop_sequences holds {len(stop)} sequences, and the model's provider takes"
            f" {MAX_STOP_SEQUENCES}: send fewer"
        )
        raise GatewayError("untranslatable_request", message, param="stop_sequences")
    return stop


def openai_user(request: Request, caps: Capabilities) -> dict[str, str]:
    """Return the member that names the end user; none where the client named nobody."""
    user = request.user
    if not user or not caps.user_field:
        return {}
    if len(user) > MAX_USER_CHARS:
        user = sha256(user.encode("utf-8", "replace")).hexdigest()
    return {caps.user_field: user}


def openai_max_tokens(request: Request, caps: Capabilities, at_least: int = 1) -> int | None:
    """Return the bound of the output; ``None`` where the client set none.

    :param at_least: the least that the protocol takes.
    """
    if request.max_tokens is None:
        return None
    bounded = min(request.max_tokens, caps.max_output or request.max_tokens)
    return max(bounded, at_least)


def tier_of_messages(tier: str | None) -> str | None:
    """Return the service tier of a Messages request in Chat's words; ``None`` for the default."""
    return {"auto": "auto", "standard_only": "default"}.get(tier or "")


def tier_for_messages(tier: str | None) -> str | None:
    """Return a service tier in Chat's words as Messages spells it; ``None`` to leave it out."""
    return {"auto": "auto", "priority": "auto", "default": "standard_only"}.get(tier or "")


_SUBSCHEMA = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_SUBSCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def is_strict_schema(schema: bytes) -> bool:
    """Return whether every object of a schema allows and requires just its own properties.

    An OpenAI upstream holds an answer strictly to such a schema only; a client of Messages cannot
    say whether it wants that, so it gets it wherever it can be had.
    """
    if len(schema) > _MAX_STRICT_SCHEMA_BYTES:
        return False
    try:
        waiting = [decode_values(schema)]
    except (msgspec.DecodeError, RecursionError):
        return False
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        if not _is_closed(node):
            return False
        waiting += [node[name] for name in _SUBSCHEMA if name in node]
        for name in _SUBSCHEMA_LISTS:
            waiting += _members(node.get(name))
        for name in _SUBSCHEMA_MAPS:
            waiting += _members(node.get(name))
    return True


def _members(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _is_closed(node: dict[str, object]) -> bool:
    kind = node.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    if not is_object and "properties" not in node:
        return True
    if node.get("additionalProperties") is not False:
        return False
    properties, required = node.get("properties"), node.get("required")
    names = set(properties) if isinstance(properties, dict) else set()
    told = required if isinstance(required, list) else []
    return names <= {name for name in told if isinstance(name, str)}

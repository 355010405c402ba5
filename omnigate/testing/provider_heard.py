"""What the fake provider hears in a request: one form for its three protocols, and strict reading.

The three ``provider_rules_*`` modules read a request into it as strictly as the hosted APIs do, or
say which rule it breaks. They are written apart from :mod:`omnigate.dialects` on purpose: a judge
that read with the gateway's own readers would agree with every mistake in them.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import attrs

HeardRole = Literal["system", "user", "assistant", "tool"]

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_SEAL = "fake-seal:"
_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,(.+)", re.DOTALL)


class BrokenRuleError(Exception):
    """A request breaks a rule of its protocol, or of the play; the text names place and fault."""


@attrs.frozen
class Media:
    """An image or a document; ``data`` is what its base64 stands for, empty at an address."""

    media_type: str
    data: bytes


@attrs.frozen
class Thought:
    """Thinking that came back, with the seal this provider put on it."""

    text: str
    seal: str


@attrs.frozen
class HeardCall:
    """A call of a tool that came back; ``arguments`` decoded."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@attrs.frozen
class HeardResult:
    """What a tool answered."""

    call_id: str
    text: str
    media: tuple[Media, ...] = ()


@attrs.define
class HeardTurn:
    """Everything said by one side in a row; results of tools are a side of their own."""

    role: HeardRole
    texts: list[str] = attrs.Factory(list)
    media: list[Media] = attrs.Factory(list)
    thoughts: list[Thought] = attrs.Factory(list)
    calls: list[HeardCall] = attrs.Factory(list)
    results: list[HeardResult] = attrs.Factory(list)

    @property
    def text(self) -> str:
        """All its text."""
        return "".join(self.texts)


@attrs.define
class Heard:
    """A request in no protocol's words.

    :ivar tools: the schema of each tool's arguments, by its name.
    :ivar schema: what the answer is held to, or None.
    :ivar thinks: whether the model is asked to think.
    :ivar shows: whether it is asked to tell what it thought.
    :ivar seals: whether it seals what it thought, and wants that back.
    """

    turns: list[HeardTurn] = attrs.Factory(list)
    tools: dict[str, Any] = attrs.Factory(dict)
    schema: Any = None
    thinks: bool = False
    shows: bool = False
    seals: bool = False

    def turn(self, role: HeardRole) -> HeardTurn:
        """The last turn, if it is of this side, or a new one."""
        if not self.turns or self.turns[-1].role != role:
            self.turns.append(HeardTurn(role))
        return self.turns[-1]


def seal_of(thought: str) -> str:
    """The signature, or the sealed content, that this provider gives a thought."""
    digest = hashlib.sha256(thought.encode()).hexdigest()
    return base64.b64encode(f"{_SEAL}{digest}".encode()).decode()


def is_seal(seal: str) -> bool:
    """Whether this provider gave it."""
    try:
        return base64.b64decode(seal, validate=True).startswith(_SEAL.encode())
    except (binascii.Error, ValueError):
        return False


# -- strict reading


def need(holds: object, place: str, fault: str) -> None:
    """Refuse the request where something does not hold."""
    if not holds:
        raise BrokenRuleError(f"{place}: {fault}")


def members(
    value: Any, place: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """A JSON object that has these members and no others."""
    need(isinstance(value, dict), place, "an object is expected")
    for name in required:
        need(name in value, place, f"{name} is missing")
    for name in value:
        need(name in required or name in optional, f"{place}.{name}", "unknown parameter")
    found: dict[str, Any] = value
    return found


def text_of(value: Any, place: str, *, blank: bool = True) -> str:
    """A string.

    :param blank: whether it may be empty or only white space.
    """
    need(isinstance(value, str), place, "a string is expected")
    need(blank or value.strip(), place, "is blank")
    found: str = value
    return found


def list_of(value: Any, place: str) -> list[Any]:
    """A list that is not empty."""
    need(isinstance(value, list) and value, place, "a list that is not empty is expected")
    found: list[Any] = value
    return found


def whole_number(value: Any, place: str, least: int) -> int:
    """An integer of at least so much."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    need(whole and value >= least, place, f"an integer of at least {least} is expected")
    found: int = value
    return found


def one_of(value: Any, place: str, allowed: Sequence[Any]) -> Any:
    """One of these values."""
    need(value in allowed, place, f"{value!r} is none of {list(allowed)}")
    return value


def decoded(value: Any, place: str) -> bytes:
    """What standard base64 stands for; it is not to be empty."""
    try:
        data = base64.b64decode(text_of(value, place, blank=False), validate=True)
    except (binascii.Error, ValueError):
        raise BrokenRuleError(f"{place}: is no base64") from None
    need(data, place, "is empty")
    return data


def data_url(value: Any, place: str, allowed: Sequence[str]) -> Media:
    """A ``data:`` URL of one of these types, or an address of the web."""
    address = text_of(value, place, blank=False)
    if address.startswith(("http://", "https://")):
        return Media("", b"")
    match = _DATA_URL.fullmatch(address)
    if match is None:
        raise BrokenRuleError(f"{place}: neither a data URL in base64 nor an address of the web")
    return Media(one_of(match[1], place, allowed), decoded(match[2], place))


def schema_of(value: Any, place: str) -> dict[str, Any]:
    """The schema of a tool's arguments: that of an object."""
    need(isinstance(value, dict), place, "an object is expected")
    need(value.get("type") == "object", place, "the schema is not that of an object")
    found: dict[str, Any] = value
    return found


def check_strict(schema: Any, place: str) -> None:
    """A strict schema closes every object and requires all its properties."""
    waiting = [(schema, place)]
    while waiting:
        value, where = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, f"{where}[{at}]") for at, item in enumerate(value)]
        elif isinstance(value, dict):
            if value.get("type") == "object":
                closed = value.get("additionalProperties") is False
                need(closed, where, "'additionalProperties' must be false in a strict schema")
                required = set(value.get("required") or ())
                all_there = required == set(value.get("properties") or ())
                need(all_there, where, "'required' must name every property in a strict schema")
            waiting += [(item, f"{where}.{name}") for name, item in value.items()]

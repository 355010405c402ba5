"""The golden cases of translation, and how what we made is compared with them.

Each file of ``tests/vectors`` is one exchange: what the client sends and what must go upstream,
what the upstream answers and what the client must be sent. Free are ids and times of an answer
(one id must stay the same within it), the message of a refusal, key order, members with null, and
what a case names in ``varies``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from omnigate.capabilities import Capabilities
from omnigate.dialects.translate import Asked, request_steps

FOLDER = Path(__file__).resolve().parent.parent / "vectors"

_FREE = frozenset(("created", "created_at", "system_fingerprint"))
_IDS = frozenset(("id", "item_id"))
_own_id = re.compile(r"(resp_|msg_|rs_|fc_|chatcmpl|gw)").match
# Members that hold JSON as text, or a piece of it: compared as what they mean.
_JSON_TEXTS = frozenset(("arguments", "partial_json", "delta"))


@attrs.frozen
class Vector:
    """One golden case; ``client`` and ``upstream`` are ``chat``, ``messages`` or ``responses``.

    :ivar request: what the client sends.
    :ivar sent: what must go upstream; ``None`` where the request is refused.
    :ivar answer: the upstream's: ``status`` and one of ``json``, ``sse``, ``text``.
    :ivar told: what the client must get, in the same form.
    """

    name: str
    client: str
    upstream: str
    context: Mapping[str, Any]
    headers: Mapping[str, str]
    request: dict[str, Any]
    sent: dict[str, Any] | None
    answer: dict[str, Any] | None
    told: dict[str, Any]
    varies: Sequence[str]

    @property
    def caps(self) -> Capabilities:
        """What the case's model can do."""
        names = ("upstream_api", "default_max_tokens")
        extra = {name: self.context[name] for name in names if name in self.context}
        return Capabilities(**self.context["caps"], **extra)

    @property
    def body(self) -> bytes:
        """The client's request as bytes."""
        return json.dumps(self.request, ensure_ascii=False).encode()

    @property
    def streamed(self) -> bool:
        """Whether the upstream answers with a stream."""
        return self.answer is not None and "sse" in self.answer

    @property
    def answer_body(self) -> bytes:
        """The upstream's answer as bytes."""
        assert self.answer is not None
        if "sse" in self.answer:
            return "".join(self.answer["sse"]).encode()
        if "text" in self.answer:
            return str(self.answer["text"]).encode()
        return json.dumps(self.answer["json"], ensure_ascii=False).encode()


def translate_request(*asked: Any) -> Asked:
    """Translate a request in one go; see :func:`omnigate.dialects.translate.request_steps`."""
    steps = request_steps(*asked)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            written: Asked = end.value
            return written


def vectors(client: str = "", upstream: str = "") -> list[Vector]:
    """Return the cases of a direction; of all protocols where one is left out."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        one, _, other = case["direction"].partition("_to_")
        if client in ("", one) and upstream in ("", other):
            found.append(
                Vector(
                    name=case["name"],
                    client=one,
                    upstream=other,
                    context=case["context"],
                    headers=case.get("client_headers") or {},
                    request=case["client_request"],
                    sent=case["expected_upstream_request"],
                    answer=case["upstream_answer"],
                    told=case["expected_client_answer"],
                    varies=case.get("varies") or (),
                )
            )
    return found


def same_request(vector: Vector, body: bytes) -> None:
    """Fail where a request for the upstream is not as the case has it."""
    _compare(vector.sent, json.loads(body), _Place(vector.name, answer=False))


def same_answer(vector: Vector, body: bytes) -> None:
    """Fail where a whole answer or an error for the client is not as the case has it."""
    varies = ("error.message", "request_id", *vector.varies)
    _compare(vector.told["json"], json.loads(body), _Place(vector.name, varies=varies))


def same_events(vector: Vector, stream: bytes) -> None:
    """Fail where a stream for the client is not as the case has it, event by event."""
    want = events("".join(vector.told["sse"]).encode())
    got = events(stream)
    names = [name or "data" for name, _ in got]
    assert len(want) == len(got), f"{vector.name}: {len(got)} events, not {len(want)}: {names}"
    ids: dict[str, str] = {}
    for index, ((name, data), (own_name, own)) in enumerate(zip(want, got, strict=True)):
        where = f"{vector.name} event {index} {name}"
        assert name == own_name, f"{where} is {own_name!r}"
        _compare(data, own, _Place(where, varies=vector.varies, ids=ids))


def events(stream: bytes) -> list[tuple[str, Any]]:
    """Return name and data of each event; comments and pings are left out."""
    found: list[tuple[str, Any]] = []
    for block in re.split(r"\r?\n\r?\n", stream.decode()):
        name, lines = "", []
        for line in block.splitlines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                lines.append(line[5:].removeprefix(" "))
        text = "\n".join(lines)
        if lines and name != "ping":
            found.append((name, text if text == "[DONE]" else json.loads(text)))
    return found


@attrs.frozen
class _Place:
    """Where a comparison stands."""

    where: str
    path: str = ""
    varies: Sequence[str] = ()
    ids: dict[str, str] = attrs.Factory(dict)
    answer: bool = True

    def at(self, step: str) -> "_Place":
        """The same a step deeper."""
        return attrs.evolve(self, path=f"{self.path}{step}".lstrip("."))

    @property
    def free(self) -> bool:
        """Whether whatever stands here is right."""
        plain = re.sub(r"\[\d*\]", "[]", self.path)
        wanted = [re.sub(r"\[\d*\]", "[]", path.removeprefix("$.")) for path in self.varies]
        return any(plain == path or plain.startswith(path + ".") for path in wanted)

    def differs(self, want: object, got: object) -> str:
        """What is told of a difference."""
        return f"{self.where} {self.path}: {got!r:.300} instead of {want!r:.300}"


def _compare(want: Any, got: Any, place: _Place) -> None:
    key = place.path.rsplit(".", 1)[-1]
    answer = place.answer
    if place.free or (answer and key in _FREE):
        return
    if answer and key in _IDS and isinstance(want, str) and _own_id(want):
        assert isinstance(got, str), place.differs(want, got)
        assert place.ids.setdefault(want, got) == got, place.differs(place.ids[want], got)
    elif isinstance(want, dict):
        _compare_objects(want, got, place)
    elif isinstance(want, list):
        assert isinstance(got, list) and len(want) == len(got), place.differs(want, got)
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            _compare(one, other, place.at(f"[{index}]"))
    elif key in _JSON_TEXTS and isinstance(want, str) and isinstance(got, str):
        assert want == got or _meaning(want) == _meaning(got), place.differs(want, got)
    else:
        alike = isinstance(want, bool) == isinstance(got, bool)
        assert alike and want == got, place.differs(want, got)


def _compare_objects(want: dict[str, Any], got: Any, place: _Place) -> None:
    assert isinstance(got, dict), place.differs(want, got)
    for name, value in want.items():
        if name not in got:
            optional = place.answer and value is None
            assert optional, place.at(f".{name}").differs(value, "nothing")
        else:
            _compare(value, got[name], place.at(f".{name}"))
    extra = {name for name in got if name not in want}
    if place.answer:
        extra = {name for name in extra if got[name] is not None}
        if place.path.endswith("error"):
            # An error may say more than the case asks for.
            extra -= {"code", "details", "param"}
    assert not extra, place.differs(want, got)


def _meaning(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

"""Random conversations of what every protocol can say.

:mod:`tests.dialects.spellings` spells a :class:`Talk` in each of them, so a translation has to be
equal to the other spelling, and its translation back to the first. Arguments and schemas are JSON
text, in which numbers and names are odd.
"""

import base64
import json
from collections.abc import Sequence

import attrs
from hypothesis import strategies as st

PROTOCOLS = ("chat", "messages", "responses")
PAIRS = tuple((one, other) for one in PROTOCOLS for other in PROTOCOLS if one != other)

# -- what is said


@attrs.frozen
class Picture:
    """A picture on the web, or its base64."""

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str | None = None
    marked: bool = False


@attrs.frozen
class Paper:
    """A PDF: at an address, or its base64 and its title."""

    url: str = ""
    data: str = ""
    title: str = ""
    marked: bool = False


@attrs.frozen
class Words:
    """Text; ``marked`` where the prompt up to it is to be cached."""

    text: str
    marked: bool = False


Shown = Words | Picture | Paper


@attrs.frozen
class Called:
    """The call of a tool and what it answered: one plain text, or parts; none is nothing."""

    id: str
    name: str
    arguments: str
    answer: str | Sequence[Shown]


@attrs.frozen
class Round:
    """What the user says, the system says behind it, and the model answers.

    :ivar thought: of the model, and what the model's provider signed it with.
    """

    shown: Sequence[Shown]
    system: str = ""
    thought: str = ""
    said: str = ""
    calls: Sequence[Called] = ()


@attrs.frozen
class Function:
    """A tool."""

    name: str
    description: str | None
    schema: str
    strict: bool


@attrs.frozen
class Talk:
    """A conversation and what else a request says.

    :ivar last: of the user; none where results of tools stand last.
    :ivar choice: ``auto``, ``none``, ``required``, or ``=`` and the name of a tool.
    """

    system: str
    rounds: Sequence[Round]
    last: Sequence[Shown]
    tools: Sequence[Function]
    choice: str
    one_at_a_time: bool
    max_tokens: int
    temperature: float | None
    top_p: float | None
    stop: Sequence[str]
    effort: str | None
    schema: tuple[str, bool] | None
    user: str
    tier: str | None
    stream: bool


def thoughtless(talk: Talk) -> Talk:
    """Return a conversation without what was thought, which only Messages takes from others."""
    return attrs.evolve(talk, rounds=[attrs.evolve(turn, thought="") for turn in talk.rounds])


# -- drawn

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
#: Not blank, since Messages takes no blank text.
SAYINGS = TEXTS.filter(lambda text: bool(text.strip()))
IDS = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True) | st.sampled_from(
    ("call_" + "9" * 35, "toolu_01", "-", "_", "call_gw_0")
)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True) | st.just("n" * 64)
_numbers = st.sampled_from(
    ("1.0", "1e3", "1E-7", "-0", "-0.0", "0.10", "12345678901234567890", "9" * 60, "1.5e+300")
)
_keys = st.sampled_from(("", "$ref", "type", "a\nb", '"', "\\", "ключ", "\N{GRINNING FACE}", "id"))


def _object(members: Sequence[tuple[str, str]]) -> str:
    once = dict(members)
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in once.items()) + "}"


_values: st.SearchStrategy[str] = st.recursive(
    _numbers | st.sampled_from(("null", "true", "{}", "[]")) | TEXTS.map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: "[" + ",".join(values) + "]")
        | st.lists(st.tuples(_keys | TEXTS, inner), max_size=3).map(_object)
    ),
    max_leaves=5,
)
OBJECTS = st.lists(st.tuples(_keys | TEXTS, _values), max_size=3).map(_object)
SCHEMAS = st.lists(st.tuples(_keys | TEXTS, _values), max_size=2).map(
    lambda members: _object([*members, ("type", '"object"')])
)
# A schema and whether it is strict: each object closed, each property required.
FORMATS = st.sampled_from(
    (
        ('{"type":"object","properties":{"a":{"minimum":1.50}},"required":["a"],'
         '"additionalProperties":false}', True),
        ('{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],'
         '"additionalProperties":false}', False),
        ('{"type":"object"}', False),
        ('{"anyOf":[{"type":"string"},{"type":["null","object"]}]}', False),
    )
)  # fmt: skip
_base64 = st.binary(min_size=1, max_size=6).map(lambda data: base64.b64encode(data).decode())
_addresses = st.sampled_from(("https://h.test/a.png?q=1&r=é", "http://h.test", "HTTPS://H.TEST/x"))
_types = st.sampled_from(("image/png", "image/jpeg", "image/gif", "image/webp"))


def _pictures(details: bool, marks: bool) -> st.SearchStrategy[Shown]:
    detail = st.sampled_from((None, "low", "high")) if details else st.none()
    marked = st.booleans() if marks else st.just(False)
    return st.builds(Picture, url=_addresses, detail=detail, marked=marked) | st.builds(
        Picture, media_type=_types, data=_base64, detail=detail, marked=marked
    )


def _papers(addresses: bool, marks: bool) -> st.SearchStrategy[Shown]:
    marked = st.booleans() if marks else st.just(False)
    papers = st.builds(Paper, data=_base64, title=SAYINGS, marked=marked)
    if addresses:
        papers |= st.builds(Paper, url=_addresses, marked=marked)
    return papers


@st.composite
def talks(draw: st.DrawFn, pair: set[str]) -> Talk:
    """Draw a conversation that both protocols of a pair have words for.

    Chat's tools answer with text, and its documents are never at an address; Messages knows no
    detail of a picture and other marks.
    """
    openai = "messages" not in pair
    shown_one = st.one_of(
        st.builds(Words, SAYINGS, st.booleans() if openai else st.just(False)),
        _pictures(openai, openai),
        _papers("chat" not in pair, openai),
    )
    shown = st.lists(shown_one, min_size=1, max_size=3)
    several = st.lists(
        st.builds(Words, SAYINGS) if "chat" in pair else shown_one, min_size=2, max_size=3
    )
    tools = draw(
        st.lists(
            st.builds(Function, NAMES, st.none() | TEXTS, SCHEMAS, st.booleans()),
            max_size=3,
            unique_by=lambda tool: tool.name,
        )
    )
    answers = st.just("") | SAYINGS | several
    calls = st.builds(Called, IDS, NAMES, OBJECTS, answers)
    rounds: list[Round] = []
    for index in range(draw(st.integers(0, 3))):
        called = draw(st.lists(calls, max_size=3, unique_by=lambda call: call.id))
        after_results = bool(rounds and rounds[-1].calls)
        rounds.append(
            Round(
                # A conversation begins with the user, and the model's turns never touch.
                shown=draw((st.just([]) | shown) if after_results and index else shown),
                system=draw(st.just("") | SAYINGS),
                thought=draw(st.just("") | SAYINGS),
                said=draw(st.just("") | SAYINGS) if called else draw(SAYINGS),
                calls=called,
            )
        )
    ends_with_results = bool(rounds and rounds[-1].calls)
    choices = ["", "auto", "none", "required", *[f"={tool.name}" for tool in tools]]
    choice = draw(st.sampled_from(choices)) if tools else ""
    effort = draw(st.none() | st.sampled_from(("low", "medium", "high", "xhigh")))
    fractions = st.none() | st.sampled_from((0.0, 0.7, 1.0))
    temperature = None if effort is not None else draw(fractions)
    return Talk(
        system=draw(st.just("") | SAYINGS),
        rounds=rounds,
        last=draw((st.just([]) | shown) if ends_with_results else shown),
        tools=tools,
        choice=choice,
        one_at_a_time=choice not in ("", "none") and draw(st.booleans()),
        max_tokens=draw(st.sampled_from((16, 4096, 1_000_000))),
        temperature=temperature,
        top_p=None if effort is not None or temperature is not None else draw(fractions),
        stop=draw(st.lists(SAYINGS, max_size=4)),
        effort=effort,
        schema=draw(st.none() | FORMATS),
        user=draw(st.just("") | TEXTS),
        tier=draw(st.sampled_from((None, "auto", "default"))),
        stream=draw(st.booleans()),
    )

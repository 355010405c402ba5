"""A play of three turns: the fake model thinks, calls tools, and answers in a form.

The client asks :data:`QUESTION` with :data:`PICTURE` and :data:`PAPER`, offers the tools, wishes
for thinking and holds the answer to :data:`FORM`. First the model makes two calls at once; when
both are answered by :func:`result_of` it makes a third, and at last it gives :data:`ANSWER`.
Whatever of this, or of its own earlier words, did not come back whole is refused with 400, and so
is thinking that it sealed and that is gone or changed.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import attrs

from omnigate.testing.provider_heard import Heard, HeardTurn, Media, need, seal_of
from omnigate.testing.provider_reply import Reply, ToolCall, cut_text, tokens_of, usage_of
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import Scenario

INSTRUCTIONS = "You compare towns. Ask the tools, never guess."
QUESTION = "Which town of the paper is the warmer one? The picture shows the square. ☀"

# The smallest picture there is, in two colours, and a paper of one empty page.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP4f4LhPwAHWALHeJfkkgAA"
    "AABJRU5ErkJggg=="
)
CHART = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNgiDrxHwADogIi2kyhkAAA"
    "AABJRU5ErkJggg=="
)
PAPER = (
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)


def _object(**properties: object) -> dict[str, Any]:
    """The schema of an object of which everything is required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_TOWNS = _object(towns={"type": "array", "items": _TEXT}, note=_TEXT)

#: The schema of each tool's arguments.
TOOLS: Mapping[str, dict[str, Any]] = {
    "get_weather": _object(town=_TEXT),
    "get_time": _object(),
    "get_forecast": _TOWNS,
}
#: In place of ``get_forecast`` where the client can answer a call with a picture.
CHART_TOOL = "draw_chart"
CHART_SCHEMA = _TOWNS

FORM = _object(town=_TEXT, degrees={"type": "number"}, reason=_TEXT)
ANSWER = {"town": "Zürich", "degrees": 21.5, "reason": 'It is "3 °" warmer than Bern \\ 🚀'}


@attrs.frozen
class _Scene:
    """What the model thinks, says and does in one turn."""

    thought: str
    text: str
    calls: tuple[ToolCall, ...] = ()


_ASKED = json.dumps({"towns": ["Bern", "Zürich"], "note": 'say "hot" \\ 🚀'}, ensure_ascii=False)

_SCENES = (
    _Scene(
        "Two towns are named.\n\nBoth have to be asked for, at the same time.",
        "Let me look both up.",
        (ToolCall("get_weather", '{"town": "Bern"}'), ToolCall("get_time", "{}")),
    ),
    _Scene("One is known – the other needs a forecast.", "", (ToolCall("get_forecast", _ASKED),)),
    _Scene("That is all I need.", json.dumps(ANSWER, ensure_ascii=False)),
)


def result_of(name: str, arguments: Mapping[str, Any]) -> str:
    """What a tool has to answer when it is called so.

    :data:`CHART_TOOL` answers with :data:`CHART` besides.
    """
    return f"{name} of {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}: 21 °C ✓"


def thought_of(turn: int) -> str:
    """What the model thinks in a turn, from 0."""
    return _SCENES[turn].thought


def loop_reply(heard: Heard, request: SeenRequest, scenario: Scenario) -> Reply:
    """The model's next turn.

    :raises BrokenRuleError: something of the play did not come, or not whole.
    """
    _check_offer(heard)
    place = _check_turns(heard)
    scene = _scene(place, heard)
    reasoning = scenario.reasoning_tokens or tokens_of(len(scene.thought))
    said = [scene.text, *(call.arguments for call in scene.calls)]
    output = reasoning + sum(tokens_of(len(text)) for text in said if text)
    return Reply(
        pieces=tuple(cut_text(scene.text, 5)),
        calls=scene.calls,
        finish="tool_calls" if scene.calls else "stop",
        usage=usage_of(request, scenario, output, reasoning),
        thought=scene.thought if heard.shows and not scenario.redacted else "",
        seal=seal_of(scene.thought) if heard.seals else "",
        redacted=scenario.redacted,
    )


def _scene(place: int, heard: Heard) -> _Scene:
    """A turn; the third call is one for a chart where that is offered."""
    scene = _SCENES[place]
    if place == 1 and CHART_TOOL in heard.tools:
        return attrs.evolve(scene, calls=(ToolCall(CHART_TOOL, _ASKED),))
    return scene


def _check_offer(heard: Heard) -> None:
    """The tools, the form and the wish for thinking are there."""
    names = ["get_weather", "get_time"]
    names.append(CHART_TOOL if CHART_TOOL in heard.tools else "get_forecast")
    for name in names:
        wanted = TOOLS.get(name, CHART_SCHEMA)
        need(heard.tools.get(name) == wanted, "tools", f"{name} is not offered as it is known")
    need(heard.schema == FORM, "format", "the answer is not held to the form of the play")
    need(heard.thinks, "thinking", "the play is one with thinking")


def _check_turns(heard: Heard) -> int:
    """Compare the conversation with the play so far; the number of turns the model has had."""
    turns = list(heard.turns)
    need(len(turns) > 1, "play", "it opens with instructions and a question")
    need(turns[0].role == "system", "play", "it opens with instructions")
    need(turns[0].text == INSTRUCTIONS, "play", "the instructions are others")
    need(turns[1].role == "user", "play", "behind the instructions the user asks")
    need(turns[1].text == QUESTION, "play", "the question is another")
    given = sorted(turns[1].media, key=lambda media: media.media_type)
    wanted = [Media("application/pdf", PAPER), Media("image/png", PICTURE)]
    need(given == wanted, "play", "the picture and the paper did not come whole")
    rest = turns[2:]
    done = 0
    while rest:
        need(done < len(_SCENES) - 1, "play", "it is over")
        rest = _check_round(_scene(done, heard), rest, done, heard)
        done += 1
    return done


def _check_round(scene: _Scene, rest: list[HeardTurn], done: int, heard: Heard) -> list[HeardTurn]:
    """Compare a turn of the model and the answers to its calls; the turns behind them."""
    where = f"play, turn {done + 1} of the model"
    need(len(rest) > 1, where, "it is not answered")
    said, answered = rest[0], rest[1]
    need(said.role == "assistant" and answered.role == "tool", where, "calls and results expected")
    need(said.text == scene.text, where, f"it said {scene.text!r}, not {said.text!r}")
    calls = [(call.name, call.arguments) for call in said.calls]
    made = [(call.name, json.loads(call.arguments)) for call in scene.calls]
    need(calls == made, where, f"it called {made}, not {calls}")
    if heard.seals:
        seals = [thought.seal for thought in said.thoughts]
        need(seals == [seal_of(scene.thought)], where, "what it thought did not come back sealed")
    results = {result.call_id: result for result in answered.results}
    pictures: list[Media] = []
    for call in said.calls:
        result = results[call.id]
        wanted = result_of(call.name, call.arguments)
        need(result.text == wanted, where, f"{call.name} answers {wanted!r}, not {result.text!r}")
        pictures += result.media
    rest = rest[2:]
    if rest and rest[0].role == "user":  # where a result holds text only, pictures stand here
        pictures += rest[0].media
        rest = rest[1:]
    charts = [Media("image/png", CHART) for call in said.calls if call.name == CHART_TOOL]
    need(pictures == charts, where, "the chart did not come whole")
    return rest

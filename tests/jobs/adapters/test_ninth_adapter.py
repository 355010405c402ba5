"""The adapter that CONTRIBUTING.md shows is one: it plays its cases and keeps to the rules."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.jobs.adapters.base import Adapter
from tests.jobs.adapters import rules
from tests.jobs.adapters.playing import DeviationError, Player
from tests.jobs.cases import Case, cases_in

PAGE = Path(__file__).resolve().parents[3] / "CONTRIBUTING.md"
URL = "https://api.stills.example/v1/stills"
IMAGE = "https://files.stills.example/s1.png"
KEY = {"authorization": "Bearer stills-test-key"}


def shown() -> Adapter | None:
    """The adapter of the page; None where there is no page, in an installed package."""
    if not PAGE.is_file():
        return None
    blocks = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    (code,) = [block for block in blocks if "(Adapter)" in block]
    names: dict[str, Any] = {"__name__": "omnigate.jobs.adapters.stills"}
    exec(compile(code, str(PAGE), "exec"), names)
    adapter = names["Stills"]()
    assert isinstance(adapter, Adapter)
    return adapter


def _exchange(kind: str, answer: dict[str, Any], status: int = 200) -> dict[str, Any]:
    submit = kind == "submit"
    request: dict[str, Any] = {"method": "GET", "url": f"{URL}/s1", "headers": KEY}
    if kind == "cancel":
        request |= {"method": "POST", "url": f"{URL}/s1/cancel"}
    if submit:
        body = {"model": "still-1", "prompt": "a lake"}
        request = {"method": "POST", "url": URL, "headers": KEY, "json": body}
    return {"kind": kind, "request": request, "response": {"status": status, "json": answer}}


def _case(name: str, exchanges: list[dict[str, Any]], **expect: Any) -> dict[str, Any]:
    target = {
        "adapter": "stills",
        "base_url": "https://api.stills.example/v1",
        "model": "still-1",
        "api_key_env": "STILLS_KEY",
    }
    return {
        "id": name,
        "job": {"model": "still", "input": {"prompt": "a lake"}},
        "route": {"model": "still", "targets": [target]},
        "secrets": {"STILLS_KEY": "stills-test-key"},
        "exchanges": exchanges,
        "expect": {"outputs": [], **expect},
    }


_TAKEN = _exchange("submit", {"id": "s1"}, 201)
_DOWNLOAD = {
    "kind": "download",
    "request": {"url": IMAGE, "headers": {}, "absent_headers": ["authorization"]},
    "response": {"status": 200},
}


VECTORS = [
    _case(
        "success",
        [
            _TAKEN,
            _exchange("poll", {"status": "working"}),
            _exchange("poll", {"status": "ready", "url": IMAGE}),
            _DOWNLOAD,
        ],
        outputs=[{"source": "url"}],
        outcomes=["succeeded"],
    ),
    _case(
        "failure",
        [_TAKEN, _exchange("poll", {"status": "broken", "error": "too dark"})],
        outcomes=["failed"],
        message="too dark",
    ),
    _case(
        "refused",
        [_exchange("submit", {"detail": "no such model"}, 404)],
        outcomes=["failed"],
        message="no such model",
    ),
    _case(
        "throttled",
        [_exchange("submit", {}, 429)],
        outcomes=["rate_limited"],
        message="HTTP 429",
    ),
    {
        **_case(
            "cancel",
            [_TAKEN, _exchange("cancel", {"status": "stopped"})],
            outcomes=["canceled"],
        ),
        "client_cancel_after": 1,
    },
]


def golden(*vectors: dict[str, Any]) -> list[Case]:
    """Vectors as cases."""
    return cases_in(json.dumps({"vectors": vectors}))


def _first(vector: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = vector["exchanges"][0]["request"]
    return found


def _download(vector: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = vector["exchanges"][3]["request"]
    return found


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda vector: _first(vector).update(url=f"{URL}s"),
    lambda vector: _first(vector).update(method="PUT"),
    lambda vector: _first(vector).update(query={"a": 1}),
    lambda vector: _first(vector).update(headers={"x": "y"}),
    lambda vector: _first(vector).update(absent_headers=["authorization"]),
    lambda vector: _first(vector).update(json={"prompt": "a lake"}),
    lambda vector: vector["exchanges"][1].update(kind="cancel"),
    lambda vector: vector["exchanges"].pop(2),
    lambda vector: vector["exchanges"].append(_DOWNLOAD),
    lambda vector: vector["exchanges"].append(_TAKEN),
    lambda vector: _download(vector).update(url=URL),
    lambda vector: _download(vector).update(headers=KEY),
    lambda vector: vector["expect"].update(outputs=[{"source": "inline", "sha256": ""}]),
    lambda vector: vector["expect"].update(outputs=[{"source": "url"}] * 2),
)


_SHOWN = shown()


class Cases(SynchronousTestCase):
    """The golden cases."""

    def test_they_are_played(self) -> None:
        """To the ends that they tell of."""
        adapter = self._shown()
        for case in golden(*VECTORS):
            played = Player(case, {adapter.name: adapter}).play()
            self.assertEqual(played.outcomes, case.expect["outcomes"], case.id)
            message = played.error.message if played.error is not None else None
            self.assertEqual(message, case.expect.get("message"), case.id)

    def test_the_player_sees_what_deviates(self) -> None:
        """Another request than the case has, one too many, one too few, and other outputs."""
        adapter = self._shown()
        for change in CHANGES:
            vector = json.loads(json.dumps(VECTORS[0]))
            change(vector)
            player = Player(golden(vector)[0], {adapter.name: adapter})
            with self.assertRaises(DeviationError):
                player.play()

    def _shown(self) -> Adapter:
        if _SHOWN is None:
            raise SkipTest("the page is in the checkout only")
        return _SHOWN


class Conformance(rules.Rules):
    """What comes of odd answers and of odd inputs."""

    samples = () if _SHOWN is None else tuple(rules.samples_of(_SHOWN, golden(*VECTORS)))

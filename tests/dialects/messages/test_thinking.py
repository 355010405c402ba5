"""How much a model at a Messages upstream is asked to think."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.dialects.messages.thinking import ThinkingPlan, plan_thinking
from omnigate.dialects.messages.turns import arrange
from omnigate.dialects.shapes import (
    Part,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    ThinkingWish,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.errors import GatewayError

BUDGET = Capabilities(thinking="budget", prefill=True)
ASKED = [Turn(Role.USER, [Text("?")], True, "messages[0]")]


def plan(
    effort: str | None,
    caps: Capabilities,
    *,
    max_tokens: int = 100_000,
    forced: bool = False,
    turns: list[Turn] = ASKED,
    wish: ThinkingWish | None = None,
) -> ThinkingPlan:
    """Plan for an effort or a wish."""
    request = Request(turns, effort=effort, thinking=wish)
    return plan_thinking(request, caps, arrange(turns, caps), max_tokens, forced)


def called(*before: Part) -> list[Turn]:
    """A conversation whose last turn of the assistant has a call, behind these parts."""
    return [
        *ASKED,
        Turn(Role.ASSISTANT, [*before, ToolCall("a", "f", "{}")]),
        Turn(Role.TOOL, [ToolResult("a", [])]),
    ]


class AdaptiveTests(SynchronousTestCase):
    """Models that take an effort by name."""

    def effort(self, effort: str, *efforts: str) -> str | None:
        """Return the effort that is sent, and see that thinking is told beside it."""
        made = plan(effort, Capabilities(efforts=efforts))
        self.assertEqual(made.thinking, {"type": "adaptive", "display": "summarized"})
        self.assertTrue(made.thinks)
        return made.effort

    def test_by_name(self) -> None:
        """Each effort, where nothing is known of the model, and where it is."""
        sent = {
            "minimal": "low", "low": "low", "medium": "medium", "high": "high",
            "xhigh": "xhigh", "max": "xhigh", "newer": "newer",
        }  # fmt: skip
        self.assertEqual({name: self.effort(name) for name in sent}, sent)
        self.assertEqual(self.effort("max", "low", "medium", "high", "xhigh", "max"), "max")
        self.assertEqual(self.effort("max", "low", "high", "xhigh"), "xhigh")
        self.assertEqual(self.effort("max", "low", "high"), "high")
        self.assertEqual(self.effort("xhigh", "low", "medium", "high", "max"), "high")
        self.assertEqual(self.effort("minimal", "none", "minimal", "high"), "high")
        self.assertEqual(self.effort("medium", "low", "high"), "low")

    def test_none(self) -> None:
        """Thinking is switched off, or made little where that cannot be."""
        self.assertEqual(plan("none", Capabilities()), ThinkingPlan({"type": "disabled"}))
        self.assertEqual(plan("none", Capabilities(thinking_off=False)), ThinkingPlan(effort="low"))
        self.assertEqual(plan(None, Capabilities()), ThinkingPlan())

    def test_goes_with_the_rest(self) -> None:
        """Forced tools and unsigned calls are no hindrance; continuing an answer is."""
        want = plan("high", Capabilities())
        self.assertEqual(plan("high", Capabilities(), forced=True), want)
        self.assertEqual(plan("high", Capabilities(), turns=called()), want)
        turns = [*ASKED, Turn(Role.ASSISTANT, [Text("So")])]
        self.assertEqual(
            plan("high", Capabilities(prefill=True), turns=turns), ThinkingPlan(effort="high")
        )


class BudgetTests(SynchronousTestCase):
    """Models that take a number of tokens."""

    def test_by_effort(self) -> None:
        """The table, never more than half of what may be put out, and never too little."""
        sent = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576}
        for effort, budget in (*sent.items(), ("max", 32768)):
            want = ThinkingPlan({"type": "enabled", "budget_tokens": budget}, thinks=True)
            self.assertEqual(plan(effort, BUDGET), want)
            self.assertEqual(plan(effort, BUDGET, max_tokens=2 * budget), want)
            made = plan(effort, BUDGET, max_tokens=2 * budget - 1)
            less = {"type": "enabled", "budget_tokens": budget - 1}
            self.assertEqual(made.thinking, less if budget > 1024 else None)
            self.assertEqual(plan(effort, BUDGET, max_tokens=2047), ThinkingPlan())
        self.assertEqual({*sent, "max", "none"}, set(EFFORTS))

    def test_none(self) -> None:
        """Nothing is sent."""
        for effort in (None, "none"):
            self.assertEqual(plan(effort, BUDGET), ThinkingPlan())

    def test_unknown_effort(self) -> None:
        """No budget is known for it, which the client is told in its own words."""
        for path, name in (("messages[0]", "reasoning_effort"), ("input[0]", "reasoning.effort")):
            turns = [Turn(Role.USER, [Text("?")], path=path)]
            error = self.assertRaises(GatewayError, plan, "newer", BUDGET, turns=turns)
            assert isinstance(error, GatewayError)
            self.assertEqual(error.param, name)

    def test_excluded(self) -> None:
        """Forced tools, an answer to be continued, and a last turn of calls not thought about."""
        self.assertEqual(plan("high", BUDGET, forced=True), ThinkingPlan())
        for turns in (
            [*ASKED, Turn(Role.ASSISTANT, [Text("So")])],
            called(),
            called(Thinking("unsigned")),
            [*called(Thinking("x", "sig")), *called()],
        ):
            self.assertEqual(plan("high", BUDGET, turns=turns), ThinkingPlan())
        for turns in (
            called(Thinking("x", "sig")),
            called(RedactedThinking("x")),
            [*called(), Turn(Role.ASSISTANT, [Text("Done.")]), *ASKED],
        ):
            self.assertTrue(plan("high", BUDGET, turns=turns).thinks)


class WishTests(SynchronousTestCase):
    """The extension ``thinking`` of Chat."""

    def sent(self, wish: ThinkingWish, caps: Capabilities, **more: Any) -> bytes | None:
        """Return the member as it is sent; the effort beside it counts nothing."""
        made = plan("high", caps, wish=wish, **more)
        self.assertIsNone(made.effort)
        return None if made.thinking is None else bytes(made.thinking)

    def test_as_it_is(self) -> None:
        """It wins over the effort, and goes in its own text."""
        raw = b'{"type": "enabled", "budget_tokens": 1024.0}'
        for caps in (BUDGET, Capabilities()):
            self.assertEqual(self.sent(ThinkingWish("enabled", 1024, raw=raw), caps), raw)
        off = ThinkingWish("disabled", raw=b'{"type":"disabled"}')
        self.assertEqual(self.sent(off, BUDGET, forced=True), off.raw)
        self.assertFalse(plan(None, BUDGET, wish=off).thinks)
        self.assertTrue(plan(None, BUDGET, wish=ThinkingWish("adaptive", raw=b"{}")).thinks)

    def test_excluded(self) -> None:
        """It is left out where it would be refused."""
        wish = ThinkingWish("enabled", 1024, raw=b"{}")
        self.assertIsNone(self.sent(wish, BUDGET, forced=True))
        self.assertIsNone(self.sent(wish, BUDGET, turns=called()))
        adaptive = ThinkingWish("adaptive", raw=b"{}")
        self.assertEqual(self.sent(adaptive, Capabilities(), forced=True), b"{}")
        turns = [*ASKED, Turn(Role.ASSISTANT, [Text("So")])]
        self.assertIsNone(self.sent(adaptive, BUDGET, turns=turns))

    def test_without_its_text(self) -> None:
        """A wish that nobody kept the text of is written anew."""
        made = plan(None, BUDGET, wish=ThinkingWish("enabled", 1024))
        self.assertEqual(made.thinking, {"type": "enabled", "budget_tokens": 1024})

"""Conversations put into the order that a Messages upstream takes."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.messages.turns import OPENING, Conversation, Message, arrange
from omnigate.dialects.shapes import (
    Image,
    Part,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.errors import GatewayError

NEW = Capabilities()
OLD = Capabilities(mid_system=False, prefill=True, thinking="budget")
ROLES = {"S": Role.SYSTEM, "U": Role.USER, "A": Role.ASSISTANT, "T": Role.TOOL}


def talk(plan: str) -> list[Turn]:
    """Make turns of a plan: ``S U A T`` speak plainly, a call is ``Cx``, its result ``Tx``.

    A dot behind a letter leaves its text blank. A name may be longer: ``Cab``.
    """
    turns = []
    for index, word in enumerate(plan.split()):
        path = f"messages[{index}]"
        role = ROLES["A" if word[0] == "C" else word[0]]
        if word[0] == "C":
            turns.append(Turn(role, [call(word[1:], path)], path=path))
        elif word[0] == "T":
            turns.append(Turn(role, [result(word[1:], path)], path=path))
        else:
            said = " \n" if word.endswith(".") else word
            turns.append(Turn(role, [Text(said)], True, path))
    return turns


def call(name: str, path: str = "p") -> ToolCall:
    """A call."""
    return ToolCall(name, "f", "{}", path=f"{path}.tool_calls[0]")


def result(name: str, path: str = "p") -> ToolResult:
    """Its result."""
    return ToolResult(name, [Text("ok")], True, path=f"{path}.tool_call_id")


def plan_of(said: Conversation) -> str:
    """Tell a conversation in short: texts of the system, then each message with its parts."""
    words = [f"[{' '.join(text.text for text in said.system)}]"]
    for message in said.messages:
        parts = [f"T{one.call_id}" for one in message.results]
        for part in message.parts:
            if isinstance(part, Text):
                parts.append(part.text)
            elif isinstance(part, ToolCall):
                parts.append(f"C{part.id}")
            else:
                parts.append(type(part).__name__)
        words.append(f"{message.role.value[0]}({' '.join(parts)})")
    return " ".join(words)


class OrderTests(SynchronousTestCase):
    """Where things come to stand."""

    def test_order(self) -> None:
        """Each plan on a model that takes system messages, and on one that does not."""
        for plan, new, old in (
            ("S1 S2 U", "[S1 S2] u(U)", "[S1 S2] u(U)"),
            ("S. U", "[] u(U)", "[] u(U)"),
            ("U S", "[] u(U) s(S)", "[S] u(U)"),
            ("U S A U2", "[] u(U) s(S) a(A) u(U2)", "[S] u(U) a(A) u(U2)"),
            ("U A S U2", "[] u(U) a(A) u(U2) s(S)", "[S] u(U) a(A) u(U2)"),
            ("U A S1 U2 S2 U3", "[] u(U) a(A) u(U2 U3) s(S1 S2)", "[S1 S2] u(U) a(A) u(U2 U3)"),
            # A turn that is dropped ends nothing.
            ("U S A. U2", "[] u(U U2) s(S)", "[S] u(U U2)"),
            ("U A S A2 U2", "[] u(U) a(A A2) u(U2) s(S)", "[S] u(U) a(A A2) u(U2)"),
            ("S0 U. S U2", "[S0] u(U2) s(S)", "[S0 S] u(U2)"),
            ("U S. A U2", "[] u(U) a(A) u(U2)", "[] u(U) a(A) u(U2)"),
            ("A U", f"[] u({OPENING}) a(A) u(U)", f"[] u({OPENING}) a(A) u(U)"),
            ("S A U", f"[S] u({OPENING}) a(A) u(U)", f"[S] u({OPENING}) a(A) u(U)"),
            ("A S U", f"[] u({OPENING}) a(A) u(U) s(S)", f"[S] u({OPENING}) a(A) u(U)"),
            ("U Ca Ta U2", "[] u(U) a(Ca) u(Ta U2)", "[] u(U) a(Ca) u(Ta U2)"),
            ("U Ca U2 Ta U3", "[] u(U) a(Ca) u(Ta U2 U3)", "[] u(U) a(Ca) u(Ta U2 U3)"),
            ("U Ca Cb S Tb Ta", "[] u(U) a(Ca Cb) u(Tb Ta) s(S)", "[S] u(U) a(Ca Cb) u(Tb Ta)"),
            ("U Ca Ta Ca Ta", "[] u(U) a(Ca) u(Ta) a(Ca) u(Ta)", None),
        ):
            turns = talk(plan)
            self.assertEqual(plan_of(arrange(turns, NEW)), new, plan)
            self.assertEqual(plan_of(arrange(turns, OLD)), old or new, plan)
            self.assertEqual(turns, talk(plan), "the request was changed")

    def test_plain(self) -> None:
        """A message of one string stays a string; one merged, or of parts, does not."""
        for plan, plain in (
            ("U", [True]),
            ("U. U", [True]),
            ("U1 U2", [False]),
            ("U A U2 S", [True, True, True, True]),
            ("U S1 S2", [True, False]),
            ("U S. S2", [True, True]),
            ("U Ca Ta U", [True, False, False]),
            ("U Ca U Ta", [True, False, False]),
        ):
            messages = arrange(talk(plan), NEW).messages
            self.assertEqual([message.plain for message in messages], plain, plan)
        parts = [Turn(Role.USER, [Text("a")]), Turn(Role.SYSTEM, [Text("s")])]
        self.assertEqual([one.plain for one in arrange(parts, NEW).messages], [False, False])

    def test_thinking(self) -> None:
        """Only what the provider signed goes back to it; a turn of nothing else is dropped."""
        own: list[Part] = [
            Thinking("a"),
            Thinking("b", "omnigate.r1:eA=="),
            Thinking("c", "omnigate.v9:eA=="),
            RedactedThinking(""),
        ]
        signed: list[Part] = [Thinking("", "sig"), RedactedThinking("x")]
        turns = [
            Turn(Role.USER, [Text("u")]),
            Turn(Role.ASSISTANT, [*own, *signed, Text("a")]),
            Turn(Role.USER, [Text("u")]),
            Turn(Role.ASSISTANT, [*own]),
            Turn(Role.USER, [Text("u")]),
        ]
        messages = arrange(turns, NEW).messages
        self.assertEqual(messages[1].parts, [*signed, Text("a")])
        self.assertEqual(len(messages), 3)

    def test_thinking_first(self) -> None:
        """What was thought stands before what was said, in its order, where turns are merged."""
        thoughts: list[Part] = [Thinking("a", "s"), RedactedThinking("x"), Thinking("b", "s")]
        first, *others = thoughts
        turns = [
            Turn(Role.USER, [Text("u")]),
            Turn(Role.ASSISTANT, [Text("a"), first, Text("b")]),
            Turn(Role.ASSISTANT, [*others, ToolCall("c", "f", "{}")]),
            Turn(Role.TOOL, [ToolResult("c", [])]),
        ]
        parts = arrange(turns, NEW).messages[1].parts
        self.assertEqual(parts, [*thoughts, Text("a"), Text("b"), ToolCall("c", "f", "{}")])


class RefusalTests(SynchronousTestCase):
    """What cannot be put right."""

    def refused(self, plan: str, path: str, caps: Capabilities = NEW) -> None:
        """Expect that a plan is refused with this place."""
        error = self.assertRaises(GatewayError, arrange, talk(plan), caps)
        assert isinstance(error, GatewayError)
        self.assertEqual((error.kind.code, error.param), ("untranslatable_request", path), plan)
        self.assertIn(path, error.message)

    def test_nothing_said(self) -> None:
        """Blanks and system texts are nothing to answer; the place is the client's word for it."""
        for plan in ("", "S", "U.", "S U. A. S"):
            self.refused(plan, "messages")
        turns = [Turn(Role.SYSTEM, [Text("x")], path="instructions"), Turn(Role.USER, [], path="")]
        error = self.assertRaises(GatewayError, arrange, turns, NEW)
        assert isinstance(error, GatewayError)
        self.assertEqual(error.param, "input")

    def test_pairs(self) -> None:
        """Each call has its result in the very next turn of the user, and the reverse."""
        self.refused("U Ca", "messages[1].tool_calls[0]")
        self.refused("U Ca U", "messages[1].tool_calls[0]")
        self.refused("U Ca Cb Ta", "messages[2].tool_calls[0]")
        self.refused("U Ca U A Ta", "messages[1].tool_calls[0]")
        self.refused("U Ca Ta Tb", "messages[3].tool_call_id")
        self.refused("U Ca Ta Ta", "messages[3].tool_call_id")
        self.refused("U Ca Ta A U Ta", "messages[5].tool_call_id")
        self.refused("Ta U", "messages[0].tool_call_id")
        self.refused("U A Ta", "messages[2].tool_call_id")

    def test_prefill(self) -> None:
        """A last message of the assistant, where it is not continued or is no text."""
        self.refused("U A", "messages[1]")
        self.refused("U A1 A2 S U.", "messages[2]")
        turns = [*talk("U A"), Turn(Role.ASSISTANT, [Thinking("x", "sig")], path="messages[2]")]
        error = self.assertRaises(GatewayError, arrange, turns, OLD)
        assert isinstance(error, GatewayError)
        self.assertEqual(error.param, "messages[2]")

    def test_prefill_is_trimmed(self) -> None:
        """Its last text loses white space at the end, the others keep it."""
        turns = [*talk("U"), Turn(Role.ASSISTANT, [Text("a "), Text(" b \n")])]
        said = arrange(turns, OLD)
        self.assertTrue(said.prefill)
        self.assertEqual(said.messages[1].parts, [Text("a "), Text(" b")])
        self.assertEqual(turns[1].parts, [Text("a "), Text(" b \n")])

    def test_system_of_pictures(self) -> None:
        """The system speaks in text only, on top and in place."""
        turn = Turn(Role.SYSTEM, [Image(url="https://example.test")], path="messages[0]")
        for turns in ([turn, *talk("U")], [*talk("U"), turn]):
            error = self.assertRaises(GatewayError, arrange, turns, NEW)
            assert isinstance(error, GatewayError)
            self.assertEqual(error.param, "messages[0]")


WORDS = st.sampled_from(["S", "S.", "U", "U.", "A", "A.", "Ca", "Cb", "Ta", "Tb"])


class AnyConversationTests(SynchronousTestCase):
    """Whatever is said, what is not refused is as the provider demands."""

    @settings(max_examples=400)
    @given(st.lists(WORDS, max_size=14).map(" ".join), st.booleans())
    def test_rules(self, plan: str, mid_system: bool) -> None:
        """Roles alternate, system messages stand behind the user, pairs are whole."""
        turns = talk(plan)
        try:
            said = arrange(turns, Capabilities(mid_system=mid_system, prefill=True))
        except GatewayError as error:
            self.assertEqual(error.kind.code, "untranslatable_request")
            return
        roles = [message.role for message in said.messages]
        self.assertIs(roles[0], Role.USER)
        self.assertEqual(said.prefill, roles[-1] is Role.ASSISTANT)
        for before, role in itertools.pairwise(roles):
            allowed = {
                Role.USER: (Role.ASSISTANT,),
                Role.ASSISTANT: (Role.USER, Role.SYSTEM),
                Role.SYSTEM: (Role.USER,),
            }[role]
            self.assertIn(before, allowed)
        self.assertTrue(mid_system or Role.SYSTEM not in roles)
        spoken = [one for message in said.messages for one in self._texts(message)]
        spoken += [text.text for text in said.system]
        want = [word for word in plan.split() if word in ("S", "U", "A")]
        self.assertEqual(sorted(one for one in spoken if one != OPENING), sorted(want))
        for index, message in enumerate(said.messages):
            if message.calls:
                ids = sorted(one.id for one in message.calls)
                answers = said.messages[index + 1].results
                self.assertEqual(ids, sorted(one.call_id for one in answers))

    def _texts(self, message: Message) -> list[str]:
        return [part.text for part in message.parts if isinstance(part, Text)]

"""The golden cases themselves: there, of all six directions, and compared with care."""

import json

from twisted.trial.unittest import SynchronousTestCase

from tests.dialects.vectors import events, same_answer, same_events, same_request, vectors


class ComparingTests(SynchronousTestCase):
    """What is compared can fail."""

    def test_all_directions(self) -> None:
        """Each of the six has cases, and each case has capabilities."""
        directions = {(case.client, case.upstream) for case in vectors()}
        self.assertEqual(len(directions), 6)
        for case in vectors():
            self.assertTrue(case.caps)

    def test_expected_is_accepted(self) -> None:
        """Every case accepts what it asks for."""
        for case in vectors():
            if case.sent is not None:
                same_request(case, json.dumps(case.sent).encode())
            if "json" in case.told:
                same_answer(case, json.dumps(case.told["json"]).encode())
            if "sse" in case.told:
                same_events(case, "".join(case.told["sse"]).encode())

    def test_a_difference_is_seen(self) -> None:
        """A member too many, one too few and another value are all told."""
        case = vectors("chat", "messages")[0]
        assert case.sent is not None
        for sent in (
            case.sent | {"top_p": 1},
            {name: value for name, value in case.sent.items() if name != "max_tokens"},
            case.sent | {"max_tokens": 1},
        ):
            self.assertRaises(AssertionError, same_request, case, json.dumps(sent).encode())

    def test_a_missing_event_is_seen(self) -> None:
        """A stream without its last event, and one with another text, are told."""
        case = next(case for case in vectors("chat", "messages") if "sse" in case.told)
        told = case.told["sse"]
        short = "".join(told[:-1]).encode()
        self.assertRaises(AssertionError, same_events, case, short)
        other = "".join(told).replace('"content":"', '"content":"x', 1).encode()
        self.assertRaises(AssertionError, same_events, case, other)
        self.assertEqual(events(b": ping\n\ndata: [DONE]\n\n"), [("", "[DONE]")])

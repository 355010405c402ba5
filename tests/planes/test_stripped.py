"""What the gateway packed into answers never reaches a provider of the client's own protocol."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.packing import OWN_PREFIX
from omnigate.gateway.prepared_attempt import OWN_TURN_BYTES
from tests.planes.memory import MemoryDataPlane, reply, request, route, upstream
from tests.planes.scenes import ERROR, MESSAGE

OWN = f"{OWN_PREFIX}r1:e30="


def messages(signature: str, text: str = "Hi") -> bytes:
    """A conversation that goes on behind thinking with a signature."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": signature}
    return json.dumps(
        {
            "model": "small",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": [thinking, {"type": "text", "text": "Hello"}]},
                {"role": "user", "content": "And?"},
            ],
        }
    ).encode()


class StrippedTests(SynchronousTestCase):
    def plane(self, *protocols: str) -> MemoryDataPlane:
        names = [f"u{index}" for index in range(1, len(protocols) + 1)]
        return MemoryDataPlane(
            routes=[route("small", *((name, f"m-{name}") for name in names))],
            upstreams=[upstream(n, p) for n, p in zip(names, protocols, strict=True)],
        )

    def sent(self, plane: MemoryDataPlane) -> Any:
        return json.loads(plane.last.requests().rpartition(b"\r\n\r\n")[2])

    def test_messages(self) -> None:
        """Thinking that no provider signed is cut, and all else is as the client wrote it."""
        for path in (b"/v1/messages?beta=true", b"/v1/messages/count_tokens"):
            for signature in (OWN, ""):
                plane = self.plane("anthropic")
                plane.client().send(request(messages(signature), path))
                self.assertIn(b"POST " + path, plane.last.requests())
                sent = self.sent(plane)
                self.assertEqual("m-u1", sent["model"])
                self.assertEqual(
                    [{"type": "text", "text": "Hello"}], sent["messages"][1]["content"]
                )
                self.assertEqual(0, plane.plane.parse_memory.bytes)

    def test_signed(self) -> None:
        """A provider's own signature passes, with every byte around it."""
        body = messages("EqQB")
        plane = self.plane("anthropic")
        plane.client().send(request(body, b"/v1/messages"))
        self.assertTrue(
            plane.last.requests().endswith(b"\r\n\r\n" + body.replace(b'"small"', b'"m-u1"'))
        )

    def test_responses(self) -> None:
        """So are reasoning items that the gateway packed."""
        body = json.dumps(
            {
                "model": "small",
                "input": [
                    {"type": "reasoning", "summary": [], "encrypted_content": OWN},
                    {"role": "user", "content": "Hi"},
                ],
            }
        ).encode()
        plane = self.plane("openai")
        plane.client().send(request(body, b"/v1/responses"))
        self.assertEqual([{"role": "user", "content": "Hi"}], self.sent(plane)["input"])

    def test_every_target(self) -> None:
        """Each target is sent it so, under its own model, whatever was asked before."""
        plane = self.plane("anthropic", "anthropic")
        client = plane.client()
        client.send(request(messages(OWN), b"/v1/messages"))
        plane.last.answer(reply(ERROR, b"500 Oops"))
        sent = self.sent(plane)
        self.assertEqual(("m-u2", 1), (sent["model"], len(sent["messages"][1]["content"])))
        plane.last.answer(reply(MESSAGE))
        self.assertEqual(200, client.answer.status)

    def test_large(self) -> None:
        """A large one is read in a turn of its own."""
        plane = self.plane("anthropic")
        plane.client().send(request(messages(OWN, "x" * OWN_TURN_BYTES), b"/v1/messages"))
        plane.turn()
        self.assertEqual(1, len(self.sent(plane)["messages"][1]["content"]))

    def test_no_room(self) -> None:
        """Without room to read it the client is told to come back."""
        plane = self.plane("anthropic")
        plane.plane.parse_memory.bytes = plane.plane.parse_memory.budget_bytes
        client = plane.client()
        client.send(request(messages(OWN), b"/v1/messages"))
        self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
        client.send(request(messages("EqQB"), b"/v1/messages"))
        self.assertEqual(1, len(plane.opened))

    def test_too_intricate(self) -> None:
        """What no tree is made of passes as it is: its provider says what is wrong."""
        body = messages(OWN)[:-1] + b',"x":[' + b"[]," * 700_000 + b"[]]}"
        plane = self.plane("anthropic")
        client = plane.client()
        whole = request(body, b"/v1/messages")
        for start in range(0, len(whole), 65536):
            client.send(whole[start : start + 65536])
        plane.turn()
        self.assertIn(OWN.encode(), plane.last.requests())

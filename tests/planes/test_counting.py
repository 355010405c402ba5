"""Token counts for clients of Messages at upstreams of OpenAI's protocol."""

import json

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.gateway.prepared_attempt import OWN_TURN_BYTES
from tests.planes.memory import MemoryDataPlane, key, reply, request, route, upstream
from tests.planes.scenes import ERROR, STREAM_HEAD

PATH = b"/v1/messages/count_tokens"
BODY = (
    b'{"model":"small","system":"Be brief.","messages":[{"role":"user","content":"Hi"}],'
    b'"tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"adaptive"}}'
)
COUNT = b'{"object":"response.input_tokens","input_tokens":17}'
ESTIMATE = b"x-omnigate-estimate"


class CountingTests(SynchronousTestCase):
    def ask(self, plane: MemoryDataPlane, body: bytes = BODY) -> None:
        self.plane = plane
        self.client = plane.client()
        self.client.send(request(body, PATH))

    def over_responses(self) -> MemoryDataPlane:
        return MemoryDataPlane(capabilities=[Capabilities(upstream_api="responses")])

    def check(self, estimated: bool, *outcomes: str) -> int:
        """The client was told a count, at no cost."""
        answer = self.client.answer
        self.assertEqual((200, ["input_tokens"]), (answer.status, list(answer.json)))
        self.assertEqual(estimated, answer.headers.get(ESTIMATE) == b"input_tokens")
        self.assertEqual(b"application/json", answer.headers[b"content-type"])
        [event] = self.plane.events
        self.assertEqual(
            (200, 0, 0, False, "count_tokens"),
            (
                event.status,
                event.input_tokens,
                event.output_tokens,
                event.estimated,
                event.endpoint,
            ),
        )
        self.assertEqual(list(outcomes), self.plane.outcomes)
        self.assertEqual([], self.plane.refused)
        self.assertEqual((0, 0), (self.plane.in_flight, self.plane.plane.parse_memory.bytes))
        return int(answer.json["input_tokens"])

    def test_asked(self) -> None:
        """An upstream of Responses counts, and is sent only what counts."""
        for plane in (
            self.over_responses(),
            MemoryDataPlane(upstreams=[upstream("u1", base_url="http://api.openai.com/v1")]),
        ):
            self.ask(plane)
            sent = plane.last.requests()
            self.assertTrue(sent.startswith(b"POST /v1/responses/input_tokens HTTP/1.1\r\n"))
            body = json.loads(sent.rpartition(b"\r\n\r\n")[2])
            self.assertEqual("vendor-1", body["model"])
            self.assertEqual(set(), set(body) & {"store", "include", "stream", "max_output_tokens"})
            self.assertEqual("f", body["tools"][0]["name"])
            plane.last.answer(reply(COUNT))
            self.assertEqual(17, self.check(False, "ok"))

    def test_counted(self) -> None:
        """All that may count is sent, and nothing else."""
        body = json.loads(BODY) | {
            "max_tokens": 9,
            "temperature": 0.5,
            "metadata": {"user_id": "u"},
            "service_tier": "auto",
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"type": "object"}},
            },
        }
        caps = Capabilities(upstream_api="responses", reasoning=True)
        self.ask(MemoryDataPlane(capabilities=[caps]), json.dumps(body).encode())
        sent = json.loads(self.plane.last.requests().rpartition(b"\r\n\r\n")[2])
        counted = ["input", "model", "parallel_tool_calls", "reasoning"]
        self.assertEqual([*counted, "text", "tool_choice", "tools"], sorted(sent))

    def test_estimated(self) -> None:
        """For any other the gateway tells an estimate, and asks nobody."""
        self.ask(MemoryDataPlane())
        self.assertEqual([], self.plane.opened)
        self.assertGreater(self.check(True), 5)

    def test_estimated_where_counting_fails(self) -> None:
        """So it does where the upstream cannot tell, however it fails."""
        for answer, outcome in (
            (reply(ERROR, b"404 Gone"), "status_404"),
            (reply(ERROR, b"429 Slow"), "status_429"),
            (reply(ERROR, b"500 Oops"), "status_500"),
            (reply(ERROR, b"401 Who"), "upstream_auth"),
            (reply(b"{}"), "not_json"),
            (reply(b"<html>"), "not_json"),
            (reply(b"[" * 100_000), "not_json"),
            (STREAM_HEAD, "unasked_stream"),
            (b"garbage\r\n\r\n", "bad_framing"),
        ):
            self.ask(self.over_responses())
            self.plane.last.answer(answer)
            self.check(True, outcome)
        self.ask(self.over_responses())
        self.plane.last.close(ConnectionLost)
        self.check(True, "connection_lost")
        self.ask(self.over_responses())
        self.plane.advance(6)
        self.check(True, "timeout")
        plane = self.over_responses()
        plane.refusing = {"u1"}
        self.ask(plane)
        self.check(True, "connect_error")

    def test_large(self) -> None:
        """A large request is counted in a turn of its own."""
        self.ask(MemoryDataPlane(), BODY.replace(b"Hi", b"x" * OWN_TURN_BYTES))
        self.plane.turn()
        self.assertGreater(self.check(True), OWN_TURN_BYTES // 4)

    def test_anthropic_upstream(self) -> None:
        """An upstream of the client's protocol is asked as it is, in the route's order."""
        plane = MemoryDataPlane(
            routes=[route("small", ("u2", "m"), ("u1", "m"))],
            upstreams=[upstream("u1"), upstream("u2", "anthropic")],
        )
        self.ask(plane)
        self.assertEqual(["u2"], plane.at)
        plane.last.answer(reply(ERROR, b"500 Oops"))
        self.check(True, "status_500")

    def test_refused(self) -> None:
        """What could not be asked of the model is not counted either."""
        self.ask(MemoryDataPlane(), BODY.replace(b'"Hi"', b'[{"type":"container_upload"}]'))
        self.assertEqual((400, "untranslatable_request"), self.told())
        self.assertEqual([("k1", "untranslatable_request")], self.plane.refused)

    def told(self) -> tuple[int, str]:
        return self.client.answer.status, self.client.answer.code

    def test_not_charged(self) -> None:
        """Counts use nothing of the key's minute."""
        plane = MemoryDataPlane(keys=[key(rpm=1)])
        for _ in range(5):
            self.ask(plane)
            self.assertEqual(200, self.client.answer.status)

    def test_left(self) -> None:
        """A client that leaves is not told, and its upstream is read on."""
        self.ask(self.over_responses())
        self.client.leave()
        self.plane.last.answer(reply(COUNT))
        [event] = self.plane.events
        self.assertEqual((499, 0, False), (event.status, event.input_tokens, event.estimated))

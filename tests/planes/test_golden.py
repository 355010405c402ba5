"""The golden cases on the whole path: client bytes in, upstream bytes out, the answer back."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from pathlib import Path
from typing import Any

import attrs
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.dialects.vectors import (
    FOLDER,
    Vector,
    same_answer,
    same_events,
    same_request,
    vectors,
)
from tests.planes.memory import FakeClient, MemoryDataPlane, reply, request, route, upstream
from tests.planes.scenes import END, STREAM_HEAD, chunk

PATHS = {
    "chat": b"/v1/chat/completions",
    "messages": b"/v1/messages",
    "responses": b"/v1/responses",
}
#: A status at which the walk over the targets goes on, so that its end is the answer.
WALKED_ON = (401, 403, 429, 500, 502, 503, 504, 529)
#: How often each stream is cut, each time elsewhere.
CUTS = 12


def plane_for(vector: Vector) -> MemoryDataPlane:
    """A plane whose only target is the case's model, asked over the case's API."""
    protocol = "anthropic" if vector.upstream == "messages" else "openai"
    caps = vector.caps
    if protocol == "openai":
        caps = attrs.evolve(caps, upstream_api=vector.upstream)
    model = vector.request["model"]
    version = vector.context.get("anthropic_version")
    return MemoryDataPlane(
        routes=[route(model, ("u1", model))],
        upstreams=[upstream("u1", protocol, anthropic_version=version)],
        capabilities=[caps],
    )


def ask(plane: MemoryDataPlane, vector: Vector) -> FakeClient:
    """Send the case's request as its client."""
    client = plane.client()
    lines = "".join([f"{name}: {value}\r\n" for name, value in vector.headers.items()])
    client.send(request(vector.body, PATHS[vector.client], lines.encode()))
    return client


def answer_bytes(vector: Vector) -> bytes:
    """The case's answer as its upstream writes it, head and all."""
    assert vector.answer is not None
    if vector.streamed:
        return STREAM_HEAD + b"".join([chunk(e.encode()) for e in vector.answer["sse"]]) + END
    lines = "".join([f"{k}: {v}\r\n" for k, v in (vector.answer.get("headers") or {}).items()])
    return reply(vector.answer_body, b"%d Any" % vector.answer["status"], lines.encode())


def pieces(data: bytes, cuts: random.Random) -> list[bytes]:
    """Cut bytes anywhere: into single ones, into few large ones, or mixed."""
    most = cuts.choice((1, 3, 50, len(data)))
    found, at = [], 0
    while at < len(data):
        size = cuts.randint(1, most)
        found.append(data[at : at + size])
        at += size
    return found


def checker() -> Any:
    """The script that checks cases with the official packages, where it is at hand."""
    shared = os.environ.get("OMNIGATE_TEST_SHARED")
    place = Path(shared or FOLDER.parents[2] / "shared") / "reference/vectors/check_vectors.py"
    if not place.is_file():
        raise SkipTest(f"there is no {place}; OMNIGATE_TEST_SHARED may say where it is")
    spec = importlib.util.spec_from_file_location("check_vectors", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise SkipTest(f"the official packages are not there: {error}") from None
    return module


class GoldenTests(SynchronousTestCase):
    def answered(self, vector: Vector, *parts: bytes) -> tuple[MemoryDataPlane, FakeClient]:
        """Play a case to its end and return the scene; what went upstream is as it must be."""
        plane = plane_for(vector)
        client = ask(plane, vector)
        sent = plane.last.requests()
        line = b"POST %b HTTP/1.1\r\n" % PATHS[vector.upstream]
        self.assertTrue(sent.startswith(line), (vector.name, sent))
        same_request(vector, sent.partition(b"\r\n\r\n")[2])
        for part in parts:
            if plane.last.open:
                plane.last.answer(part)
        return plane, client

    def test_wholes(self) -> None:
        """Whole answers and errors, of all six directions."""
        directions = set()
        for vector in vectors():
            if vector.sent is None or vector.streamed:
                continue
            assert vector.answer is not None
            if vector.answer["status"] in WALKED_ON:
                continue
            directions.add((vector.client, vector.upstream))
            plane, client = self.answered(vector, answer_bytes(vector))
            told = client.answer
            self.assertEqual((vector.told["status"], True), (told.status, told.whole), vector.name)
            same_answer(vector, told.body)
            self.assertEqual(1, len(plane.events), vector.name)
        self.assertEqual(6, len(directions))

    def test_streams(self) -> None:
        """Streams of all six directions, cut anywhere, within their framing, too."""
        cuts = random.Random(4)
        directions = set()
        for vector in vectors():
            if vector.sent is None or not vector.streamed:
                continue
            directions.add((vector.client, vector.upstream))
            data = answer_bytes(vector)
            broken = "error" in json.dumps(vector.told["sse"][-1:])
            for turn in range(CUTS + 1):
                parts = pieces(data, cuts) if turn else [data]
                plane, client = self.answered(vector, *parts)
                told = client.answer
                self.assertEqual(200, told.status, vector.name)
                same_events(vector, told.body)
                self.assertEqual(1, len(plane.events), vector.name)
                if not broken:
                    self.assertTrue(told.whole, vector.name)
                self.assertEqual((0, 0), (plane.in_flight, plane.plane.held.bytes))
        self.assertEqual(6, len(directions))

    def test_refused(self) -> None:
        """What is refused never reaches an upstream, costs nothing, and is counted."""
        refused = [vector for vector in vectors() if vector.sent is None]
        self.assertGreater(len(refused), 9)
        for vector in refused:
            plane = plane_for(vector)
            client = ask(plane, vector)
            self.assertEqual([], plane.opened, vector.name)
            self.assertEqual(vector.told["status"], client.answer.status, vector.name)
            same_answer(vector, client.answer.body)
            error = vector.told["json"]["error"]
            code = error.get("code") or error["details"]["error_code"]
            self.assertEqual([("k1", code)], plane.refused, vector.name)
            self.assertEqual([], plane.events, vector.name)

    def test_walked_on(self) -> None:
        """Errors behind which the next target is tried end as the walk ends."""
        seen = set()
        for vector in vectors():
            status = vector.answer["status"] if vector.answer is not None else 200
            if status not in WALKED_ON:
                continue
            seen.add(status)
            wanted = (502, "all_upstreams_failed")
            if status == 429:
                wanted = (429, "upstream_rate_limited")
            elif status in (401, 403):
                wanted = (502, "upstream_authentication_failed")
            _, client = self.answered(vector, answer_bytes(vector))
            error = client.answer.json["error"]
            self.assertEqual(wanted, (client.answer.status, error["code"]), vector.name)
        self.assertLess({401, 429}, seen)

    def test_official_packages(self) -> None:
        """The official packages take what is sent and told, and find the same in both."""
        check = checker().check
        for vector in vectors():
            if vector.answer is not None and vector.answer["status"] in WALKED_ON:
                continue
            case = json.loads((FOLDER / f"{vector.name}.json").read_text(encoding="utf-8"))
            told: dict[str, Any] = {}
            if vector.sent is None:
                client = ask(plane_for(vector), vector)
            else:
                plane, client = self.answered(vector, answer_bytes(vector))
                sent = plane.last.requests().partition(b"\r\n\r\n")[2]
                case["expected_upstream_request"] = json.loads(sent)
            body = client.answer.body.decode()
            if vector.streamed:
                told["sse"] = [event + "\n\n" for event in body.split("\n\n")[:-1]]
            else:
                told["json"] = json.loads(body)
            case["expected_client_answer"] = {"status": client.answer.status, **told}
            check(case, vector.name)

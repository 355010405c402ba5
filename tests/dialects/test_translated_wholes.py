"""Golden cases through the readers and writers: requests, whole answers and refusals."""

import importlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import Frame, Quirk, Request, Written
from omnigate.errors import GatewayError
from tests.dialects.vectors import Vector, same_answer, same_request, vectors


def piece(protocol: str, module: str) -> Any:
    """Return a module of a protocol's package."""
    return importlib.import_module(f"omnigate.dialects.{protocol}.{module}")


def translate(vector: Vector) -> tuple[Request, Written]:
    """Read a case's request and write it for its upstream."""
    request: Request = piece(vector.client, "request_reader").read_request(vector.body)
    model = vector.request["model"]
    writer = piece(vector.upstream, "request_writer")
    return request, writer.write_request(request, model, vector.caps, Quirk.NONE)


def frame(vector: Vector) -> Frame:
    """Return the frame of a case's answer."""
    request, written = translate(vector)
    return Frame(
        id="0123456789abcdef0123456789abcdef",
        created=1764441600,
        model=vector.request["model"],
        include_usage=request.include_usage,
        wants_thinking=request.wants_thinking,
        tool_names=written.tool_names,
        echo=request.echo,
    )


class RequestTests(SynchronousTestCase):
    """What the client sends becomes what must go upstream, or is refused by name."""

    def test_sent(self) -> None:
        """Every case that is sent on is sent as it must be."""
        for vector in vectors():
            if vector.sent is not None:
                same_request(vector, translate(vector)[1].body)

    def test_refused(self) -> None:
        """Every case that is refused names its field."""
        for vector in vectors():
            if vector.sent is None:
                error = self.assertRaises(GatewayError, translate, vector)
                self.assertEqual(error.kind.code, "untranslatable_request", vector.name)
                told = vector.told["json"]["error"]
                if "param" in told:
                    self.assertEqual(error.param, told["param"], vector.name)
                else:
                    self.assertTrue(error.param, vector.name)


class AnswerTests(SynchronousTestCase):
    """What the upstream answers becomes what the client must be told."""

    def test_whole(self) -> None:
        """Every whole answer is told as it must be."""
        for vector in vectors():
            answer = vector.answer
            if answer is None or answer["status"] >= 400 or "sse" in answer:
                continue
            meter = Meter(vector.upstream, stream=False)
            read = piece(vector.upstream, "answer_reader").read_answer(vector.answer_body, meter)
            writer = piece(vector.client, "answer_writer")
            same_answer(vector, writer.write_answer(read, frame(vector)))
            self.assertTrue(meter.closing_seen, vector.name)

"""SIGTERM and SIGINT: what is under way is finished, what was used is delivered, the end is 0."""

import http.client
import json
import signal
import socket
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.daemon import HURRY_SECONDS
from tests.process.daemons import (
    SECONDS,
    Daemon,
    Gateway,
    key_of,
    key_table,
    read_answer,
    route_table,
    upstream_table,
    wait_for,
)

MODELS = {
    "small": "fake-small",
    "paced": "fake-words-40-paced-20",
    "silent": "fake-silent-after-4",
    "never": "fake-silent",
}


def config(provider_port: int) -> str:
    """One key, one provider, several models."""
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


class Stream:
    """A stream that has begun: its head has come and nothing of its body was read."""

    def __init__(self, port: int, model: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "stream": True}
        headers = {"authorization": f"Bearer {key_of('app')}"}
        self._connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        self.response = self._connection.getresponse()

    @property
    def id(self) -> str:
        """The request id."""
        return self.response.headers["x-omnigate-request-id"]

    def close(self) -> None:
        """Leave."""
        self.response.close()
        self._connection.close()


class StopCase(SynchronousTestCase):
    """With a gateway to stop."""

    def setUp(self) -> None:
        self.gateway = Gateway(config, {"SHUTDOWN_GRACE_MS": "20000"})
        self.addCleanup(self.gateway.stop)

    def start(self, **settings: str) -> Daemon:
        """Start everything, the data plane with an access log of its own."""
        self.gateway.start_provider()
        self.gateway.start_control()
        access_log = str(self.gateway.folder / "access.log")
        self.gateway.data = run = self.gateway.spawn("data", ACCESS_LOG=access_log, **settings)
        run.wait_ready(self.gateway.data_port)
        return run

    def stream(self, model: str) -> Stream:
        """Begin a stream."""
        stream = Stream(self.gateway.data_port, model)
        self.addCleanup(stream.close)
        self.assertEqual(stream.response.status, 200)
        return stream

    def refuses(self) -> bool:
        """Whether the data plane takes no connections any more."""
        try:
            self.gateway.get("/healthz")
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False

    def event(self, request_id: str) -> dict[str, Any]:
        """An event that is recorded by now."""
        (event,) = [event for event in self.gateway.ledger() if event["id"] == request_id]
        return event


class DataPlaneTests(StopCase):
    """The data plane stops."""

    def test_streams_are_drained(self) -> None:
        """A stream in flight goes on to its end; no new request is taken; the status is 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            data = self.start() if number == signal.SIGTERM else self.gateway.start_data()
            stream = self.stream("paced")
            data.send(number)
            wait_for("the listener to close", self.refuses)
            self.assertTrue(data.running())
            answer = read_answer(stream.response)
            self.assertTrue(answer.whole)
            self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"))
            self.assertEqual(data.wait(), 0)
            # The last delivery came before the end.
            event = self.event(stream.id)
            self.assertEqual((event["status"], event["output_tokens"]), (200, 40))
            self.assertEqual(self.gateway.waiting(), 0)

    def test_grace_is_over(self) -> None:
        """What does not end in time is cut and billed by an estimate; the status is 0."""
        data = self.start(SHUTDOWN_GRACE_MS="300")
        stream = self.stream("silent")
        data.terminate()
        self.assertFalse(read_answer(stream.response).whole)
        self.assertEqual(data.wait(), 0)
        event = self.event(stream.id)
        self.assertEqual((event["status"], event["estimated"]), (499, True))
        self.assertIn("1 requests did not end in time", data.log())

    def test_answers_of_clients_that_left(self) -> None:
        """An answer that is read on for a client that left is billed by what has come of it."""
        data = self.start()
        stream = self.stream("silent")
        stream.response.read1()
        stream.close()
        wait_for("the provider to have served", lambda: self.gateway.served()["requests"] == 1)
        self.assertEqual(self.gateway.ask("small").status, 200)
        self.assertEqual(self.gateway.served()["left"], 0)
        data.terminate()
        self.assertEqual(data.wait(), 0)
        event = self.event(stream.id)
        self.assertEqual((event["status"], event["estimated"]), (499, True))

    def test_control_plane_is_away(self) -> None:
        """What cannot be delivered stays in the spool, and the stop is still a clean one."""
        data = self.start()
        control = self.gateway.control
        assert control is not None
        control.terminate()
        self.assertEqual(control.wait(), 0)
        answer = self.gateway.ask("small")
        data.terminate()
        self.assertEqual(data.wait(), 0)
        self.assertEqual(self.gateway.waiting(), 1)
        self.gateway.start_control()
        self.gateway.start_data()
        self.gateway.event(answer.id)


class SecondSignalTests(StopCase):
    """A second SIGTERM or SIGINT, of which somebody in a hurry sends one."""

    def stop_at_once(self, run: Daemon, first: int, second: int) -> None:
        """Have a daemon stop, and then stop at once; it ends in order, and soon."""
        run.send(first)
        wait_for("the stop to begin", self.refuses)
        self.assertTrue(run.running())
        begun = time.monotonic()
        run.send(second)
        self.assertEqual(run.wait(), 0, run.log_tail())
        # A second is the bound; the rest is for a machine that is busy with other things.
        self.assertLess(time.monotonic() - begun, HURRY_SECONDS + 4)
        self.assertIn("was asked to stop once more", run.log())

    def test_streams_are_cut(self) -> None:
        """The grace is over: a stream is cut and its one event is in the spool, for later."""
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
            data = self.start() if first == signal.SIGTERM else self.gateway.start_data()
            stream = self.stream("silent")
            left = self.stream("silent")
            left.response.read1()
            left.close()
            self.stop_at_once(data, first, second)
            self.assertFalse(read_answer(stream.response).whole)
            self.assertEqual(self.gateway.waiting(), 2)
            self.assertNotIn("Traceback", data.log())
            ids = {stream.id, left.id}
            self.assertFalse(ids & {event["id"] for event in self.gateway.ledger()})
            self.gateway.start_data()
            for request_id in ids:
                event = self.gateway.event(request_id)
                self.assertEqual((event["status"], event["estimated"]), (499, True))
            again = self.gateway.data
            assert again is not None
            again.terminate()
            self.assertEqual(again.wait(), 0)

    def test_delivery_is_not_waited_for(self) -> None:
        """A control plane that takes connections and says nothing holds nobody up."""
        data = self.start()
        control = self.gateway.control
        assert control is not None
        control.terminate()
        self.assertEqual(control.wait(), 0)
        with socket.create_server(("127.0.0.1", self.gateway.control_port)):
            answer = self.gateway.ask("small")
            self.stop_at_once(data, signal.SIGTERM, signal.SIGINT)
        self.assertEqual(self.gateway.waiting(), 1)
        self.gateway.start_control()
        self.gateway.start_data()
        self.gateway.event(answer.id)

    def test_control_plane(self) -> None:
        """Two signals in a row, and three, leave a ledger that the next start reads whole."""
        self.start()
        answers = []
        for count in (2, 3):
            control = self.gateway.control
            assert control is not None
            answers.append(self.gateway.ask("small"))
            for _ in range(count):
                control.send(signal.SIGTERM)
            # The third comes before the end or after it: in order, or where it stood.
            self.assertIn(control.wait(), (0, 70) if count == 3 else (0,))
            self.gateway.start_control()
            for answer in answers:
                self.gateway.event(answer.id)
        self.assertEqual(len(self.gateway.ledger()), len(answers))


class ControlPlaneTests(StopCase):
    """The control plane stops."""

    def test_stop(self) -> None:
        """It ends with 0; text goes on; what was used meanwhile is recorded later."""
        self.start()
        answers = [self.gateway.ask("small")]
        for number in (signal.SIGTERM, signal.SIGINT):
            control = self.gateway.control
            assert control is not None
            control.send(number)
            answers.append(self.gateway.ask("small"))
            self.assertEqual(control.wait(), 0)
            answers.append(self.gateway.ask("small", stream=True))
            self.gateway.start_control()
        for answer in answers:
            self.gateway.event(answer.id)

    def test_text_goes_on(self) -> None:
        """While it is away the log says so once, and every request is answered as ever."""
        data = self.start()
        control = self.gateway.control
        assert control is not None
        control.kill()
        answers = [self.gateway.ask("small", stream=bool(turn % 2)) for turn in range(20)]
        self.assertEqual({(answer.status, answer.whole) for answer in answers}, {(200, True)})
        words = ("usage events wait in the spool", "the config cannot be fetched")
        wait_for("the log to say so", lambda: all(said in data.log() for said in words))
        before = len(data.log().splitlines())
        with socket.create_server(("127.0.0.1", self.gateway.control_port)) as nobody:
            nobody.settimeout(SECONDS)
            for _ in range(4):
                nobody.accept()[0].close()
        self.assertEqual(len(data.log().splitlines()), before, data.log_tail())
        self.assertEqual(self.gateway.get("/readyz").status, 200)
        self.assertEqual(self.gateway.ledger(), [])
        self.gateway.start_control()
        for answer in answers:
            self.gateway.event(answer.id)

    def test_damaged_cache(self) -> None:
        """A copy of the config that is damaged is not served from; the control plane mends it."""
        data = self.start()
        data.terminate()
        data.wait()
        control = self.gateway.control
        assert control is not None
        control.kill()
        (self.gateway.folder / "data" / "omnigate-config.cache.json").write_text('{"version":')
        self.gateway.data = run = self.gateway.spawn("data")
        run.wait_ready(self.gateway.data_port, "/healthz")
        self.assertEqual(self.gateway.get("/readyz").status, 503)
        self.gateway.start_control()
        run.wait_ready(self.gateway.data_port)
        self.gateway.event(self.gateway.ask("small").id)

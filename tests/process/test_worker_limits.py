"""Limits of a data plane of several workers: each of them is one for all."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
import time

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
from tests.process.test_workers import Caller, WorkersCase, workers_of

MODELS = {"small": "fake-small", "long": "fake-words-150-paced-20"}

#: The limits of the key, and how many ask at once.
IN_FLIGHT = 4
RPM = 12
CROWD = 24
#: Tokens a minute, and the output that each request asks for: a third one would have to wait for
#: half a minute.
TPM = 3_000_000
OUTPUT = 1_400_000

FULL = b"HTTP/1.1 503 "
PROBE = b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n"


def config(provider_port: int) -> str:
    """A key with few places, one with a low rate, and one with tokens for two requests."""
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    keys = key_table("app", max_concurrent=IN_FLIGHT) + key_table("metered", rpm=RPM)
    keys += key_table("counted", tpm=TPM)
    return keys + upstream_table("openai", "openai", provider_port) + "".join(routes)


class LimitsTests(WorkersCase):
    """Three workers."""

    def setUp(self) -> None:
        self.gateway = Gateway(config, {"WORKERS": "3", "SHUTDOWN_GRACE_MS": "20000"})
        self.addCleanup(self.gateway.stop)

    def test_requests_and_rate(self) -> None:
        """One run: requests in flight, one by one and at once; a lost worker; rate and tokens."""
        run = self.start()
        self.one_by_one()
        self.at_once()
        self.of_a_lost_worker(run)
        self.rate()
        self.tokens()

    def begun(self, callers: list[Caller]) -> list[http.client.HTTPResponse]:
        """A stream asked for on each of these connections, one after the other."""
        return [caller.begin("long") for caller in callers]

    def one_by_one(self) -> None:
        """Where requests do not race, the limit is exact, whichever workers they come to."""
        callers = list(self.callers_on_all().values())
        callers += [self.caller() for _ in range(CROWD - len(callers))]
        answers = self.begun(callers)
        self.assertEqual(
            [200] * IN_FLIGHT + [429] * (CROWD - IN_FLIGHT), [answer.status for answer in answers]
        )
        self.assertEqual(3, len({caller.worker() for caller in callers[:IN_FLIGHT]}))
        refused = read_answer(answers[-1])
        self.assertEqual("concurrency_limit_exceeded", refused.code)
        self.assertTrue(all(read_answer(answer).whole for answer in answers[:IN_FLIGHT]))

    def at_once(self) -> None:
        """Where they race, one too many for each other worker at most; and then none is missing."""
        for _ in range(2):
            statuses: list[int] = []
            gate = threading.Barrier(CROWD)

            def ask(statuses: list[int] = statuses, gate: threading.Barrier = gate) -> None:
                caller = Caller(self.gateway)
                gate.wait(SECONDS)
                answer = caller.begin("long")
                statuses.append(answer.status)
                read_answer(answer)
                caller.close()

            threads = [threading.Thread(target=ask) for _ in range(CROWD)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SECONDS)
            self.assertEqual(CROWD, len(statuses))
            self.assertTrue(IN_FLIGHT <= statuses.count(200) <= IN_FLIGHT + 2, statuses)
            self.assertEqual(CROWD, statuses.count(200) + statuses.count(429))

    def of_a_lost_worker(self, run: Daemon) -> None:
        """What a worker had in flight that was killed is free again."""
        by_worker: dict[int, list[Caller]] = {}

        def two_and_two() -> bool:
            caller = self.caller()
            caller.ask()
            by_worker.setdefault(caller.worker(), []).append(caller)
            return sum(len(callers) > 1 for callers in by_worker.values()) == 2

        wait_for("two connections to each of two workers", two_and_two)
        pairs = {pid: callers[:2] for pid, callers in by_worker.items() if len(callers) > 1}
        victim, lost = pairs.popitem()
        [others] = pairs.values()
        kept = self.begun(others)
        statuses = [answer.status for answer in (*kept, *self.begun(lost))]
        self.assertEqual([200] * IN_FLIGHT, statuses)
        self.assertEqual(429, self.caller().begin("long").status)
        os.kill(victim, signal.SIGKILL)
        wait_for("its end to be noticed", lambda: "ended by SIGKILL" in run.log())
        news = self.begun([self.caller() for _ in range(3)])
        self.assertEqual([200, 200, 429], [answer.status for answer in news])
        for answer in (*kept, *news):
            read_answer(answer)
        wait_for("another worker", lambda: len(set(workers_of(run)) - {victim}) == 3)

    def rate(self) -> None:
        """A burst is a burst for all workers together; then as many as are refilled."""
        began = time.monotonic()
        statuses = [self.metered() for _ in range(2 * RPM)]
        refilled = int((time.monotonic() - began) * RPM / 60)
        self.assertEqual([200] * RPM, statuses[:RPM])
        self.assertLessEqual(statuses.count(200), RPM + refilled)
        self.assertEqual({200, 429}, set(statuses))

    def tokens(self) -> None:
        """What is reserved counts in all workers, and what was not used is back at the end."""
        answers = [self.counted() for _ in range(6)]
        self.assertEqual([200, 200] + [429] * 4, [answer.status for answer in answers])
        self.assertEqual("rate_limit_exceeded", read_answer(answers[-1]).code)
        self.assertTrue(all(read_answer(answer).whole for answer in answers[:2]))
        again = [self.counted().status for _ in range(3)]
        self.assertEqual([200, 200, 429], again)

    def counted(self) -> http.client.HTTPResponse:
        """A stream begun by the key with a limit of tokens, on a connection of its own."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.gateway.data_port, timeout=SECONDS
        )
        self.addCleanup(connection.close)
        body = (
            b'{"model":"long","stream":true,"max_tokens":%d,'
            b'"messages":[{"role":"user","content":"Hi"}]}' % OUTPUT
        )
        headers = {"authorization": f"Bearer {key_of('counted')}"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        return connection.getresponse()

    def metered(self) -> int:
        """One request of the key with a rate, on a connection of its own; the answer's status."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.gateway.data_port, timeout=SECONDS
        )
        try:
            body = b'{"model":"small","messages":[{"role":"user","content":"Hi"}]}'
            headers = {"authorization": f"Bearer {key_of('metered')}"}
            connection.request("POST", "/v1/chat/completions", body, headers)
            return read_answer(connection.getresponse()).status
        finally:
            connection.close()

    def test_connections(self) -> None:
        """The cap is one for all workers, and who leaves makes room in whichever."""
        self.start(MAX_CONNECTIONS="6")
        address = ("127.0.0.1", self.gateway.data_port)
        held: list[socket.socket] = []

        def come() -> bytes:
            client = socket.create_connection(address, SECONDS)
            self.addCleanup(client.close)
            client.sendall(PROBE)
            said = client.recv(65536)
            if not said.startswith(FULL):
                held.append(client)
            return said[: len(FULL)]

        said = [come() for _ in range(9)]
        self.assertEqual([b"HTTP/1.1 200 "] * 6 + [FULL] * 3, said)
        for client in (held.pop(0), held.pop(2)):
            client.close()
        wait_for("room for two", lambda: come() and len(held) == 6)
        self.assertEqual(FULL, come())

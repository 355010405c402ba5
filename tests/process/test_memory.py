"""Two hundred clients that send the worst bodies there are: what the process takes meanwhile."""

import contextlib
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.errors import ERRORS
from tests.process.daemons import (
    SECONDS,
    Answer,
    Gateway,
    free_ports,
    key_of,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)

MIB = 1024 * 1024
CLIENTS = 200
#: So many that the memory for bodies is full, though no key may hold more than a quarter of it.
KEYS = tuple(f"k{number}" for number in range(40))
#: How long the clients go on, in seconds.
RUN_SECONDS = 10.0

#: The budgets of the data plane here, in mebibytes.
REQUEST_MEMORY = 64
PARSE_MEMORY = 64

#: What it may take beside them: a read of each client and its objects (200 times 100 KiB), what
#: allocators lose between objects, and the code that is used for the first time.
ALLOWANCE = 32 * MIB
#: What may stay once everybody has gone: as much as the bodies had at the worst. It is free, and is
#: used again, but the C library gives back only what nothing in use lies behind. 28 to 65 MiB
#: were seen to stay.
LEFT = REQUEST_MEMORY * MIB + ALLOWANCE

_HEAD = b'{"model":"cached","messages":[{"role":"user","content":"hi"}],"x":'


def cached_config(provider_port: int) -> str:
    """Several keys, and a route whose requests are wanted as trees."""
    route = route_table("cached", ("openai", "fake-small")).replace(
        'model = "cached"', 'model = "cached"\ncache_ttl_s = 1', 1
    )
    keys = "".join(key_table(name) for name in KEYS)
    return keys + upstream_table("openai", "openai", provider_port) + route


def filled(unit: str, size: int, opening: bytes = b"[", closing: bytes = b"]}") -> bytes:
    """A body of one element again and again."""
    text = unit.encode()
    return _HEAD + opening + b",".join([text] * ((size - 100) // (len(text) + 1))) + closing


def bodies() -> dict[str, bytes]:
    """The worst of each kind: as long as is allowed, and as long as the cache takes."""
    members = b",".join([b'"%x":0' % n for n in range(65536)])
    found = {
        "nested": _HEAD + b"[" * (8 * MIB - 200),
        "nested, short": _HEAD + b"[" * 20_000,
        "members": _HEAD + b"{" + members + b"}}",
        "one member more": _HEAD + b"{" + members + b',"a":0}}',
        "a long key": _HEAD + b'{"' + b"a" * 9000 + b'":0}}',
        "one string": _HEAD + b'"' + b"a" * (8 * MIB - 200) + b'"}',
        "one wide string": _HEAD + b'"' + b"a" * (8 * MIB - 200) + "😀".encode() + b'"}',
        "escapes": _HEAD + b'"' + b"\\n" * (4 * MIB - 100) + b'"}',
        "not JSON at its end": _HEAD + b'"' + b"a" * (8 * MIB - 200) + b'"]',
    }
    units = ("[]", '{"a":0}', '"a"', '"😀"', "9e-287", "-6", "9" * 300)
    for size in (8 * MIB, MIB - 100, 60_000, 20_000):
        for unit in units:
            found[f"{unit[:8]} of {size}"] = filled(unit, size)
    for size in (MIB - 100, 200_000):
        text = b"a" * (size - 200)
        found[f"wide string of {size}"] = _HEAD + b'"' + text + "😀".encode() + b'"}'
        found[f"escaped string of {size}"] = _HEAD + b'"' + text + b'\\ud83d\\ude00"}'
    return found


CHAT = b"/v1/chat/completions"
RESPONSES = b"/v1/responses"
MESSAGES = b"/v1/messages"


def translated_config(provider_port: int) -> str:
    """Several keys, and two routes whose requests are translated."""
    responses = route_table("openai", ("openai", "fake-small"))
    return "".join(
        (
            *map(key_table, KEYS),
            upstream_table("openai", "openai", provider_port),
            upstream_table("anthropic", "anthropic", provider_port),
            route_table("claude", ("anthropic", "fake-small")),
            responses + '  caps = { upstream_api = "responses" }\n',
        )
    )


def translated_bodies() -> dict[str, tuple[bytes, bytes]]:
    """What becomes large once it is translated, or stays beside its translation."""
    size = 8 * MIB - 400
    text = b'"' + b"a" * size + b'"'
    texts = {
        "text": text,
        "a wide text": text[:-9] + "😀".encode() + b'"',
        "escapes": b'"' + b"\\n" * (size // 2) + b'"',
        "control characters": b'"' + b"\\u0001" * (size // 6) + b'"',
    }
    chat = b'{"model":"claude","messages":[{"role":"user","content":%b}]}'
    messages = b'{"model":"openai","max_tokens":9,"stream":true,"messages":[%b]}'
    found = {f"{name} of Chat": (CHAT, chat % value) for name, value in texts.items()}
    for name, value in texts.items():
        said = b'{"role":"user","content":%b}' % value
        found[f"{name} of Messages"] = (MESSAGES, messages % said)
    part = b'{"type":"text","text":"aaaaaaa"}'
    found["parts"] = (CHAT, chat % (b"[" + b",".join([part] * 4000) + b"]"))
    called = (
        b'{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a",'
        b'"name":"f","input":{"a":%b}}]},{"role":"user","content":[{"type":"tool_result",'
        b'"tool_use_id":"a","content":"b"}]}'
    )
    found["quotes in a call"] = (MESSAGES, messages % (called % (b'"' + b'\\"' * MIB + b'"')))
    # What answers repeat of their request.
    for long in (size, 500_000, 100_000):
        value = b'"' + b"a" * long + b'"'
        tool = b'{"type":"function","name":"f","parameters":{"a":%b}}' % value
        for name, repeated in {
            "instructions": value,
            "metadata": b'{"a":%b}' % value,
            "tools": b"[" + tool + b"]",
        }.items():
            body = b'{"model":"claude","stream":true,"input":"a","%b":%b}'
            found[f"{name} of {long}"] = (RESPONSES, body % (name.encode(), repeated))
    return found


class Memory:
    """What a process takes, by the kernel's own account."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def now(self) -> int:
        """Resident bytes."""
        return self._read("VmRSS")

    def peak(self) -> int:
        """The most since :meth:`forget`."""
        return self._read("VmHWM")

    def forget(self) -> None:
        """Let the peak begin anew."""
        (self._folder / "clear_refs").write_text("5")

    def _read(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._folder / "status").read_text())
        assert found is not None
        return int(found[1]) * 1024


class Crowd:
    """Clients, each of which sends one bad request after the other on connections of its own.

    :ivar answers: how often each status and code was told.
    :ivar silent: connections that ended without an answer, though the kernel had taken the whole
        request. A body that is refused is read and thrown away for two seconds; where that is too
        short, as the machine is busy, the reset that follows takes the answer along.
    """

    def __init__(self, port: int, found: dict[str, tuple[bytes, bytes]], until: float) -> None:
        self._port = port
        self._bodies = list(found.values())
        self._until = until
        self._lock = threading.Lock()
        self.answers: Counter[tuple[int, str]] = Counter()
        self.silent = 0
        self.sent = 0

    def run(self) -> None:
        """Let all of them do their worst, to the end."""
        threads = [
            threading.Thread(target=self._client, args=(random.Random(seed),))
            for seed in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self._until - time.monotonic() + 2 * SECONDS)
            assert not thread.is_alive(), "a client is stuck"

    def _client(self, choice: random.Random) -> None:
        while time.monotonic() < self._until:
            path, body = choice.choice(self._bodies)
            manner = choice.choices(("whole", "late", "half", "one byte"), (7, 1, 1, 1))[0]
            with contextlib.suppress(OSError):
                self._one(choice, path, body, manner)

    def _one(self, choice: random.Random, path: bytes, body: bytes, manner: str) -> None:
        head = (
            b"POST %b HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer %b\r\n"
            b"content-length: %d\r\n\r\n" % (path, key_of(choice.choice(KEYS)).encode(), len(body))
        )
        with socket.create_connection(("127.0.0.1", self._port), SECONDS) as connection:
            taken = True
            try:
                connection.sendall(head)
                if manner in ("whole", "late"):
                    connection.sendall(body)
                elif manner == "half":
                    connection.sendall(body[: len(body) // 2])
                else:
                    connection.sendall(body[:1])
            except OSError:
                taken = False  # refused before its end; the answer is there to be read
            if manner == "late":
                time.sleep(choice.random())  # nothing is taken of the answer until then
            elif manner != "whole" and taken:
                connection.settimeout(choice.random() * 2)
            answer = self._read(connection)
        with self._lock:
            self.sent += 1
            if answer is not None:
                self.answers[answer] += 1
            elif taken and manner == "whole":
                self.silent += 1

    def _read(self, connection: socket.socket) -> tuple[int, str] | None:
        """The status and the code of the answer, if one comes."""
        held = b""
        with contextlib.suppress(OSError):
            while True:
                data = connection.recv(65536)
                if not data:
                    break
                held += data
                head, end, body = held.partition(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                if end and length is not None and len(body) >= int(length[1]):
                    break
        if not held.startswith(b"HTTP/1.1 "):
            return None
        code = re.search(rb'"code":"(\w+)"', held)
        return int(held[9:12]), code[1].decode() if code else ""


class MemoryCase(SynchronousTestCase):
    """A gateway of few budgets, and questions to it."""

    def config(self, provider_port: int) -> str:
        """The tables of the config."""
        raise NotImplementedError

    def setUp(self) -> None:
        if not Path("/proc/self/clear_refs").exists():
            raise SkipTest("needs Linux, for it reads /proc")
        [self.metrics_port] = free_ports(1)
        self.gateway = Gateway(
            self.config,
            {
                "REQUEST_MEMORY_MB": str(REQUEST_MEMORY),
                "PARSE_MEMORY_MB": str(PARSE_MEMORY),
                "MAX_REQUEST_MB": "8",
                "DATA_METRICS_LISTEN": f"tcp:{self.metrics_port}:interface=127.0.0.1",
                "ACCESS_LOG": "off",
            },
        ).start()
        self.addCleanup(self.gateway.stop)

    def figure(self, name: str) -> float:
        """A sample of the data plane's own metrics."""
        with socket.create_connection(("127.0.0.1", self.metrics_port), SECONDS) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nhost: a\r\n\r\n")
            text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        found = re.search(rf"^omnigate_data_{name} (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def check_crowd(self, found: dict[str, tuple[bytes, bytes]]) -> Counter[tuple[int, str]]:
        """Let the crowd send these; memory stays within the budgets, and all comes back.

        :returns: how often each status and code was told.
        """
        gateway = self.gateway
        assert gateway.data is not None
        memory = Memory(gateway.data.pid)
        memory.forget()
        before = memory.now()
        crowd = Crowd(gateway.data_port, found, time.monotonic() + RUN_SECONDS)
        crowd.run()
        peak = memory.peak()
        named = {(kind.status, kind.code) for kind in ERRORS.values()} | {(200, "")}
        self.assertEqual(set(), set(crowd.answers) - named)
        self.assertLess(crowd.silent, crowd.sent / 10)
        wait_for("all places to be given back", lambda: self.figure("requests_in_flight") == 0)
        self.assertEqual(0, self.figure("request_memory_bytes"))
        self.assertEqual(0, self.figure("parse_memory_bytes"))
        after = memory.now()
        told = f"{before / MIB:.0f} MiB before, {peak / MIB:.0f} at most, {after / MIB:.0f} after"
        budgets = (REQUEST_MEMORY + PARSE_MEMORY) * MIB
        self.assertLessEqual(peak, before + budgets + ALLOWANCE, told)
        self.assertLessEqual(after, before + LEFT, told)
        # It is a crowd in earnest: places were wanted more than there are.
        for status, code in (
            (200, ""),
            (429, "request_memory_exceeded"),
            (503, "overloaded"),
        ):
            self.assertGreater(crowd.answers[status, code], 0, crowd.answers)
        return crowd.answers


class MemoryTests(MemoryCase):
    def config(self, provider_port: int) -> str:
        """A route with a cache."""
        return cached_config(provider_port)

    def ask(self, number: int) -> Answer:
        """A usual request, which differs from any with another number."""
        messages = [{"role": "user", "content": f"hi {number}"}]
        body = {"model": "cached", "messages": messages}
        return self.gateway.post("/v1/chat/completions", body, key_of("k0"))

    def test_the_worst_bodies(self) -> None:
        """Resident memory stays within the budgets, every answer has a name, and all comes back."""
        for number in range(50):
            self.assertEqual(200, self.ask(number).status)
        answers = self.check_crowd({name: (CHAT, body) for name, body in bodies().items()})
        self.assertEqual(200, self.ask(99).status)
        for code in ("invalid_json", "invalid_request"):
            self.assertGreater(answers[400, code], 0, answers)


class TranslatedMemoryTests(MemoryCase):
    def config(self, provider_port: int) -> str:
        """Routes to the other protocol."""
        return translated_config(provider_port)

    def test_the_worst_bodies(self) -> None:
        """The same where they are translated."""
        for _ in range(10):
            for path, body in translated_bodies().values():
                if len(body) < 200_000:
                    told = json.loads(body)
                    self.assertEqual(
                        200, self.gateway.post(path.decode(), told, key_of("k0")).status
                    )
        self.check_crowd(translated_bodies())

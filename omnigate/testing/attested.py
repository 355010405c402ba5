"""An attested upstream that is none: chat completions with a signature for each, and reports.

``python -m omnigate.testing.attested`` prints the port it got and serves until it is stopped. The
keys are fixed and worth nothing; its quotes are unsigned and prove nothing. How an answer goes
wrong is said by the model's name: ``deep~bad-hash``; ``--list`` shows every word. Needs the extra
``attest``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote

import attrs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.interfaces import IReactorTCP, IReactorTime

from omnigate.testing.media.reply import Reply
from omnigate.testing.provider import FakeProvider
from omnigate.testing.provider_plan import Plan
from omnigate.testing.provider_request import SeenRequest

MODES: Final = {
    "bad-hash": "the signature is of another answer",
    "bad-signer": "another key has signed than the address says",
    "late-signature": "the first so many questions for it are answered 404",
    "no-signature": "there never is one",
    "old-nonce": "the report holds another nonce",
    "wrong-address": "the report is of another key",
    "debug-quote": "the trust domain can be debugged",
    "ed25519": "signed by an Ed25519 key",
    "two-part": "the signed text has no model",
    "two-nodes": "the report tells of two nodes",
    "cut": "the answer breaks off in the middle",
}

_SECRET: Final = bytes((7,)) * 32
_OTHER: Final = bytes((9,)) * 32


@attrs.define
class _Answered:
    """One answer, and how often its signature was asked for."""

    modes: dict[str, str]
    text: str
    asked: int = 0


class AttestedUpstream:
    """The upstream; a script for a :class:`~omnigate.testing.provider.FakeProvider`."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answered] = {}

    def script(self, request: SeenRequest) -> Plan:
        """Answer a request."""
        return self.answer(request).plan(request)

    def answer(self, request: SeenRequest) -> Reply:
        """Answer a request."""
        path, query = request.endpoint, parse_qs(request.query)
        if path == "/chat/completions" and request.method == "POST":
            return self._chat(request)
        if path.startswith("/signature/") and request.method == "GET":
            return self._signature(unquote(path.removeprefix("/signature/")))
        if path == "/attestation/report" and request.method == "GET":
            return self._report({name: values[0] for name, values in query.items()})
        return Reply(404, {"error": {"message": "no such path"}})

    def _chat(self, request: SeenRequest) -> Reply:
        name = f"chatcmpl-{request.number}"
        modes = _modes(request.model)
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        shared = {"id": name, "created": 1_790_000_000, "model": request.model}
        if request.stream:
            events: list[Any] = [
                {
                    **shared,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": end}],
                }
                for word, end in (("All ", None), ("signed.", "stop"))
            ]
            events.append(
                {**shared, "object": "chat.completion.chunk", "choices": [], "usage": usage}
            )
            body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
            body += b"data: [DONE]\n\n"
        else:
            message = {"role": "assistant", "content": "All signed."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = json.dumps(
                {**shared, "object": "chat.completion", "choices": [choice], "usage": usage}
            ).encode()
        hashes = [hashlib.sha256(data).hexdigest() for data in (request.body, body)]
        if "bad-hash" in modes:
            hashes[1] = "0" * 64
        parts = hashes if "two-part" in modes else [request.model, *hashes]
        self._answers[name] = _Answered(modes, ":".join(parts))
        kind = "text/event-stream" if request.stream else "application/json"
        return Reply(
            200, body, kind, broken="cut" if "cut" in modes else "", chunked=request.stream
        )

    def _signature(self, completion_id: str) -> Reply:
        answered = self._answers.get(completion_id)
        if answered is None or "no-signature" in answered.modes:
            return Reply(404, {"error_code": "not_found", "message": "no signature"})
        answered.asked += 1
        if answered.asked <= int(answered.modes.get("late-signature") or 0):
            return Reply(404, {"error_code": "not_found", "message": "not yet"})
        algo = "ed25519" if "ed25519" in answered.modes else "ecdsa"
        secret = _OTHER if "bad-signer" in answered.modes else _SECRET
        return Reply(
            200,
            {
                "text": answered.text,
                "signature": sign(answered.text, secret, algo),
                "signing_address": address_of(_SECRET, algo),
                "signing_algo": algo,
            },
        )

    def _report(self, query: dict[str, str]) -> Reply:
        modes = _modes(query.get("model", ""))
        algo = "ed25519" if "ed25519" in modes else "ecdsa"
        nonce = "0" * 64 if "old-nonce" in modes else query.get("nonce", "")
        address = address_of(_SECRET, algo)
        told = address_of(_OTHER, algo) if "wrong-address" in modes else address
        node = {
            "signing_address": address,
            "signing_algo": algo,
            "request_nonce": nonce,
            "intel_quote": quote_of(told, nonce, debug="debug-quote" in modes),
            "nvidia_payload": "{}",
        }
        other = {**node, "signing_address": address_of(_OTHER, algo)}
        nodes = [other, node] if "two-nodes" in modes else [node]
        return Reply(200, {"model_attestations": nodes})


def sign(text: str, secret: bytes, algo: str) -> str:
    """Sign as such an upstream does."""
    if algo == "ed25519":
        return Ed25519PrivateKey.from_private_bytes(secret).sign(text.encode()).hex()
    from Crypto.Hash import keccak
    from eth_keys.datatypes import PrivateKey

    message = f"\x19Ethereum Signed Message:\n{len(text.encode())}{text}".encode()
    digest = keccak.new(digest_bits=256, data=message).digest()
    signature = PrivateKey(secret).sign_msg_hash(digest)
    return "0x" + signature.to_bytes().hex()


def address_of(secret: bytes, algo: str) -> str:
    """Return the address of a key."""
    if algo == "ed25519":
        key = Ed25519PrivateKey.from_private_bytes(secret).public_key()
        return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    from eth_keys.datatypes import PrivateKey

    return PrivateKey(secret).public_key.to_checksum_address()


def quote_of(address: str, nonce: str, *, debug: bool = False) -> str:
    """Return an unsigned quote of version 4 whose report data binds an address and a nonce."""
    header = b"\x04\x00\x02\x00\x81\x00\x00\x00" + bytes(40)
    body = bytearray(584)
    body[120] = 1 if debug else 0
    bound = bytes.fromhex(address.removeprefix("0x")).ljust(32, b"\0")
    body[520:584] = bound + bytes.fromhex(nonce).ljust(32, b"\0")[:32]
    return (header + bytes(body)).hex()


def _modes(model: str) -> dict[str, str]:
    found = (word.partition("=") for word in model.split("~")[1:])
    return {word: value for word, _, value in found if word in MODES}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until stopped; prints the port."""
    parser = argparse.ArgumentParser(
        prog="python -m omnigate.testing.attested",
        description="A fake upstream that signs its answers, for tests and trials only.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--list", action="store_true", help="print the modes and leave")
    options = parser.parse_args(arguments)
    if options.list:
        sys.stdout.write("".join(f"  ~{mode:16} {what}\n" for mode, what in MODES.items()))
        return
    from twisted.internet import reactor

    provider = FakeProvider(cast(IReactorTime, reactor), script=AttestedUpstream().script)
    port = provider.listen(cast(IReactorTCP, reactor), options.port)
    sys.stdout.write(f"{port.getHost().port}\n")  # type: ignore[attr-defined]
    sys.stdout.flush()
    reactor.run()


if __name__ == "__main__":
    main()

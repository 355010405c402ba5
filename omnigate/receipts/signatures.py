"""Whether a signature is that of an answer: its text, its hashes, and the key that made it.

``ecdsa`` is an Ethereum personal message (EIP-191), from which the key is recovered; ``ed25519`` is
RFC 8032 over the text itself. The first needs the extra ``attest``.
"""

from __future__ import annotations

import re
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from omnigate.attested import Exchanged, Signature
from omnigate.receipts.receipt import (
    HASH_MISMATCH,
    MODEL_MISMATCH,
    SIGNATURE_INVALID,
    SIGNATURE_MALFORMED,
)

ECDSA: Final = "ecdsa"
ED25519: Final = "ed25519"

#: What to do where the libraries for signatures are not there.
REMEDY: Final = "judging signatures needs the extra: pip install 'omnigate[attest]'"

_HASH = re.compile(r"[0-9a-fA-F]{64}")


def judge_signature(exchanged: Exchanged, signature: Signature) -> str:
    """Return why a signature does not belong to an answer, or nothing where it does.

    It takes up to 10 ms: a thread's work.
    """
    model, _, hashes = signature.text.rpartition(":")
    model, _, request = model.rpartition(":")
    if not _HASH.fullmatch(hashes) or not _HASH.fullmatch(request):
        return SIGNATURE_MALFORMED
    fault = _judge_key(signature)
    if fault:
        return fault
    if (request.lower(), hashes.lower()) != (exchanged.request_sha256, exchanged.response_sha256):
        return HASH_MISMATCH
    # Older servers sign the hashes alone.
    return MODEL_MISMATCH if model and model != exchanged.target_model else ""


def _judge_key(signature: Signature) -> str:
    address, signed = from_hex(signature.signing_address), from_hex(signature.signature)
    text = signature.text.encode("utf-8", "replace")
    if signature.signing_algo == ED25519:
        if len(address) != 32 or len(signed) != 64:
            return SIGNATURE_MALFORMED
        try:
            Ed25519PublicKey.from_public_bytes(address).verify(signed, text)
        except (InvalidSignature, ValueError):
            return SIGNATURE_INVALID
        return ""
    if signature.signing_algo != ECDSA or len(address) != 20 or len(signed) != 65:
        return SIGNATURE_MALFORMED
    return "" if recovered_address(text, signed) == address else SIGNATURE_INVALID


def recovered_address(text: bytes, signed: bytes) -> bytes:
    """Return the address whose key signed a personal message, empty where none can have.

    :param signed: r, s and v; v is 27 or 28, or 0 or 1.
    """
    # Not needed by anybody who has no attested upstream, and an extra.
    from eth_keys.datatypes import Signature as Signed
    from eth_keys.exceptions import BadSignature
    from eth_utils.exceptions import ValidationError

    v = signed[64] - 27 if signed[64] >= 27 else signed[64]
    message = b"\x19Ethereum Signed Message:\n%d" % len(text) + text
    try:
        signature = Signed(signature_bytes=signed[:64] + bytes((v,)))
        key = signature.recover_public_key_from_msg_hash(keccak(message))
    except (BadSignature, ValidationError, ValueError):
        return b""
    return bytes(key.to_canonical_address())


def keccak(data: bytes) -> bytes:
    """Return Keccak-256, which is not SHA3-256: it is padded another way."""
    from Crypto.Hash import keccak as implementation

    return bytes(implementation.new(digest_bits=256, data=data).digest())


def from_hex(text: str) -> bytes:
    """Return the bytes that hexadecimal digits stand for, empty where they are none."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return b""


def extra_is_there() -> bool:
    """Tell whether the extra ``attest`` is installed."""
    from importlib.util import find_spec

    return find_spec("eth_keys") is not None and find_spec("Crypto") is not None

"""Signatures of Standard Webhooks 1.0.0: HMAC-SHA-256 over id, timestamp and body.

A secret is 24 to 64 random bytes, written ``whsec_`` and base64. While one is being replaced there
are two, and a request carries a signature of each, the new one's first; a receiver takes whichever
fits. The asymmetric kind (``v1a``) is not spoken.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

SECRET_PREFIX: Final = "whsec_"

#: Bytes of a secret, by the standard.
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64


def webhook_id(job_id: str) -> str:
    """Return the ``webhook-id`` of a job's end: the same for each attempt, so that receivers know
    a repeat by it.
    """
    return f"msg_{job_id}"


def secret_bytes(secret: str) -> bytes:
    """Return the bytes of a secret.

    :param secret: ``whsec_`` and base64, with or without its padding.
    :raises ValueError: it is none; the text never repeats it.
    """
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a webhook secret begins with {SECRET_PREFIX}")
    text = secret[len(SECRET_PREFIX) :].rstrip("=")
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a webhook secret is {SECRET_PREFIX} and base64") from None
    if not MIN_SECRET_BYTES <= len(found) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"a webhook secret holds {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes, in base64; "
            f"this one holds {len(found)}"
        )
    return found


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature, ``v1,`` and base64.

    :param timestamp: of the attempt, in whole seconds since 1970.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode("ascii")


def headers(
    secrets: Sequence[str], message_id: str, timestamp: int, body: bytes
) -> tuple[tuple[str, str], ...]:
    """Return the headers of one attempt.

    :param secrets: those that are live, the new one first; without any it goes unsigned.
    :param body: exactly as it is sent.
    :raises ValueError: a secret is malformed.
    """
    named = (
        ("content-type", "application/json"),
        ("webhook-id", message_id),
        ("webhook-timestamp", str(timestamp)),
    )
    if not secrets:
        return named
    signatures = (
        signature(secret_bytes(secret), message_id, timestamp, body) for secret in secrets
    )
    return (*named, ("webhook-signature", " ".join(signatures)))

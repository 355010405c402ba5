"""A receipt, and the words of its verdict."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from omnigate.attested import Signature

#: The answer went out, and its signature is not judged yet.
PENDING: Final = "pending"
#: Hashes and signature fit; that the key belongs to genuine hardware is not proved here.
SIGNED: Final = "signed"
#: Something contradicts.
FAILED: Final = "failed"
#: There is nothing to judge: no signature after all tries, or an answer that was cut short.
UNAVAILABLE: Final = "unavailable"

#: Why a verdict is not what one would like.
HASH_MISMATCH: Final = "hash_mismatch"
MODEL_MISMATCH: Final = "model_mismatch"
SIGNATURE_INVALID: Final = "signature_invalid"
SIGNATURE_MALFORMED: Final = "signature_malformed"
SIGNER_UNKNOWN: Final = "signer_unknown"
NONCE_MISMATCH: Final = "nonce_mismatch"
ADDRESS_MISMATCH: Final = "address_mismatch"
QUOTE_INVALID: Final = "quote_invalid"
DEBUG_ENABLED: Final = "debug_enabled"
EVENT_LOG_MISMATCH: Final = "event_log_mismatch"
COMPOSE_MISMATCH: Final = "compose_mismatch"
NO_SIGNATURE: Final = "no_signature"
NO_EVIDENCE: Final = "no_evidence"
NO_VERIFIER: Final = "no_verifier"
ANSWER_CUT_SHORT: Final = "answer_cut_short"
NO_COMPLETION_ID: Final = "no_completion_id"

#: A check of evidence came out so.
OK: Final = "ok"
NOT_OK: Final = "failed"
SKIPPED: Final = "skipped"


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept, and shown to the key that asked the question.

    :ivar checks: of each check of the evidence, :data:`OK`, :data:`NOT_OK` or :data:`SKIPPED`.
    :ivar evidence: a summary, never the quote.
    """

    id: str
    ts_ms: int
    key_sha256: str
    route_model: str
    upstream: str
    target_model: str
    stream: bool
    completion_id: str
    request_sha256: str
    response_sha256: str
    verdict: str
    reason: str = ""
    signature: Signature | None = None
    checks: dict[str, str] = {}
    evidence: dict[str, Any] = {}
    updated_ms: int = 0

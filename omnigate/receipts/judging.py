"""The verdict on an answer: signature first, then what the hardware's report says of the key.

That a quote is genuine is not proved here: it takes Intel's certificates and collateral, and for
graphics processors a service of NVIDIA's. So the best verdict is ``signed``, with the
reason ``no_verifier``; what can be checked without them is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from omnigate.attested import MAX_NODES, Evidence, Exchanged, Told
from omnigate.receipts import receipt as words
from omnigate.receipts.quotes import Quote, QuoteError, compose_of, read_quote, replayed_rtmr3
from omnigate.receipts.receipt import Receipt
from omnigate.receipts.signatures import from_hex, judge_signature
from omnigate.wire.json_values import BoundsError, read_values


def judge(told: Told, now_ms: int) -> Receipt:
    """Return the receipt of what was told; it takes up to 20 ms, and is a thread's work."""
    exchanged, signature = told.exchanged, told.signature
    verdict, reason = words.PENDING, ""
    checks: dict[str, str] = {}
    summary: dict[str, Any] = {}
    if not exchanged.response_sha256:
        verdict, reason = words.UNAVAILABLE, words.ANSWER_CUT_SHORT
    elif not exchanged.completion_id:
        verdict, reason = words.UNAVAILABLE, words.NO_COMPLETION_ID
    elif signature is not None:
        reason = judge_signature(exchanged, signature)
        checks["signature"] = words.NOT_OK if reason else words.OK
        if not reason:
            reason = _judge_evidence(
                exchanged, signature.signing_address, told.evidence, checks, summary
            )
        verdict = words.SIGNED if reason in (words.NO_EVIDENCE, words.NO_VERIFIER) else words.FAILED
    elif told.settled:
        verdict, reason = words.UNAVAILABLE, words.NO_SIGNATURE
    return Receipt(
        id=exchanged.id,
        ts_ms=exchanged.ts_ms,
        key_sha256=exchanged.key_sha256,
        route_model=exchanged.route_model,
        upstream=exchanged.upstream,
        target_model=exchanged.target_model,
        stream=exchanged.stream,
        completion_id=exchanged.completion_id,
        request_sha256=exchanged.request_sha256,
        response_sha256=exchanged.response_sha256,
        verdict=verdict,
        reason=reason,
        signature=signature,
        checks=checks,
        evidence=summary,
        updated_ms=now_ms,
    )


def _judge_evidence(
    exchanged: Exchanged,
    signing_address: str,
    evidence: Evidence | None,
    checks: dict[str, str],
    summary: dict[str, Any],
) -> str:
    """Check the report of the node that signed; returns the reason, which is never empty."""
    if evidence is None:
        return words.NO_EVIDENCE
    summary |= {"fetched_at_ms": evidence.fetched_at_ms, "nonce": evidence.nonce}
    try:
        report = read_values(bytes(evidence.report))
    except BoundsError:
        return words.NO_EVIDENCE
    address = from_hex(signing_address)
    node = next(
        (node for node in nodes(report) if from_hex(_text(node, "signing_address")) == address),
        None,
    )
    checks["signer"] = words.NOT_OK if node is None else words.OK
    if node is None:
        return words.SIGNER_UNKNOWN
    try:
        quote = read_quote(node.get("intel_quote"))
    except QuoteError:
        checks["quote_layout"] = words.NOT_OK
        return words.QUOTE_INVALID
    checks["quote_layout"] = words.OK
    summary |= _summary(quote, node)
    reason = ""
    for name, fault, is_right in (
        ("freshness", words.NONCE_MISMATCH, _is_fresh(quote, node, evidence.nonce)),
        ("key_binding", words.ADDRESS_MISMATCH, _binds(quote, node, address)),
        ("no_debug", words.DEBUG_ENABLED, not quote.debug),
        ("event_log", words.EVENT_LOG_MISMATCH, _log_fits(quote, node)),
        ("compose", words.COMPOSE_MISMATCH, _compose_fits(quote, node)),
        ("pinned_compose", words.COMPOSE_MISMATCH, _is_pinned(node, exchanged.compose_hashes)),
    ):
        checks[name] = words.SKIPPED if is_right is None else words.OK if is_right else words.NOT_OK
        if is_right is False and not reason:
            reason = fault
    checks["genuine"] = words.SKIPPED
    return reason or words.NO_VERIFIER


def nodes(report: object) -> Iterator[dict[str, Any]]:
    """Yield the nodes that a report tells of, in each of the three shapes that are in use."""
    if not isinstance(report, dict):
        return
    found = [report, report.get("gateway_attestation")]
    for name in ("model_attestations", "all_attestations"):
        listed = report.get(name)
        if isinstance(listed, list):
            found += listed[:MAX_NODES]
    for node in found:
        if isinstance(node, dict) and "signing_address" in node:
            yield node


def _text(node: dict[str, Any], name: str) -> str:
    """A member of a node; what is no text is none, and may be slow to write as one."""
    found = node.get(name)
    return found if isinstance(found, str) else ""


def _summary(quote: Quote, node: dict[str, Any]) -> dict[str, Any]:
    compose = compose_of(node)
    return {
        "quote_sha256": quote.sha256,
        "mrtd": quote.mrtd.hex(),
        **{f"rtmr{index}": register.hex() for index, register in enumerate(quote.rtmrs)},
        "compose_hash": None if compose is None else _sha256(compose),
        "gpu": "not_checked" if node.get("nvidia_payload") else "not_provided",
        "verifier": "none",
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _is_fresh(quote: Quote, node: dict[str, Any], nonce: str) -> bool:
    asked = _text(node, "request_nonce") if "request_nonce" in node else nonce
    return quote.report_data[32:].hex() == nonce and asked.removeprefix("0x").lower() == nonce


def _binds(quote: Quote, node: dict[str, Any], address: bytes) -> bool:
    """Whether the report data begins with the address, or with its hash and the TLS key's."""
    bound = quote.report_data[:32]
    if bound == address.ljust(32, b"\0"):
        return True
    fingerprint = from_hex(_text(node, "tls_cert_fingerprint"))
    return bool(fingerprint) and bound == hashlib.sha256(address + fingerprint).digest()


def _log_fits(quote: Quote, node: dict[str, Any]) -> bool | None:
    if node.get("event_log") is None:
        return None
    return replayed_rtmr3(node["event_log"]) == quote.rtmrs[3]


def _compose_fits(quote: Quote, node: dict[str, Any]) -> bool | None:
    compose = compose_of(node)
    if compose is None:
        return None
    wanted = b"\x01" + bytes.fromhex(_sha256(compose))
    return quote.mr_config_id == wanted.ljust(48, b"\0")


def _is_pinned(node: dict[str, Any], pinned: tuple[str, ...]) -> bool | None:
    if not pinned:
        return None
    compose = compose_of(node)
    return compose is not None and _sha256(compose) in pinned

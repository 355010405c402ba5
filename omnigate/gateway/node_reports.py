"""What of a report is passed on to be judged: the node that signed, without what is long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from omnigate.attested import MAX_EVIDENCE_BYTES, MAX_NODES
from omnigate.wire.json_values import BoundsError, read_values

#: What of a node's report is judged; the evidence of its graphics processors alone may be a
#: megabyte, and is only said to be there.
_PASSED_ON: Final[tuple[str, ...]] = (
    "signing_address",
    "request_nonce",
    "intel_quote",
    "event_log",
    "tls_cert_fingerprint",
)

#: What is passed on of a report that tells of no node with the key that signed.
NO_NODE: Final = b"{}"

_encode = msgspec.json.Encoder().encode


def node_of(body: bytes, address: str) -> bytes | None:
    """Return what of a report is judged, for the node with this address; None for none."""
    try:
        report = read_values(body)
    except BoundsError:
        return None
    for node in _nodes(report):
        signer = node.get("signing_address")
        if isinstance(signer, str) and signer.removeprefix("0x").lower() == address:
            break
    else:
        # No node of the report signs with this key, which is for the control plane to say.
        return NO_NODE if isinstance(report, dict) else None
    kept: dict[str, Any] = {name: node[name] for name in _PASSED_ON if name in node}
    info = node.get("info")
    if isinstance(info, dict) and "tcb_info" in info:
        kept["info"] = {"tcb_info": info["tcb_info"]}
    if node.get("nvidia_payload"):
        kept["nvidia_payload"] = "…"
    passed = _encode(kept)
    return passed if len(passed) <= MAX_EVIDENCE_BYTES else None


def _nodes(report: Any) -> Iterator[dict[str, Any]]:
    """Yield what may be nodes, in each of the shapes that are in use."""
    if not isinstance(report, dict):
        return
    yield report
    for name in ("model_attestations", "all_attestations", "gateway_attestation"):
        found = report.get(name)
        for node in found[:MAX_NODES] if isinstance(found, list) else (found,):
            if isinstance(node, dict):
                yield node

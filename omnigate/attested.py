"""What a data plane tells the control plane of the answers of attested upstreams.

It knows the bytes and asks the upstream for its signature and for a report about its hardware; what
they are worth is judged by the control plane (:mod:`omnigate.receipts`), which has no credential of
a text provider.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: A report: quotes and logs of a node are some 30 KB, with the evidence of its graphics processors
#: up to a megabyte.
MAX_REPORT_BYTES: Final = 4 * 1024 * 1024

#: Nodes that one report may tell of.
MAX_NODES: Final = 64

#: What is passed on of it: one node without that.
MAX_EVIDENCE_BYTES: Final = 256 * 1024

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Digest = Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{64})?$")]
#: A signed text is a model's name and two hashes; written with escapes it takes six times as much.
Text = Annotated[str, msgspec.Meta(max_length=512)]


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /signature/{completion id}`` answers."""

    text: Text
    signature: Text
    signing_address: Text
    signing_algo: Name = "ecdsa"
    signature_kind: Name = ""


class Exchanged(msgspec.Struct, frozen=True, kw_only=True):
    """What the data plane knows of an answer.

    :ivar id: the request id.
    :ivar completion_id: from the answer; empty where it has none.
    :ivar request_sha256: of the body as it left the gateway.
    :ivar response_sha256: of the body as it came; empty where it did not end properly.
    :ivar compose_hashes: those that the operator pinned.
    """

    id: Id
    ts_ms: Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
    key_sha256: Digest
    route_model: Name
    upstream: Name
    target_model: Name
    stream: bool
    completion_id: Name
    request_sha256: Digest
    response_sha256: Digest
    compose_hashes: tuple[Digest, ...] = ()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A report of the upstream about its hardware, asked for with a nonce of ours.

    :ivar nonce: 64 hexadecimal digits.
    :ivar report: of the node that signed, what is judged, as JSON.
    """

    nonce: Digest
    fetched_at_ms: int
    report: msgspec.Raw


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a data plane sends about one answer: at first without a signature, and once more.

    :ivar settled: whether it has stopped asking.
    """

    exchanged: Exchanged
    signature: Signature | None = None
    evidence: Evidence | None = None
    settled: bool = False


class ToldBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The body of ``POST /internal/receipts``."""

    receipts: list[Told]


#: Answers of which one batch tells: with a report each, some 4 MB.
MAX_TOLD: Final = 100

#: A batch, and the largest report on top.
MAX_TOLD_BYTES: Final = 16 * 1024 * 1024

"""Receipts: what data planes tell of attested upstreams, and what a key's client may read of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from omnigate.attested import MAX_TOLD, MAX_TOLD_BYTES, ToldBatch
from omnigate.control.admin_json import encode, time
from omnigate.control.internal_api import read_body
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.receipts.receipt import Receipt
from omnigate.receipts.store import ReceiptStore
from omnigate.writer_thread import WriterBusyError, WriterStoppedError

_batch: Final = msgspec.json.Decoder(ToldBatch)


class ReceiptsApi:
    """The endpoints under ``/internal/`` for receipts."""

    def __init__(self, store: ReceiptStore) -> None:
        self._store = store

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("POST", "/internal/receipts", self.take, body_limit=MAX_TOLD_BYTES),
            Endpoint("GET", "/internal/v1/receipts/{id}", self.show),
        )

    async def take(self, call: Call) -> Answer:
        """Take what a data plane tells of some answers.

        :raises GatewayError: ``invalid_request``, or ``not_ready`` where the thread has too much
            to do; the data plane tells it again.
        """
        told = read_body(_batch, call.body).receipts
        if len(told) > MAX_TOLD:
            raise GatewayError(
                "invalid_request", f"a batch holds at most {MAX_TOLD} receipts", param="receipts"
            )
        try:
            await self._store.take(told)
        except (WriterBusyError, WriterStoppedError):
            raise GatewayError(
                "not_ready", "receipts cannot be judged now; try again", retry_after=1
            ) from None
        return Answer(encode({"taken": len(told)}))

    async def show(self, call: Call) -> Answer:
        """Answer the receipt of a request of this key.

        :raises GatewayError: ``not_found``, also for a request of another key.
        """
        receipt = self._store.get(call.name)
        if receipt is None or not call.key_sha256 or receipt.key_sha256 != call.key_sha256:
            raise GatewayError(
                "not_found",
                "there is no receipt of this request: its upstream signs nothing, it is another "
                "key's, or it is too long ago",
            )
        return Answer(encode(shown(receipt)))


def shown(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as its client sees it."""
    signature = receipt.signature
    return {
        "id": receipt.id,
        "object": "receipt",
        "created_at": time(receipt.ts_ms),
        "updated_at": time(receipt.updated_ms),
        "model": receipt.route_model,
        "upstream": receipt.upstream,
        "upstream_model": receipt.target_model,
        "stream": receipt.stream,
        "completion_id": receipt.completion_id or None,
        "request_sha256": receipt.request_sha256,
        "response_sha256": receipt.response_sha256 or None,
        "verdict": receipt.verdict,
        "reason": receipt.reason or None,
        "signature": None if signature is None else msgspec.to_builtins(signature),
        "checks": receipt.checks,
        "evidence": receipt.evidence,
    }

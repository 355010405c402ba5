"""The model list and its entries, in the shape of the protocol a client speaks.

A gateway knows the names of its routes and nothing else of the models behind them, so the members
that tell of sizes and abilities are left out instead of guessed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from omnigate.dialects.endpoints import ANTHROPIC

OWNER = "omnigate"
"""What stands in ``owned_by``: who owns the models behind a route is not for clients to know."""


def models_list(protocol: str, ids: Sequence[str], created: int) -> bytes:
    """Write the answer to ``GET /v1/models``, all models on one page.

    :param protocol: ``"openai"`` or ``"anthropic"``.
    :param ids: the model names the client may use, in the order to show them.
    :param created: seconds since the epoch shown as the date of every model.
    """
    shape = _entry(protocol, "", created)
    entries = [_named(shape, model_id) for model_id in ids]
    if protocol == ANTHROPIC:
        return msgspec.json.encode(
            {
                "data": entries,
                "has_more": False,
                "first_id": ids[0] if ids else None,
                "last_id": ids[-1] if ids else None,
            }
        )
    return msgspec.json.encode({"object": "list", "data": entries})


def model_entry(protocol: str, model_id: str, created: int) -> bytes:
    """Write the answer to ``GET /v1/models/{id}``.

    :param protocol: ``"openai"`` or ``"anthropic"``.
    :param created: seconds since the epoch.
    """
    return msgspec.json.encode(_entry(protocol, model_id, created))


def _named(shape: dict[str, object], model_id: str) -> dict[str, object]:
    """Return an entry like another one, of another model."""
    names = {name: model_id for name in ("id", "display_name") if name in shape}
    return shape | names


def _entry(protocol: str, model_id: str, created: int) -> dict[str, object]:
    if protocol == ANTHROPIC:
        # ``lifecycle`` is required by the type of the current SDKs; older ones do not look at it.
        return {
            "type": "model",
            "id": model_id,
            "display_name": model_id,
            "created_at": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycle": "active",
        }
    return {"id": model_id, "object": "model", "created": created, "owned_by": OWNER}

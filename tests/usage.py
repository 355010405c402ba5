"""A usual usage event, for tests of what becomes of events."""

from typing import Any

import msgspec

from omnigate.events import AttemptRecord, UsageEvent


def usage_event(event_id: str = "e1", **changes: Any) -> UsageEvent:
    """An event of a streamed answer, with these members changed."""
    event = UsageEvent(
        id=event_id,
        key_sha256="ab" * 32,
        route_model="fast",
        upstream="openai",
        target_model="gpt-4o-mini",
        status=200,
        stream=True,
        input_tokens=900,
        cached_input_tokens=100,
        cache_write_input_tokens=0,
        output_tokens=250,
        cached=False,
        estimated=False,
        latency_ms=1234,
        attempts=[AttemptRecord("openai", "gpt-4o-mini", "ok", 200, 1230)],
        ts_ms=1_795_984_320_125,
        endpoint="chat",
    )
    return msgspec.structs.replace(event, **changes)

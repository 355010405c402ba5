"""The key that tries are made with where nobody has another one at hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from omnigate.control.audited import Recorder
from omnigate.control.key_changes import KeyChanges
from omnigate.control.keys import KeyBook
from omnigate.control.routes import Call
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339

#: One key for all tries, so that what they cost is one line of every report.
NAME: Final = "try-it"

#: What all tries may cost in a day.
BUDGET_USD: Final = Decimal("0.10")

#: Each try puts the end of the key off to so long after it.
LIFE_MS: Final = 15 * 60 * 1000

#: Somebody else's try that has not begun yet goes on with the secret before.
GRACE_S: Final = 60

_LIMITS: Final[dict[str, Any]] = {
    "rpm": 60,
    "max_concurrent": 8,
    "budget_usd": BUDGET_USD,
    "budget_period": "daily",
}


async def make_secret(book: KeyBook, audit: Recorder, call: Call) -> str:
    """Make the key, or give the one that there is a new secret and some more time.

    Its limits are set when it is made; whoever changes them afterwards is not overruled.

    :return: the secret, which nobody is shown.
    :raises GatewayError: ``conflict`` where the key is disabled, or the config file has one of this
        name; what the stores refuse with.
    """
    changes = KeyChanges(book, audit)
    if book.is_file_key(NAME):
        raise GatewayError(
            "conflict", f'the config file has a key named "{NAME}"; paste the secret of a key'
        )
    ends = rfc3339(book.managed.now_ms() + LIFE_MS)
    key = book.managed.get(NAME)
    if key is None:
        _, secret = await changes.create(call, {"name": NAME, "expires_at": ends, **_LIMITS})
        return secret
    if key.disabled:
        raise GatewayError(
            "conflict", f'the key "{NAME}" is disabled; enable it, or paste the secret of another'
        )
    # An expired key cannot be rotated.
    await changes.change(call, NAME, {"expires_at": ends})
    _, secret = await changes.rotate(call, NAME, {"grace_s": GRACE_S})
    return secret

"""The key that tries are made with where nobody has another one at hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from twisted.internet.defer import DeferredLock

from omnigate.control.audited import Recorder
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_changes import KeyChanges
from omnigate.control.key_secret import sha256_hex
from omnigate.control.keys import KeyBook
from omnigate.control.routes import Call
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339

#: One key for all tries, so that what they cost is one line of every report.
NAME: Final = "try-it"

#: What all tries may cost in a day.
BUDGET_USD: Final = Decimal("0.10")

#: How long a secret opens anything, and how much of that has to be left for another try.
LIFE_MS: Final = 15 * 60 * 1000
LEAST_LIFE_MS: Final = 5 * 60 * 1000

#: Somebody else's try that has not begun yet goes on with the secret before.
GRACE_S: Final = 60

_LIMITS: Final[dict[str, Any]] = {
    "rpm": 60,
    "max_concurrent": 8,
    "budget_usd": BUDGET_USD,
    "budget_period": "daily",
}


class TryKey:
    """Makes the key, and gives its secret to requests that are tried.

    The secret is kept in memory, for whoever tries several requests one after the other; nobody is
    shown it.
    """

    def __init__(self, book: KeyBook, audit: Recorder) -> None:
        self._keys = book.managed
        self._is_file_key = book.is_file_key
        self._changes = KeyChanges(book, audit)
        self._secret = ""
        self._actor = ""
        # Of two who come at once the second one finds what the first one has made.
        self._lock = DeferredLock()

    async def secret(self, call: Call) -> str:
        """Make the key, or give the one that there is a new secret and some more time.

        Whoever has done that a few minutes ago goes on with the same secret. The key's limits are
        set when it is made; whoever changes them afterwards is not overruled.

        :raises GatewayError: ``conflict`` where the key is disabled, or the config file has one of
            this name; what the stores refuse with.
        """
        await self._lock.acquire()
        try:
            return await self._given(call)
        finally:
            self._lock.release()

    async def _given(self, call: Call) -> str:
        if self._is_file_key(NAME):
            raise GatewayError(
                "conflict", f'the config file has a key named "{NAME}"; paste the secret of a key'
            )
        key = self._keys.get(NAME)
        if key is not None and key.disabled:
            raise GatewayError(
                "conflict",
                f'the key "{NAME}" is disabled; enable it, or paste the secret of another',
            )
        if key is None or not self._still_opens(key, call.actor):
            secret = await self._renewed(call, key)
            self._secret, self._actor = secret, call.actor
            return secret
        return self._secret

    def _still_opens(self, key: GatewayKey, actor: str) -> bool:
        """Whether the secret is this person's, and the key's for long enough."""
        return (
            actor == self._actor
            and sha256_hex(self._secret) == key.current_sha256
            and key.expires_ms >= self._keys.now_ms() + LEAST_LIFE_MS
        )

    async def _renewed(self, call: Call, key: GatewayKey | None) -> str:
        ends = {"expires_at": rfc3339(self._keys.now_ms() + LIFE_MS)}
        if key is None:
            _, secret = await self._changes.create(call, {"name": NAME, **ends, **_LIMITS})
        else:
            # An expired key cannot be rotated.
            await self._changes.change(call, NAME, ends)
            _, secret = await self._changes.rotate(call, NAME, {"grace_s": GRACE_S})
        return secret

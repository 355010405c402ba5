"""Who may speak to the control plane: the internal token, operators' credentials, and lock-outs.

Three audiences have three kinds of credentials, and none works in another's place; gateway keys are
not known here at all. Credentials are judged from the head alone, before a body is read.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import attrs

from omnigate.control.admin_key import ADDRESS, DISABLED, EXPIRED, FULL, AdminKey
from omnigate.control.key_secret import sha256_hex
from omnigate.errors import MAX_OWN_RETRY_AFTER, GatewayError

INTERNAL = "internal"
ADMIN = "admin"
OPEN = "open"

#: People with a browser: those who have signed in, and those who may before they have.
PEOPLE = "people"
STRANGERS = "strangers"

#: How the audit log names whoever shows the admin token.
TOKEN_ACTOR = "admin-token"

#: Why credentials are refused, by audience.
REASONS = {
    ADMIN: ("missing", "wrong", "locked", DISABLED, EXPIRED, ADDRESS),
    INTERNAL: ("missing", "wrong", "locked"),
}

#: How many wrong credentials lock an address out, within how long and for how long. A person
#: mistypes a few times; whoever guesses needs far more, and twenty a minute lead nowhere.
WRONG_IN_WINDOW = 20
WINDOW_SECONDS = 60.0
LOCK_SECONDS = 60.0

#: About 2 MB; beyond it the oldest entry gives way.
MAX_ADDRESSES = 10_000

_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+)\Z")


def network_of(address: str) -> str:
    """Answer what an address is counted as: itself, or the /64 of an IPv6 address.

    One household or host usually has a whole /64, so counting single IPv6 addresses would
    bound nothing.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address


@attrs.define
class _Tally:
    """Wrong credentials of one address in its current window."""

    since: float
    wrong: int = 0
    locked_until: float = 0.0


class Lockout:
    """Counts wrong credentials per address and locks an address out for a minute.

    Pure: ``now`` is an argument, in seconds of any steady clock.
    """

    def __init__(self, max_addresses: int = MAX_ADDRESSES) -> None:
        self._max_addresses = max_addresses
        self._tallies: dict[str, _Tally] = {}  # oldest window first

    def __len__(self) -> int:
        return len(self._tallies)

    def locked_for(self, address: str, now: float) -> float:
        """Answer the seconds for which the address is still locked out; 0.0 when it is not."""
        tally = self._tallies.get(network_of(address))
        return 0.0 if tally is None else max(0.0, tally.locked_until - now)

    def wrong(self, address: str, now: float) -> None:
        """Count one wrong credential of the address."""
        name = network_of(address)
        tally = self._tallies.get(name)
        if tally is None or (now - tally.since >= WINDOW_SECONDS and tally.locked_until <= now):
            self._tallies.pop(name, None)
            self._make_room(now)
            tally = self._tallies[name] = _Tally(since=now)
        tally.wrong += 1
        if tally.wrong >= WRONG_IN_WINDOW and tally.locked_until <= now:
            tally.locked_until = now + LOCK_SECONDS

    def _make_room(self, now: float) -> None:
        """Drop what is over, then the oldest, until one more fits."""
        while self._tallies:
            name, oldest = next(iter(self._tallies.items()))
            over = now - oldest.since >= WINDOW_SECONDS and oldest.locked_until <= now
            if not over and len(self._tallies) < self._max_addresses:
                return
            del self._tallies[name]


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class AdminKeys(Protocol):
    """The admin keys, as far as a credential is judged by them."""

    def find(self, secret: str, address: str) -> tuple[AdminKey, str] | None:
        """Return the key that a secret belongs to, and why it does not open it, or ``""``."""

    def shown(self, sha256: str, address: str) -> tuple[AdminKey, str] | None:
        """Do the same for the hash of a secret that was shown before."""


class NoAdminKeys:
    """Knows no admin key."""

    def find(self, secret: str, address: str) -> tuple[AdminKey, str] | None:
        """Find nothing."""
        return None

    def shown(self, sha256: str, address: str) -> tuple[AdminKey, str] | None:
        """Find nothing."""
        return None


@attrs.frozen
class Caller:
    """Who was admitted.

    :ivar actor: whose credential it was, as the audit log names it; the empty string where no
        operator's is asked for.
    :ivar may_write: whether it may change anything.
    """

    actor: str = ""
    may_write: bool = True


_REALM = ((b"www-authenticate", b'Bearer realm="omnigate"'),)

#: What whoever shows the right secret is told when it opens nothing.
_CLOSED = {
    DISABLED: "this admin key is disabled; use another one",
    EXPIRED: "this admin key has expired; use another one",
}


class Credentials:
    """The two tokens, kept as digests and compared in constant time, and the admin keys.

    :param now: a steady clock in seconds.
    :param count: told of every refusal: audience, and one of :data:`REASONS`.
    :ivar admin_keys: the admin keys that there are.
    :ivar sign_in_failed: told of every operator's credential that was refused: address and reason.
    """

    def __init__(
        self,
        internal_token: str,
        admin_token: str,
        now: Callable[[], float],
        count: Callable[[str, str], None] = lambda audience, reason: None,
    ) -> None:
        self._internal = _digest(internal_token.encode())
        self._admin = _digest(admin_token.encode())
        self._now = now
        self._count = count
        self.admin_keys: AdminKeys = NoAdminKeys()
        self.sign_in_failed: Callable[[str, str], None] = lambda address, reason: None
        self.admin_lockout = Lockout()
        self.internal_lockout = Lockout()

    def judge(
        self,
        audience: str,
        address: str,
        internal: Sequence[bytes],
        authorization: Sequence[bytes],
    ) -> Caller:
        """Admit a request to its audience, or refuse it.

        :param internal: the values of ``x-omnigate-internal``, one per header line.
        :param authorization: the values of ``authorization``.
        :raises GatewayError: 401, 403 for an admin key from elsewhere, or 429 while the address is
            locked out; with the codes of the public table for data planes, and of the admin API
            for operators. 503 for an admin key while they are not loaded.
        """
        if audience == ADMIN:
            return self._judge_admin(address, authorization)
        if audience == INTERNAL:
            self._judge_internal(address, internal)
        return Caller()

    def sign_in(self, secret: str, address: str) -> tuple[Caller, str]:
        """Admit whoever types the admin token or the secret of an admin key into the form.

        :return: who it is, and what :meth:`recognise` knows that credential by.
        :raises GatewayError: as :meth:`judge` does for operators.
        """
        self._refuse_locked(ADMIN, self.admin_lockout, address)
        caller = self._judge_secret(address, secret.encode("utf-8", "replace"))
        return caller, "" if caller.actor == TOKEN_ACTOR else sha256_hex(secret)

    def recognise(self, shown: str, address: str) -> Caller:
        """Admit somebody who has signed in, as long as the credential still opens anything.

        :param shown: what :meth:`sign_in` returned.
        :raises GatewayError: ``invalid_token``, ``address_not_allowed``, or ``not_ready`` while
            the admin keys are not loaded.
        """
        if not shown:
            return Caller(TOKEN_ACTOR)
        found = self.admin_keys.shown(shown, address)
        if found is None:
            self._failed("wrong", address)
            raise GatewayError("invalid_token", "the admin key that you signed in with is gone")
        key, closed = found
        if closed:
            self._refuse_closed(closed, address)
        return Caller(key.actor, key.scope == FULL)

    def _judge_admin(self, address: str, authorization: Sequence[bytes]) -> Caller:
        """Admit an operator; a locked address is refused even with the right credential."""
        self._refuse_locked(ADMIN, self.admin_lockout, address)
        if not authorization:
            # Nobody tried to sign in, so it is no failed sign-in, either.
            self._count(ADMIN, "missing")
            raise GatewayError(
                "invalid_token",
                "the admin token is missing; send it as 'Authorization: Bearer …'",
                headers=_REALM,
            )
        match = _BEARER.match(authorization[0]) if len(authorization) == 1 else None
        return self._judge_secret(address, b"" if match is None else match[1])

    def _judge_secret(self, address: str, secret: bytes) -> Caller:
        """Admit the right secret of an operator, and count a wrong one."""
        if secret.isascii():
            if hmac.compare_digest(_digest(secret), self._admin):
                return Caller(TOKEN_ACTOR)
            found = self.admin_keys.find(secret.decode("ascii"), address)
            if found is not None:
                key, closed = found
                if closed:
                    self._refuse_closed(closed, address)
                return Caller(key.actor, key.scope == FULL)
        self.admin_lockout.wrong(address, self._now())
        self._failed("wrong", address)
        raise GatewayError(
            "invalid_token",
            "this is neither the admin token nor the secret of an admin key; see "
            "OMNIGATE_ADMIN_TOKEN of the control plane",
            headers=_REALM,
        )

    def _refuse_closed(self, closed: str, address: str) -> NoReturn:
        """Refuse a right secret that opens nothing; who has it guesses nothing, so no lock-out."""
        self._failed(closed, address)
        if closed == ADDRESS:
            raise GatewayError(
                "address_not_allowed", "this admin key does not work from this address"
            )
        raise GatewayError("invalid_token", _CLOSED[closed], headers=_REALM)

    def _failed(self, reason: str, address: str) -> None:
        self._count(ADMIN, reason)
        self.sign_in_failed(address, reason)

    def _judge_internal(self, address: str, internal: Sequence[bytes]) -> None:
        """Admit the internal token.

        The right token passes even from a locked address: a data plane with a wrong token must
        not silence a good one that stands behind the same address.
        """
        token = internal[0] if len(internal) == 1 else b""
        if hmac.compare_digest(_digest(token), self._internal):
            return
        if internal:
            self._refuse_locked(INTERNAL, self.internal_lockout, address)
            self.internal_lockout.wrong(address, self._now())
        self._count(INTERNAL, "wrong" if internal else "missing")
        raise GatewayError(
            "invalid_token",
            "the internal token is missing or wrong; OMNIGATE_INTERNAL_TOKEN must be the same "
            "on both planes",
        )

    def _refuse_locked(self, audience: str, lockout: Lockout, address: str) -> None:
        wait = lockout.locked_for(address, self._now())
        if wait > 0.0:
            if audience == ADMIN:
                self._failed("locked", address)
            else:
                self._count(audience, "locked")
            seconds = min(MAX_OWN_RETRY_AFTER, int(wait) + 1)
            raise GatewayError(
                "too_many_attempts",
                f"too many wrong credentials from this address; wait {seconds} seconds",
                retry_after=seconds,
            )

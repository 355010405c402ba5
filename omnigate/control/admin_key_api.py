"""Admin keys, as operators see and change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from omnigate.config.key_values import MAX_NETWORKS
from omnigate.control.admin_json import encode, read_body, time
from omnigate.control.admin_key import SCOPES, AdminKey
from omnigate.control.admin_key_changes import AdminKeyChanges
from omnigate.control.admin_key_members import REQUIRED
from omnigate.control.admin_keys import MAX_ADMIN_KEYS, AdminKeyStore
from omnigate.control.audited import Recorder
from omnigate.control.key_api import DELETED, MAX_ROTATION_BYTES, ROTATION
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    FLAG,
    NAME,
    TEXT,
    TIME,
    Schema,
    one_of,
    or_null,
    record,
    rows,
)
from omnigate.errors import GatewayError

#: A key with all its networks is about 4 KB.
MAX_BODY_BYTES: Final = 16 * 1024

_NETWORKS: Final = or_null({**rows(TEXT), "minItems": 1, "maxItems": MAX_NETWORKS})
_BODY: Final = {
    "scope": one_of(*SCOPES),
    "expires_at": or_null(TIME),
    "disabled": FLAG,
    "allowed_ips": _NETWORKS,
}
NEW: Final[Schema] = record(
    {"name": NAME, **_BODY},
    optional=[member for member in _BODY if member not in REQUIRED],
    title="NewAdminKey",
)
CHANGE: Final[Schema] = record(
    {**_BODY, "disabled": or_null(FLAG)}, optional=tuple(_BODY), title="AdminKeyChange"
)

_ROW: Final = {
    "name": TEXT,
    "scope": one_of(*SCOPES),
    "disabled": FLAG,
    "allowed_ips": or_null(rows(TEXT)),
    "created_at": TIME,
    "expires_at": or_null(TIME),
    "rotated_at": or_null(TIME),
    "old_secrets_until": or_null(TIME),
}
KEY: Final[Schema] = record(_ROW, title="AdminKey")
WITH_SECRET: Final[Schema] = record({"secret": TEXT, **_ROW}, title="AdminKeyWithSecret")
KEYS: Final[Schema] = record({"keys": {**rows(KEY), "maxItems": MAX_ADMIN_KEYS}})

_CHANGES: Final = ("not_found", "storage_unavailable")


class AdminKeyApi:
    """The endpoints of admin keys."""

    def __init__(self, keys: AdminKeyStore, audit: Recorder, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._changes = AdminKeyChanges(keys, audit)
        self._now_ms = now_ms

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (*self._collection(), *self._single())

    def _collection(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/admin/admin-keys",
                self.list_keys,
                summary="List all admin keys",
                answer=KEYS,
            ),
            Endpoint(
                "POST",
                "/admin/admin-keys",
                self.create_key,
                body_limit=MAX_BODY_BYTES,
                summary="Make an admin key; its secret is shown this once",
                body=NEW,
                answer=WITH_SECRET,
                status=201,
                refusals=("already_exists", "conflict", "storage_unavailable"),
            ),
        )

    def _single(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/admin/admin-keys/{name}",
                self.show_key,
                summary="Show one admin key",
                answer=KEY,
                refusals=("not_found",),
            ),
            Endpoint(
                "PATCH",
                "/admin/admin-keys/{name}",
                self.change_key,
                body_limit=MAX_BODY_BYTES,
                summary="Change what an admin key may do, from where and until when",
                body=CHANGE,
                answer=KEY,
                refusals=_CHANGES,
            ),
            Endpoint(
                "DELETE",
                "/admin/admin-keys/{name}",
                self.delete_key,
                summary="Take an admin key away",
                answer=DELETED,
                refusals=_CHANGES,
            ),
            Endpoint(
                "POST",
                "/admin/admin-keys/{name}/rotate",
                self.rotate_key,
                body_limit=MAX_ROTATION_BYTES,
                summary="Give an admin key a new secret, which is shown this once",
                body=ROTATION,
                answer=WITH_SECRET,
                refusals=(*_CHANGES, "conflict"),
            ),
        )

    async def list_keys(self, call: Call) -> Answer:
        """Answer every admin key, by name."""
        keys = sorted(self._keys, key=lambda key: key.name)
        return Answer(encode({"keys": [self._row(key) for key in keys]}))

    async def show_key(self, call: Call) -> Answer:
        """Answer one admin key."""
        key = self._keys.get(call.name)
        if key is None:
            raise GatewayError("not_found", f'there is no admin key named "{call.name}"')
        return Answer(encode(self._row(key)))

    async def create_key(self, call: Call) -> Answer:
        """Make an admin key; its secret is in this answer and nowhere else."""
        key, secret = await self._changes.create(call, read_body(call.body))
        return Answer(
            encode({"secret": secret, **self._row(key)}),
            status=201,
            headers=((b"location", f"/admin/admin-keys/{key.name}".encode("ascii")),),
        )

    async def change_key(self, call: Call) -> Answer:
        """Change an admin key, and answer it as it is then."""
        key = await self._changes.change(call, call.name, read_body(call.body))
        return Answer(encode(self._row(key)))

    async def rotate_key(self, call: Call) -> Answer:
        """Give an admin key a new secret; it is in this answer and nowhere else."""
        key, secret = await self._changes.rotate(call, call.name, read_body(call.body))
        return Answer(encode({"secret": secret, **self._row(key)}))

    async def delete_key(self, call: Call) -> Answer:
        """Take an admin key away."""
        key = await self._changes.delete(call, call.name)
        return Answer(encode({"name": key.name, "deleted": True}))

    def _row(self, key: AdminKey) -> dict[str, Any]:
        """Return a key as people see it."""
        return {
            "name": key.name,
            "scope": key.scope,
            "disabled": key.disabled,
            "allowed_ips": key.allowed_ips,
            "created_at": time(key.created_ms),
            "expires_at": time(key.expires_ms or None),
            "rotated_at": time(key.rotated_ms),
            "old_secrets_until": time(key.old_secrets_until_ms(self._now_ms())),
        }

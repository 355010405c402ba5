"""Pages of the admin keys: who may use the admin API and these pages, beside the admin token.

A secret is in the answer that makes it and nowhere else: no page that is loaded again shows it, and
a form that is sent again finds the key as it is by then, and is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from omnigate.control.admin_key import AdminKey
from omnigate.control.admin_key_changes import AdminKeyChanges
from omnigate.control.dashboard.admin_key_form import (
    SCOPE_CHOICES,
    AdminKeyForm,
    changes,
    filled,
    mark,
    members,
    typed,
)
from omnigate.control.dashboard.admin_key_rows import row_of
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.dashboard.paths import admin_key_path
from omnigate.control.dashboard.rotations import GRACES, rotation_mark, unrotated
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.typed_texts import faults_by_field
from omnigate.control.routes import WRITE, Answer, Call, Endpoint
from omnigate.errors import GatewayError

PLACE: Final = "/admin-keys"

#: Keys of one page of the list.
ROWS: Final = 100

#: A key with all its networks is about 4 KB, each character of which a form may write with three.
MAX_FORM_BYTES: Final = 16 * 1024

#: A token, and one or two short fields.
MAX_ACTION_BYTES: Final = 4096

#: How long the old secret works on after a rotation, in seconds, as the form offers it.
_GRACES: Final = (*GRACES, ("2592000", "30 days"))

#: What was done, by the word that the address of the page after it has.
DONE: Final[Mapping[str, str]] = {
    "saved": "Saved. It counts from now on.",
    "disabled": "The key is disabled; sessions that began with it have ended.",
    "enabled": "The key works again.",
    "deleted": "The key is gone; sessions that began with it have ended.",
}

_CHANGED: Final = (
    "Somebody else changed this key while you were at it. Look at what it has now, then change it "
    "again."
)


class AdminKeysPage:
    """The endpoints of admin keys."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._changes = AdminKeyChanges(sources.admin_keys, sources.audit)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""

        def post(pattern: str, run: Any, limit: int = MAX_ACTION_BYTES) -> Endpoint:
            return Endpoint("POST", f"{PLACE}{pattern}", run, body_limit=limit)

        return (
            Endpoint("GET", PLACE, self.show_all, free_query=True),
            Endpoint("GET", f"{PLACE}/new", self.show_new, scope=WRITE),
            post("/new", self.create, MAX_FORM_BYTES),
            Endpoint("GET", f"{PLACE}/{{name}}", self.lead_on),
            Endpoint("GET", f"{PLACE}/{{name}}/key", self.show, free_query=True),
            Endpoint("GET", f"{PLACE}/{{name}}/edit", self.show_edit, scope=WRITE),
            post("/{name}/edit", self.change, MAX_FORM_BYTES),
            post("/{name}/rotate", self.rotate),
            post("/{name}/disable", self.disable),
            post("/{name}/enable", self.enable),
            post("/{name}/delete", self.delete),
        )

    async def show_all(self, call: Call) -> Answer:
        """List the keys."""
        keys = sorted(self._sources.admin_keys, key=lambda key: key.name)
        part = page_of(len(keys), ROWS, call.query.get("page"))
        now_ms = self._sources.now_ms()
        return self._pages.answer(
            "admin_keys.html",
            call.person,
            title="Admin keys",
            place=PLACE,
            rows=[row_of(key, now_ms, call.actor) for key in part.of(keys)],
            pager=part.links(PLACE, {}),
            done=DONE.get(call.query.get("done", ""), ""),
        )

    async def lead_on(self, call: Call) -> Answer:
        """Lead to a key; a key may be named as one of our own pages is, so it is further down."""
        return see_other(admin_key_path(self._existing(call.name).name))

    async def show(self, call: Call) -> Answer:
        """Show one key."""
        done = DONE.get(call.query.get("done", ""), "")
        return self._shown(call, self._existing(call.name), done=done)

    async def show_new(self, call: Call) -> Answer:
        """Show the form for a new key."""
        return self._form(call, AdminKeyForm())

    async def create(self, call: Call) -> Answer:
        """Make a key and show its secret, this once; or say what is wrong with the form."""
        form = typed(call.form)
        try:
            key, secret = await self._changes.create(call, members(form))
        except GatewayError as refusal:
            return self._form(call, form, refusal=refusal)
        return self._secret(call, key, secret, f"Admin key {key.name} is made", status=201)

    async def show_edit(self, call: Call) -> Answer:
        """Show the form for changing a key."""
        key = self._existing(call.name)
        return self._form(call, filled(key), key)

    async def change(self, call: Call) -> Answer:
        """Change a key, unless somebody else has changed it since the form was shown."""
        key, form = self._existing(call.name), typed(call.form)

        def check(key: AdminKey) -> None:
            if mark(key) != call.form.get("mark"):
                raise GatewayError("conflict", _CHANGED)

        try:
            await self._changes.change(call, key.name, changes(filled(key), form), check)
        except GatewayError as refusal:
            now = self._sources.admin_keys.get(key.name) or key
            return self._form(call, form, now, refusal)
        return see_other(f"{admin_key_path(key.name)}?done=saved")

    async def rotate(self, call: Call) -> Answer:
        """Give a key a new secret and show it, this once."""
        key, grace = self._existing(call.name), call.form.get("grace")

        check = unrotated(call.form.get("mark"))
        seconds = int(grace[:12]) if grace.isascii() and grace.isdigit() else grace
        try:
            new, secret = await self._changes.rotate(call, key.name, {"grace_s": seconds}, check)
        except GatewayError as refusal:
            now = self._sources.admin_keys.get(key.name) or key
            return self._shown(call, now, refusal=refusal, grace=grace)
        return self._secret(call, new, secret, f"Admin key {key.name} has a new secret")

    async def disable(self, call: Call) -> Answer:
        """Have a key open nothing for now."""
        await self._changes.change(call, call.name, {"disabled": True})
        return see_other(f"{admin_key_path(call.name)}?done=disabled")

    async def enable(self, call: Call) -> Answer:
        """Have a key work again."""
        await self._changes.change(call, call.name, {"disabled": False})
        return see_other(f"{admin_key_path(call.name)}?done=enabled")

    async def delete(self, call: Call) -> Answer:
        """Take a key away."""
        await self._changes.delete(call, call.name)
        return see_other(f"{PLACE}?done=deleted")

    def _existing(self, name: str) -> AdminKey:
        key = self._sources.admin_keys.get(name)
        if key is None:
            raise GatewayError("not_found", f'There is no admin key named "{name}".')
        return key

    def _shown(
        self,
        call: Call,
        key: AdminKey,
        *,
        done: str = "",
        refusal: GatewayError | None = None,
        grace: str = "86400",
    ) -> Answer:
        """Return the page of a key, with what its form for rotating it was refused for."""
        return self._pages.answer(
            "admin_key.html",
            call.person,
            status=200 if refusal is None else refusal.kind.status,
            title=key.name,
            place=PLACE,
            row=row_of(key, self._sources.now_ms(), call.actor),
            done=done,
            note="" if refusal is None else refusal.message,
            grace=grace,
            graces=_GRACES,
            mark=rotation_mark(key),
        )

    def _form(
        self,
        call: Call,
        form: AdminKeyForm,
        key: AdminKey | None = None,
        refusal: GatewayError | None = None,
    ) -> Answer:
        """Return the form, with what is wrong beside its fields.

        :param key: the key that is changed; ``None`` for a new one.
        """
        faults = faults_by_field(refusal)
        return self._pages.answer(
            "admin_key_form.html",
            call.person,
            status=200 if refusal is None else refusal.kind.status,
            title="New admin key" if key is None else f"Change {key.name}",
            place=PLACE,
            form=form,
            action=f"{PLACE}/new" if key is None else f"{PLACE}/{key.name}/edit",
            path=PLACE if key is None else admin_key_path(key.name),
            is_new=key is None,
            is_own=key is not None and key.actor == call.actor,
            # The form was filled in by what this mark says, and so it stays until it is made anew.
            mark="" if key is None else call.form.get("mark") or mark(key),
            faults=faults,
            note="" if refusal is None or faults else refusal.message,
            scopes=SCOPE_CHOICES,
        )

    def _secret(
        self, call: Call, key: AdminKey, secret: str, title: str, status: int = 200
    ) -> Answer:
        """Return the one page that shows a secret."""
        return self._pages.answer(
            "admin_key_secret.html",
            call.person,
            status=status,
            title=title,
            place=PLACE,
            row=row_of(key, self._sources.now_ms(), call.actor),
            path=admin_key_path(key.name),
            secret=secret,
            curl=_curl_line(secret, call.origin),
        )


def _curl_line(secret: str, origin: str) -> str:
    """Return a command that tries a key, at the address where the browser finds the pages."""
    url = shlex.quote(f"{origin}/admin/keys")
    return f"curl {url} -H 'authorization: Bearer {secret}'"

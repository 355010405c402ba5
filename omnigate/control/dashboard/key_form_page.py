"""Pages that make and change gateway keys.

A secret is in the answer that makes it and nowhere else: no page that is loaded again shows it, and
a form that is sent again finds the key as it is by then, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from omnigate.config.key_values import ENDPOINT_KINDS
from omnigate.control.dashboard.key_form import (
    KeyForm,
    changes,
    filled,
    mark,
    members,
    typed,
)
from omnigate.control.dashboard.key_view import (
    NO_MODEL,
    curl_line,
    find_key,
    first_model,
    sdk_lines,
)
from omnigate.control.dashboard.keys_page import PLACE, KeysPage
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.dashboard.paths import key_path
from omnigate.control.dashboard.rotations import unrenewed, unrotated
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.typed_texts import faults_by_field
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_changes import TO_CHANGE, KeyChanges
from omnigate.control.routes import WRITE, Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.periods import PERIODS

#: The longest list of models, each character that a form writes with three.
MAX_FORM_BYTES: Final = 512 * 1024

#: A token, and one or two short fields.
MAX_ACTION_BYTES: Final = 4096

#: Where a data plane listens unless it is told otherwise.
DATA_URL: Final = "http://127.0.0.1:8080"

#: The periods as the form offers them.
PERIOD_CHOICES: Final = tuple(
    (period, {"total": "never again: it is for the whole life of the key"}.get(period, period))
    for period in PERIODS
)

_CHANGED: Final = (
    "Somebody else changed this key while you were at it. What you typed is kept; where the key "
    "has something else now, that is told beside the field. Save again to put yours in its place."
)
_GONE: Final = (
    "There is no key of this name any more; somebody may have deleted it meanwhile. What you typed "
    "is kept, and can be made a new key, with another secret and nothing spent."
)


class KeyFormPage:
    """The endpoints that make, change, rotate and delete keys."""

    def __init__(self, pages: Pages, sources: Sources, shown: KeysPage) -> None:
        """Take the parts.

        :param shown: makes the page of a key.
        """
        self._pages = pages
        self._sources = sources
        self._changes = KeyChanges(sources.book, sources.audit)
        self._shown = shown

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/keys/new", self.show_new, scope=WRITE),
            Endpoint("POST", "/keys/new", self.create, body_limit=MAX_FORM_BYTES),
            Endpoint("GET", "/keys/{name}/edit", self.show_edit, scope=WRITE),
            Endpoint("POST", "/keys/{name}/edit", self.change, body_limit=MAX_FORM_BYTES),
            Endpoint("POST", "/keys/{name}/rotate", self.rotate, body_limit=MAX_ACTION_BYTES),
            Endpoint(
                "POST",
                "/keys/{name}/webhook-secret",
                self.renew_webhook_secret,
                body_limit=MAX_ACTION_BYTES,
            ),
            Endpoint(
                "POST",
                "/keys/{name}/unsign",
                self.delete_webhook_secret,
                body_limit=MAX_ACTION_BYTES,
            ),
            Endpoint("POST", "/keys/{name}/disable", self.disable, body_limit=MAX_ACTION_BYTES),
            Endpoint("POST", "/keys/{name}/enable", self.enable, body_limit=MAX_ACTION_BYTES),
            Endpoint("POST", "/keys/{name}/delete", self.delete, body_limit=MAX_ACTION_BYTES),
        )

    async def show_new(self, call: Call) -> Answer:
        """Show the form for a new key."""
        return self._form(call, KeyForm())

    async def create(self, call: Call) -> Answer:
        """Make a key and show its secret, this once; or say what is wrong with the form."""
        form = typed(call.form)
        try:
            key, secret = await self._changes.create(call, members(form))
        except GatewayError as refusal:
            return self._form(call, form, refusal=refusal)
        return self._secret(call, key, secret, f"Key {key.name} is made", status=201)

    async def show_edit(self, call: Call) -> Answer:
        """Show the form for changing a key."""
        key = self._existing(call.name)
        return self._form(call, filled(key), key)

    async def change(self, call: Call) -> Answer:
        """Change a key, unless somebody else has changed it since the form was shown."""
        form = typed(call.form)
        self._changes.check_managed(call.name, TO_CHANGE)
        key = self._sources.book.managed.get(call.name)
        if key is None:
            gone = GatewayError("not_found", _GONE)
            return self._form(call, attrs.evolve(form, name=call.name), refusal=gone)

        def check(key: GatewayKey) -> None:
            if mark(key) != call.form.get("mark"):
                raise GatewayError("conflict", _CHANGED)

        try:
            await self._changes.change(call, key.name, changes(filled(key), form), check)
        except GatewayError as refusal:
            now = find_key(self._sources, call.name) or key
            others = {} if mark(now) == call.form.get("mark") else _differing(filled(now), form)
            return self._form(call, form, now, refusal, others)
        return see_other(f"{key_path(key.name)}?done=saved")

    async def rotate(self, call: Call) -> Answer:
        """Give a key a new secret and show it, this once."""
        key, choice = self._existing(call.name), call.form.get("grace")
        minutes, check = call.form.get("own_minutes"), unrotated(call.form.get("mark"))
        seconds: object = choice if choice != "own" else minutes
        if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
            seconds = int(seconds[:12]) * (60 if choice == "own" else 1)

        try:
            new, secret = await self._changes.rotate(call, key.name, {"grace_s": seconds}, check)
        except GatewayError as refusal:
            fault = faults_by_field(refusal)
            return self._shown.answer(
                call,
                find_key(self._sources, call.name) or key,
                status=refusal.kind.status,
                grace=choice,
                own_minutes=minutes,
                fault=fault.get("grace_s", ""),
                note="" if fault else refusal.message,
            )
        return self._secret(call, new, secret, f"Key {key.name} has a new secret")

    async def renew_webhook_secret(self, call: Call) -> Answer:
        """Sign webhooks with a new secret and show it, this once."""
        key, check = self._existing(call.name), unrenewed(call.form.get("signing_mark"))
        grace: object = call.form.get("signing_grace")
        if isinstance(grace, str) and grace.isascii() and grace.isdigit():
            grace = int(grace[:12])
        try:
            new, secret = await self._changes.renew_webhook_secret(
                call, key.name, {"grace_s": grace}, check
            )
        except GatewayError as refusal:
            return self._shown.answer(
                call,
                find_key(self._sources, call.name) or key,
                status=refusal.kind.status,
                note=refusal.message,
            )
        return self._pages.answer(
            "webhook_secret.html",
            call.person,
            title=f"Webhooks of {new.name} have a new secret",
            place=PLACE,
            path=key_path(new.name),
            secret=secret,
            grace_until_ms=new.old_webhook_secrets_until_ms(self._sources.now_ms()),
        )

    async def delete_webhook_secret(self, call: Call) -> Answer:
        """Sign webhooks no more."""
        await self._changes.delete_webhook_secret(call, call.name)
        return see_other(f"{key_path(call.name)}?done=unsigned")

    async def disable(self, call: Call) -> Answer:
        """Have a key open nothing for now."""
        await self._changes.change(call, call.name, {"disabled": True})
        return see_other(f"{key_path(call.name)}?done=disabled")

    async def enable(self, call: Call) -> Answer:
        """Have a key work again."""
        await self._changes.change(call, call.name, {"disabled": False})
        return see_other(f"{key_path(call.name)}?done=enabled")

    async def delete(self, call: Call) -> Answer:
        """Take a key away."""
        await self._changes.delete(call, call.name)
        return see_other(f"{PLACE}?done=deleted")

    def _existing(self, name: str) -> GatewayKey:
        """Return a managed key.

        :raises GatewayError: ``not_found``, or ``conflict`` for one of the config file.
        """
        self._changes.check_managed(name, TO_CHANGE)
        key = self._sources.book.managed.get(name)
        if key is None:
            raise GatewayError("not_found", f'There is no key named "{name}".')
        return key

    def _form(
        self,
        call: Call,
        form: KeyForm,
        key: GatewayKey | None = None,
        refusal: GatewayError | None = None,
        others: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the form, with what is wrong beside its fields.

        :param key: the key that is changed; ``None`` for a new one.
        :param others: what fields would show that somebody else has changed.
        """
        faults = faults_by_field(refusal)
        return self._pages.answer(
            "key_form.html",
            call.person,
            status=200 if refusal is None else refusal.kind.status,
            title="New key" if key is None else f"Change {key.name}",
            place=PLACE,
            form=form,
            action="/keys/new" if key is None else f"/keys/{key.name}/edit",
            path=PLACE if key is None else key_path(key.name),
            is_new=key is None,
            mark="" if key is None else mark(key),
            faults=faults,
            others=others or {},
            note="" if refusal is None or faults else refusal.message,
            taken=refusal is not None and refusal.kind.code == "already_exists",
            kinds=ENDPOINT_KINDS,
            max_jobs_per_day=self._sources.config_file.config.media.max_jobs_per_day,
            period_choices=PERIOD_CHOICES,
        )

    def _secret(
        self, call: Call, key: GatewayKey, secret: str, title: str, status: int = 200
    ) -> Answer:
        """Return the one page that shows a secret."""
        model = first_model(self._sources.config_file.config, key)
        data_url = self._sources.data_plane.url.rstrip("/") or DATA_URL
        return self._pages.answer(
            "key_secret.html",
            call.person,
            status=status,
            title=title,
            place=PLACE,
            key=key,
            path=key_path(key.name),
            secret=secret,
            grace_until_ms=key.old_secrets_until_ms(self._sources.now_ms()),
            data_url=data_url,
            has_model=model != NO_MODEL,
            curl=curl_line(key, secret, model, f"{data_url}/v1"),
            sdk=sdk_lines(secret, f"{data_url}/v1"),
        )


def _differing(now: KeyForm, form: KeyForm) -> dict[str, str]:
    """Return what fields would show, of those that show something else."""
    differing = changes(form, now)
    shown = {
        "endpoints": ", ".join(now.endpoints),
        "disabled": "disabled" if now.disabled else "not disabled",
        "models": ", ".join(now.models.split()),
        "allowed_ips": ", ".join(now.allowed_ips.split()),
        "age_recipients": ", ".join(now.age_recipients.split()),
    }
    return {name: shown.get(name, str(getattr(now, name))) or "nothing" for name in differing}

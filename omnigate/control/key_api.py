"""Gateway keys as operators see and change them.

Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from omnigate.config import key_values, values
from omnigate.config.media import MAX_RECIPIENTS
from omnigate.config.schema import MAX_PATTERNS
from omnigate.control.admin_json import dollars, encode, read_body, time
from omnigate.control.audited import Recorder
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_changes import TO_CHANGE, TO_ROTATE, TO_SIGN, KeyChanges
from omnigate.control.keys import KeyBook
from omnigate.control.parameters import Parameter, read_whole
from omnigate.control.parameters import whole as whole_parameter
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    COUNT,
    DOLLARS,
    FLAG,
    NAME,
    SHA256,
    TEXT,
    TIME,
    Schema,
    one_of,
    or_null,
    record,
    rows,
    whole,
)
from omnigate.control.webhook_secret import DEFAULT_GRACE_S
from omnigate.errors import GatewayError
from omnigate.periods import PERIODS

#: A key with the longest model list is about 130 KB.
MAX_KEY_BYTES: Final = 256 * 1024

#: The body of a rotation holds one number.
MAX_ROTATION_BYTES: Final = 1024

#: Keys that are shown in one go; so many with all their limits take 3 to 5 ms.
KEYS_AT_ONCE: Final = 250

#: Models and addresses that are shown in one go: 2 ms, however long their names are.
ENTRIES_AT_ONCE: Final = 10_000

#: Keys of one page: 500 KB of ordinary ones.
MAX_PAGE: Final = 1_000

#: Their lists, of the first key in any case: a page of 10 MB takes 30 ms to be put together.
MAX_PAGE_LIST_BYTES: Final = 2 * 1024 * 1024

LIMIT: Final = whole_parameter("limit", "how many keys to show at most", MAX_PAGE, MAX_PAGE)
AFTER: Final = Parameter(
    "after", "show keys behind this name only: `next` of the page before", NAME
)

#: What is told of a key by the ledger.
_STANDING: Final = ("spent_usd", "left_usd", "blocked", "over_soft", "turns_at")

#: The members that a key is made of, as its maker writes them.
_BODY: Final = {
    "rpm": whole(0, values.MAX_RPM),
    "models": or_null({**rows(TEXT), "minItems": 1, "maxItems": MAX_PATTERNS}),
    "max_concurrent": whole(0, values.MAX_CONCURRENT),
    "tpm": whole(0, key_values.MAX_TPM),
    "allowed_ips": or_null({**rows(TEXT), "minItems": 1, "maxItems": key_values.MAX_NETWORKS}),
    "endpoints": or_null(
        {
            **rows(one_of(*key_values.ENDPOINT_KINDS)),
            "minItems": 1,
            "maxItems": len(key_values.ENDPOINT_KINDS),
        }
    ),
    "expires_at": or_null(TIME),
    "disabled": FLAG,
    "max_open_jobs": whole(0, key_values.MAX_JOBS),
    "max_jobs_per_day": whole(0, key_values.MAX_JOBS),
    "age_recipients": or_null({**rows(TEXT), "minItems": 1, "maxItems": MAX_RECIPIENTS}),
    "budget_usd": or_null(DOLLARS),
    "soft_budget_usd": or_null(DOLLARS),
    "budget_period": one_of(*PERIODS),
    "budget_timezone": TEXT,
}

NEW_KEY: Final[Schema] = record({"name": NAME, **_BODY}, optional=tuple(_BODY), title="NewKey")
KEY_CHANGE: Final[Schema] = record(
    {name: or_null(schema) for name, schema in _BODY.items()},
    optional=tuple(_BODY),
    title="KeyChange",
)
ROTATION: Final[Schema] = record(
    {"grace_s": {**whole(0, key_values.MAX_GRACE_S), "default": 0}},
    optional=("grace_s",),
    title="Rotation",
)
RENEWAL: Final[Schema] = record(
    {"grace_s": {**whole(0, key_values.MAX_GRACE_S), "default": DEFAULT_GRACE_S}},
    optional=("grace_s",),
    title="WebhookSecretRenewal",
)

_ROW: Final = {
    "name": TEXT,
    "source": one_of("file", "managed"),
    "key_sha256": SHA256,
    "rpm": COUNT,
    "models": or_null(rows(TEXT)),
    "max_concurrent": COUNT,
    "tpm": COUNT,
    "allowed_ips": or_null(rows(TEXT)),
    "endpoints": or_null(rows(TEXT)),
    "expires_at": or_null(TIME),
    "disabled": FLAG,
    "max_open_jobs": COUNT,
    "max_jobs_per_day": COUNT,
    "age_recipients": or_null(rows(TEXT)),
    "signs_webhooks": FLAG,
    "old_webhook_secrets_until": or_null(TIME),
    "budget_usd": or_null(DOLLARS),
    "soft_budget_usd": or_null(DOLLARS),
    "budget_period": or_null(one_of(*PERIODS)),
    "budget_timezone": or_null(TEXT),
    "created_at": or_null(TIME),
    "rotated_at": or_null(TIME),
    "old_secrets_until": or_null(TIME),
    "spent_usd": or_null(DOLLARS),
    "left_usd": or_null(DOLLARS),
    "blocked": or_null(FLAG),
    "over_soft": or_null(FLAG),
    "turns_at": or_null(TIME),
}

KEY: Final[Schema] = record(_ROW, title="Key")
MADE_KEY: Final[Schema] = record({"secret": TEXT, **_ROW}, title="MadeKey")
KEYS: Final[Schema] = record(
    {"keys": {**rows(KEY), "maxItems": MAX_PAGE + 1}, "next": or_null(NAME)}, title="Keys"
)
_CHANGES: Final = ("not_found", "conflict", "storage_unavailable")

DELETED: Final[Schema] = record({"name": TEXT, "deleted": FLAG}, title="Deleted")


class Readiness(Protocol):
    """The ledger, as far as a list of keys needs it."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""


class KeyApi:
    """The endpoints of gateway keys.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        book: KeyBook,
        watch: BudgetWatch,
        ledger: Readiness,
        audit: Recorder,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._book = book
        self._watch = watch
        self._ledger = ledger
        self._changes = KeyChanges(book, audit)
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (*self._collection(), *self._single())

    def _collection(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/admin/keys",
                self.list_keys,
                summary="List keys of both kinds by name, a page at a time",
                parameters=(LIMIT, AFTER),
                answer=KEYS,
            ),
            Endpoint(
                "POST",
                "/admin/keys",
                self.create_key,
                body_limit=MAX_KEY_BYTES,
                summary="Make a managed key; its secret is shown this once",
                body=NEW_KEY,
                answer=MADE_KEY,
                status=201,
                refusals=("already_exists", "conflict", "storage_unavailable"),
            ),
        )

    def _single(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/admin/keys/{name}",
                self.show_key,
                summary="Show one key",
                answer=KEY,
                refusals=("not_found",),
            ),
            Endpoint(
                "PATCH",
                "/admin/keys/{name}",
                self.change_key,
                body_limit=MAX_KEY_BYTES,
                summary="Change limits and budgets of a managed key",
                body=KEY_CHANGE,
                answer=KEY,
                refusals=_CHANGES,
            ),
            Endpoint(
                "DELETE",
                "/admin/keys/{name}",
                self.delete_key,
                summary="Take a managed key away",
                answer=DELETED,
                refusals=_CHANGES,
            ),
            Endpoint(
                "POST",
                "/admin/keys/{name}/rotate",
                self.rotate_key,
                body_limit=MAX_ROTATION_BYTES,
                summary="Give a managed key a new secret, which is shown this once",
                body=ROTATION,
                answer=MADE_KEY,
                refusals=_CHANGES,
            ),
            Endpoint(
                "POST",
                "/admin/keys/{name}/webhook-secret",
                self.renew_webhook_secret,
                body_limit=MAX_ROTATION_BYTES,
                summary="Sign webhooks of a managed key's jobs with a new secret, shown this once",
                body=RENEWAL,
                answer=MADE_KEY,
                refusals=_CHANGES,
            ),
            Endpoint(
                "DELETE",
                "/admin/keys/{name}/webhook-secret",
                self.delete_webhook_secret,
                summary="Sign webhooks of a managed key's jobs no more",
                answer=KEY,
                refusals=_CHANGES,
            ),
        )

    async def list_keys(self, call: Call) -> Answer:
        """Answer keys of both kinds by name, and the name that the next page comes behind."""
        limit, after = read_whole(call.query, LIMIT), _after(call.query)
        keys = sorted((key for key in self._book if key.name > after), key=lambda key: key.name)
        count = _fitting(keys[:limit])
        page = keys[:count]
        # A file that was read again may have brought the name of a managed key.
        page += [key for key in keys[count : count + 1] if key.name == page[-1].name]
        more = page[-1].name if len(keys) > len(page) else None
        rows: list[bytes] = []
        for some in _steps(page):
            if rows:
                await self._pause()
            rows.extend(encode(self._key_row(key)) for key in some)
        return Answer(b'{"keys":[%b],"next":%b}' % (b",".join(rows), encode(more)))

    async def show_key(self, call: Call) -> Answer:
        """Answer one key."""
        key = self._book.get(call.name)
        if key is None:
            raise GatewayError("not_found", f'there is no key named "{call.name}"')
        return Answer(encode(self._key_row(key)))

    async def create_key(self, call: Call) -> Answer:
        """Make a managed key; its secret is in this answer and nowhere else."""
        key, secret = await self._changes.create(call, read_body(call.body))
        location = f"/admin/keys/{key.name}".encode("ascii")
        return Answer(
            encode({"secret": secret, **self._key_row(key)}),
            status=201,
            headers=((b"location", location),),
        )

    async def change_key(self, call: Call) -> Answer:
        """Change limits and budgets of a managed key, and answer it as it is then."""
        # Before the body is read: no body would do.
        self._changes.check_managed(call.name, TO_CHANGE)
        key = await self._changes.change(call, call.name, read_body(call.body))
        return Answer(encode(self._key_row(key)))

    async def rotate_key(self, call: Call) -> Answer:
        """Give a managed key a new secret; it is in this answer and nowhere else."""
        self._changes.check_managed(call.name, TO_ROTATE)
        key, secret = await self._changes.rotate(call, call.name, read_body(call.body))
        return Answer(encode({"secret": secret, **self._key_row(key)}))

    async def renew_webhook_secret(self, call: Call) -> Answer:
        """Give webhooks a new secret; it is in this answer and nowhere else."""
        self._changes.check_managed(call.name, TO_SIGN)
        body = read_body(call.body)
        key, secret = await self._changes.renew_webhook_secret(call, call.name, body)
        return Answer(encode({"secret": secret, **self._key_row(key)}))

    async def delete_webhook_secret(self, call: Call) -> Answer:
        """Sign no webhook any more, and answer the key."""
        key = await self._changes.delete_webhook_secret(call, call.name)
        return Answer(encode(self._key_row(key)))

    async def delete_key(self, call: Call) -> Answer:
        """Take a managed key away."""
        key = await self._changes.delete(call, call.name)
        return Answer(encode({"name": key.name, "deleted": True}))

    def _key_row(self, key: GatewayKey) -> dict[str, Any]:
        """Return a key as people see it; what was spent is null until the ledger is loaded."""
        now_ms = self._book.managed.now_ms()
        row: dict[str, Any] = {
            "name": key.name,
            "source": key.source,
            "key_sha256": key.sha256,
            "rpm": key.rpm,
            "models": key.models,
            "max_concurrent": key.max_concurrent,
            "tpm": key.tpm,
            "allowed_ips": key.allowed_ips,
            "endpoints": key.endpoints,
            "expires_at": time(key.expires_ms or None),
            "disabled": key.disabled,
            "max_open_jobs": key.max_open_jobs,
            "max_jobs_per_day": key.max_jobs_per_day,
            "age_recipients": key.age_recipients or None,
            "signs_webhooks": bool(key.signing),
            "old_webhook_secrets_until": time(key.old_webhook_secrets_until_ms(now_ms)),
            "budget_usd": dollars(key.budget_nano),
            "soft_budget_usd": dollars(key.soft_budget_nano),
            "budget_period": key.budget_period if key.has_budget else None,
            "budget_timezone": key.budget_timezone if key.has_budget else None,
            "created_at": time(key.created_ms),
            "rotated_at": time(key.rotated_ms),
            "old_secrets_until": time(key.old_secrets_until_ms(now_ms)),
        }
        if not self._ledger.ready:
            return {**row, **dict.fromkeys(_STANDING)}
        stands = self._watch.standing(key)
        return {
            **row,
            "spent_usd": dollars(stands.spent_nano),
            "left_usd": dollars(stands.left_nano),
            "blocked": stands.blocked,
            "over_soft": stands.over_soft,
            "turns_at": time(stands.turns_at_ms) if key.has_budget else None,
        }


def _fitting(keys: Sequence[GatewayKey]) -> int:
    """Return how many of the keys have room on a page."""
    list_bytes = 0
    for count, key in enumerate(keys):
        list_bytes += key.list_bytes
        if count and list_bytes > MAX_PAGE_LIST_BYTES:
            return count
    return len(keys)


def _steps(page: Iterable[GatewayKey]) -> Iterator[list[GatewayKey]]:
    """Split a page into what is shown in one go."""
    some: list[GatewayKey] = []
    entries = 0
    for key in page:
        if some and (len(some) == KEYS_AT_ONCE or entries + key.list_entries > ENTRIES_AT_ONCE):
            yield some
            some, entries = [], 0
        some.append(key)
        entries += key.list_entries
    if some:
        yield some


def _after(query: Mapping[str, str]) -> str:
    """Return the name that a page comes behind, or the empty string for the first page.

    :raises GatewayError: ``invalid_request``; it is the name of no key.
    """
    try:
        return values.name(query[AFTER.name]) if AFTER.name in query else ""
    except values.BadValueError as fault:
        raise GatewayError("invalid_request", f"after {fault}", param="after") from None

"""What media jobs ask of the rest of the control plane, and what it is shown of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IReactorTime

from omnigate.config.media import MediaConfig
from omnigate.config.schema import Config
from omnigate.control.keys import KeyBook
from omnigate.jobs.debts import Books
from omnigate.jobs.job import SUCCEEDED, Job
from omnigate.jobs.job_json import NO_INPUT, job_json
from omnigate.jobs.signed_urls import FileSigner
from omnigate.jobs.store import JobStore
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.periods import DAY_MS
from omnigate.writer_thread import IWriter

#: Jobs that are looked for at a time.
PAGE: Final = 100


class ConfiguredGuard(AddressGuard):
    """Judges addresses by ``[outbound]`` of the config in force."""

    def __init__(self, config: Callable[[], Config]) -> None:
        super().__init__()
        self._config = config
        self._of = config().outbound
        self._guard = AddressGuard(self._of.allow, self._of.refuse)

    def allowed(self, packed: bytes) -> bool:
        """Whether a connection may be made to an address."""
        outbound = self._config().outbound
        if outbound is not self._of:
            self._guard, self._of = AddressGuard(outbound.allow, outbound.refuse), outbound
        return self._guard.allowed(packed)


@attrs.frozen(eq=False)
class Surroundings:
    """What media jobs need of the control plane.

    :ivar config: the config in force.
    :ivar credential: gives the value of a variable that ``[media]`` names.
    :ivar state_folder: where the secret of signed URLs lies.
    :ivar media_folder: where outputs lie.
    :ivar writer: whose thread takes what arrives.
    :ivar worker: whose thread does what takes long.
    :ivar reader: whose thread reads files for those who download them, and for the bucket.
    :ivar steady: seconds that nobody sets.
    :ivar connect: makes what sends requests.
    :ivar pause: lets the reactor do something else.
    """

    config: Callable[[], Config]
    credential: Callable[[str], str | None]
    book: KeyBook
    books: Books
    state_folder: str
    media_folder: str
    writer: IWriter
    worker: IWriter
    reader: IWriter
    clock: IReactorTime
    now_ms: Callable[[], int]
    steady: Callable[[], float]
    connect: Callable[[AddressGuard], Outbound]
    pause: Callable[[], Awaitable[None]]


class MediaViews:
    """Answers out of the config in force, the keys and the jobs.

    It knows nothing of who asks, so that a generation that has ended is not kept by a circle.

    :ivar signer: signs URLs of files; there once jobs are open.
    """

    def __init__(self, store: JobStore, around: Surroundings) -> None:
        self.signer: FileSigner | None = None
        self._store = store
        self._around = around

    def opened_signer(self) -> FileSigner:
        """Return what signs URLs of files; only while jobs are open."""
        assert self.signer is not None
        return self.signer

    def media(self) -> MediaConfig:
        """Return ``[media]`` of the config in force."""
        return self._around.config().media

    def shown(self, job: Job, input: Any = NO_INPUT) -> dict[str, Any]:
        """Return a job as its client sees it, with URLs of its outputs."""
        around = self._around
        media = around.config().media
        expires = around.now_ms() // 1000 + media.signed_url_ttl_s
        sign = None if self.signer is None else self.signer.until(expires)
        return job_json(job, sign=sign, public_url=media.public_url, input=input)

    def recipients(self, key_sha256: str) -> Sequence[str] | None:
        """Return whom the outputs of a key's jobs are encrypted for; None: the key is gone."""
        key = self._around.book.owner(key_sha256)
        if key is None:
            return None
        return key.age_recipients or self._around.config().media.age_recipients

    def webhook_secrets(self, key_sha256: str) -> tuple[str, ...]:
        """Return what the webhooks of a key's jobs are signed with, the newest first."""
        key = self._around.book.owner(key_sha256)
        return () if key is None else key.webhook_secrets(self._around.now_ms())

    def succeeded(self) -> Iterator[Job]:
        """Yield what a client may ask for once more, the newest first of each model."""
        for route in self._around.config().media.routes:
            if route.cache_ttl_s:
                # Jobs stand in the order they were made in; few take longer than a day.
                since_ms = self._around.now_ms() - route.cache_ttl_s * 1000 - DAY_MS
                yield from self._succeeded(route.model, since_ms)

    def _succeeded(self, model: str, since_ms: int) -> Iterator[Job]:
        after: str | None = None
        while after != "":
            page = self._store.newest(model=model, status=SUCCEEDED, after=after, limit=PAGE)
            for job in page.jobs:
                if job.created_ms < since_ms:
                    return
                yield job
            after = page.after if page.has_more else ""

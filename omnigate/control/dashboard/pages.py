"""Templates and what is around them: the frame of a page, and the headers that keep it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

import omnigate
from omnigate.control.dashboard import formats, paths
from omnigate.control.dashboard.alerts import Alert
from omnigate.control.dashboard.assets import Assets
from omnigate.control.routes import Answer
from omnigate.control.sessions import Session
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER: Final = Path(__file__).parent / "templates"

HTML: Final = b"text/html; charset=utf-8"

#: Nothing from elsewhere, nothing inline, in no frame (Content Security Policy Level 3).
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


@attrs.frozen
class Place:
    """One entry of the menu."""

    path: str
    title: str


#: The menu, in its order.
MENU: Final = (
    Place("/", "Overview"),
    Place("/requests", "Requests"),
    Place("/jobs", "Jobs"),
    Place("/keys", "Keys"),
    Place("/models", "Models"),
    Place("/usage", "Usage"),
    Place("/refusals", "Refusals"),
    Place("/audit", "Audit"),
    Place("/config", "Config"),
    Place("/admin-keys", "Admin keys"),
    Place("/try", "Try it"),
)


class Pages:
    """Makes pages of templates.

    :param now_ms: milliseconds since 1970; "two minutes ago" is reckoned from there.
    :param writer: the thread that reads the templates; without one each is read where it is first
        wanted.
    :ivar is_ready: whether a page can be made without reading anything.
    :ivar alerts: returns what is told on top of every page.
    """

    def __init__(
        self, assets: Assets, now_ms: Callable[[], int], writer: IWriter | None = None
    ) -> None:
        self._now_ms = now_ms
        self._writer = writer
        self._assets = assets
        self.is_ready = writer is None
        self.alerts: Callable[[], Sequence[Alert]] = lambda: ()

    @cached_property
    def _environment(self) -> Environment:
        # Imported by whoever wants the first page: it takes a tenth of a second of every start.
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters.update(formats.FILTERS)
        environment.globals.update(
            asset=self._assets.path,
            key_path=paths.key_path,
            admin_key_path=paths.admin_key_path,
            model_path=paths.model_path,
            request_path=paths.request_path,
            job_path=paths.job_path,
            jobs_path=paths.jobs_path,
            search_path=paths.search_path,
            menu=MENU,
            version=omnigate.__version__,
            alerts=lambda: self.alerts(),
        )
        return environment

    async def ready(self) -> None:
        """Have all templates read, away from the reactor: it takes a few hundred milliseconds.

        That is for the first page to wait for; a plane at which nobody looks does without.

        :raises GatewayError: ``not_ready``: the thread takes no work for now.
        """
        writer = self._writer
        if self.is_ready or writer is None:
            return
        try:
            await writer.submit(self.load)
        except (WriterBusyError, WriterStoppedError):
            raise GatewayError("not_ready", "the pages are being read", retry_after=1) from None
        self.is_ready = True

    def load(self) -> None:
        """Read all templates."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def html(self, template: str, session: Session | None, **values: Any) -> str:
        """Return what a template makes of these values.

        Every template also knows ``session`` (``None`` for strangers), ``now_ms``, ``menu``,
        ``version``, ``alerts()``, ``asset(NAME)`` and where pages are (``key_path(NAME)``, ...).
        """
        return self._environment.get_template(template).render(
            session=session, now_ms=self._now_ms(), **values
        )

    def answer(
        self,
        template: str,
        session: Session | None,
        *,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        **values: Any,
    ) -> Answer:
        """Return a page, with the headers that every page has."""
        body = self.html(template, session, **values).encode("utf-8", "replace")
        return Answer(body, HTML, status, (*HEADERS, *headers))


def see_other(path: str) -> Answer:
    """Send a browser on to another page after a form (RFC 9110, 15.4.4)."""
    return Answer(status=303, headers=((b"location", path.encode("ascii")),))

"""How a try is told: as events for the script of the page, or as the page itself, as it comes."""

from __future__ import annotations

import json
import secrets
from typing import Final

from markupsafe import escape

from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.refusal_words import WORDS
from omnigate.control.dashboard.request_view import RequestView
from omnigate.control.dashboard.try_exchange import Outcome
from omnigate.control.sessions import Session


class _Parts:
    """The parts of the page that say how it ended."""

    def __init__(self, pages: Pages, session: Session, url: str) -> None:
        self._pages = pages
        self._session = session
        self._url = url

    def outcome_html(self, outcome: Outcome) -> str:
        """What came of it; the remedy is the one that every page tells for this code."""
        words = WORDS.get(outcome.verdict.code)
        return self._pages.html(
            "try_outcome.html",
            self._session,
            outcome=outcome,
            verdict=outcome.verdict,
            remedy="" if words is None else words.remedy,
            url=self._url,
        )

    def bill_html(self, outcome: Outcome, view: RequestView | None) -> str:
        """What the ledger says of it."""
        return self._pages.html("try_bill.html", self._session, outcome=outcome, view=view)


class EventTeller(_Parts):
    """Events for the script: ``note``, ``text``, ``outcome`` and ``bill``.

    The data of each is a JSON string: text, or for the last two HTML of our own templates.
    """

    def begin(self) -> bytes:
        """Say that it has begun."""
        return b": it begins\n\n"

    def note(self, words: str) -> bytes:
        """Say what is being waited for."""
        return _event("note", words)

    def text(self, text: str) -> bytes:
        """Say a piece of the answer."""
        return _event("text", text)

    def outcome(self, outcome: Outcome) -> bytes:
        """Say how it ended."""
        return _event("outcome", self.outcome_html(outcome))

    def bill(self, outcome: Outcome, view: RequestView | None) -> bytes:
        """Say what it cost."""
        return _event("bill", self.bill_html(outcome, view))


class PageTeller(_Parts):
    """The page, cut where the answer comes in.

    :param html: the page; it holds :attr:`mark` once for the text and once for what follows it.
    """

    def __init__(self, pages: Pages, session: Session, url: str) -> None:
        super().__init__(pages, session, url)
        # Nobody could have typed it into the form.
        self.mark: Final = secrets.token_hex(16)
        self._rest = ""

    def take(self, html: str) -> None:
        """Take the page, which holds the mark twice: in the text's place, and in the end's."""
        self._rest = html

    def begin(self) -> bytes:
        """Write the page down to the text."""
        return self._next()

    def note(self, words: str) -> bytes:
        """Say nothing: the text has begun."""
        return b""

    def text(self, text: str) -> bytes:
        """Write a piece of the text."""
        return str(escape(text)).encode("utf-8", "replace")

    def outcome(self, outcome: Outcome) -> bytes:
        """Write what stands behind the text."""
        return self._next() + self.outcome_html(outcome).encode("utf-8", "replace")

    def bill(self, outcome: Outcome, view: RequestView | None) -> bytes:
        """Write the bill and the rest of the page."""
        return self.bill_html(outcome, view).encode("utf-8", "replace") + self._next()

    def _next(self) -> bytes:
        before, _, self._rest = self._rest.partition(self.mark)
        return before.encode("utf-8", "replace")


def _event(name: str, text: str) -> bytes:
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode("ascii")

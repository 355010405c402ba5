"""Somebody with a browser that runs no script: keeps a cookie, follows forms, reads pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import attrs

from tests.control.conversation import ADMIN_TOKEN, Conversation, Headers, Reply

_COOKIE = re.compile(r"([A-Za-z0-9_-]+)=([^;]*)")


@attrs.define
class Found:
    """One element of a page, with all the text that is in it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """The elements of a page, in their order."""

    #: Elements that have no end tag (HTML, 13.1.2).
    VOID = frozenset(("meta", "link", "input", "br", "hr", "img", "wbr", "col"))

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply
        self.found: list[Found] = []
        self._open: list[Found] = []
        self.feed(reply.body.decode())
        self.close()
        if self._open:
            raise AssertionError(f"not closed: {[element.tag for element in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Found(tag, {name: value or "" for name, value in attrs})
        self.found.append(element)
        if tag not in self.VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Found(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        element = self._open.pop()
        if element.tag != tag:
            raise AssertionError(f"<{element.tag}> is closed by </{tag}>")

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Found]:
        """Return the elements of this kind that have these attributes."""
        return [
            element
            for element in self.found
            if element.tag == tag
            and all(element.attributes.get(name) == value for name, value in attributes.items())
        ]

    def one(self, tag: str, **attributes: str) -> Found:
        """Return the only such element."""
        (element,) = self.all(tag, **attributes)
        return element

    @property
    def text(self) -> str:
        """All that is written in the body, blanks folded."""
        return " ".join(self.one("body").text.split())


class Visitor:
    """One person at one browser."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.cookies: dict[str, str] = {}
        self.form_token = ""

    def sign_in(self, token: str = ADMIN_TOKEN, **fields: str) -> Reply:
        """Fill in the form of the front page."""
        return self.send("/sign-in", {"token": token, **fields})

    def get(self, target: str, headers: Headers = ()) -> Reply:
        """Ask for a page, without following where it leads."""
        return self._took(self._talk.ask("GET", target, (*self.headers(), *headers)))

    def page(self, target: str) -> Page:
        """Read a page, which there has to be."""
        reply = self.get(target)
        if reply.status != 200:
            raise AssertionError(f"{target}: {reply.status} {reply.body[:2000]!r}")
        page = Page(reply)
        tokens = page.all("input", name="form_token")
        if tokens:
            self.form_token = tokens[0].attributes["value"]
        return page

    def send(self, target: str, fields: dict[str, Any], headers: Headers = ()) -> Reply:
        """Send a form; a list is sent as several fields of one name."""
        body = urlencode(
            {"form_token": self.form_token, **fields} if self.form_token else fields, doseq=True
        )
        form: Headers = ((b"content-type", b"application/x-www-form-urlencoded"),)
        return self._took(
            self._talk.ask("POST", target, (*self.headers(), *form, *headers), body.encode())
        )

    def headers(self) -> Headers:
        """What the browser sends with every request."""
        pairs = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return ((b"cookie", pairs.encode()),) if pairs else ()

    def _took(self, reply: Reply) -> Reply:
        found = _COOKIE.match(reply.headers.get("set-cookie", ""))
        if found is not None:
            self.cookies[found[1]] = found[2]
            if not found[2]:
                del self.cookies[found[1]]
        return reply

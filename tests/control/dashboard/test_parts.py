"""The pieces that pages are made of."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.pages import Pages
from omnigate.control.sessions import Session as Person
from omnigate.control.sessions import SessionKeys
from tests.control.conversation import ADMIN_TOKEN, Reply
from tests.control.dashboard.visitor import Page

HOSTILE = """<script>"'&</textarea>"""

PAGES = Pages(Assets(), lambda: 0)


def person() -> Person:
    keys = SessionKeys(ADMIN_TOKEN)
    ticket = keys.begin("", 0)
    return Person(ticket, "admin-token", True, keys.form_token(ticket))


def made(call: str, **values: Any) -> Page:
    """What a macro makes of these values."""
    template = PAGES._environment.from_string(f'{{% import "parts.html" as parts %}}{call}')
    return Page(Reply(200, "OK", {}, template.render(**values).encode()))


class PartsTests(SynchronousTestCase):
    """Each macro: what it names is there, what comes from outside is text."""

    def test_a_field_and_what_is_said_of_it(self) -> None:
        """The label belongs to the field; fault and hint are read out with it."""
        page = made(
            '{{ parts.field("rpm", "Requests", "x", "A number", "text", "No number", true,'
            ' {"inputmode": "numeric"}) }}'
        )
        field = page.one("input")
        self.assertEqual(page.one("label").attributes["for"], field.attributes["id"])
        described = field.attributes["aria-describedby"].split()
        self.assertEqual(
            [page.one("p", id=name).text for name in described], ["No number", "A number"]
        )
        self.assertEqual(field.attributes["aria-invalid"], "true")
        self.assertEqual(field.attributes["inputmode"], "numeric")
        self.assertIn("required", field.attributes)

    def test_a_field_of_which_nothing_is_said(self) -> None:
        """It refers to nothing."""
        field = made('{{ parts.field("rpm", "Requests") }}').one("input")
        self.assertEqual(set(field.attributes), {"id", "name", "type", "value"})

    def test_text_from_outside(self) -> None:
        """Whatever is written somewhere comes out as it went in, and makes no element."""
        for call in (
            "parts.note(text, 'bad')",
            "parts.badge(text)",
            "parts.figure(text, text, text)",
            "parts.bar(0.5, text)",
            "parts.copy(text)",
            "parts.pager(text, text)",
            "parts.field(text, text, text, text, 'text', text, extra={'placeholder': text})",
            "parts.area(text, text, text, text, text)",
            "parts.select(text, text, [(text, text)], text, text, text)",
            "parts.check(text, text, true, text, text)",
            "parts.confirm(text, text, session, text, {text: text})",
            "parts.live_state(text)",
        ):
            page = made(f"{{{{ {call} }}}}", text=HOSTILE, session=person())
            self.assertEqual(page.all("script"), [], call)
            shown = [value for element in page.found for value in element.attributes.values()]
            shown += [element.text for element in page.found]
            self.assertTrue(any(HOSTILE in text for text in shown), call)

    def test_a_text_that_begins_with_a_line_break(self) -> None:
        """The first line break of a textarea is dropped by browsers, so there is one more."""
        page = made('{{ parts.area("models", "Models", "\\nfast") }}')
        self.assertEqual(page.one("textarea").text, "\n\nfast")

    def test_what_is_chosen(self) -> None:
        """A number and its text are the same choice."""
        page = made('{{ parts.select("days", "Days", [(1, "one"), (7, "seven")], "7") }}')
        (chosen,) = [one for one in page.all("option") if "selected" in one.attributes]
        self.assertEqual(chosen.attributes["value"], "7")

    def test_a_question_before_it_is_done(self) -> None:
        """The form carries the token and the fields."""
        page = made(
            '{{ parts.confirm("/keys/app/revoke", "Revoke", session, "Sure?", {"a": "1"}) }}',
            session=person(),
        )
        self.assertEqual(page.one("form").attributes["action"], "/keys/app/revoke")
        self.assertEqual(page.one("input", name="form_token").attributes["type"], "hidden")
        self.assertEqual(page.one("input", name="a").attributes["value"], "1")

    def test_pages_where_there_are_none(self) -> None:
        """No list, no links."""
        self.assertEqual(made('{{ parts.pager("", "") }}').found, [])
        page = made('{{ parts.pager("", "/audit?before=7") }}')
        self.assertEqual([link.text for link in page.all("a")], ["Older"])

    def test_an_empty_list(self) -> None:
        """It says what to do next."""
        page = made('{% call parts.empty("No keys") %}<p>Make one.</p>{% endcall %}')
        self.assertEqual([one.text for one in page.all("p")], ["No keys", "Make one."])

    @settings(deadline=None)
    @given(st.floats(allow_nan=True, allow_infinity=True) | st.integers())
    def test_a_bar_stays_between_its_ends(self, share: float) -> None:
        """Any share, also none at all."""
        page = made('{{ parts.bar(share, "used") }}', share=share)
        width = float(page.found[-1].attributes["width"])
        expected = 0.0 if math.isnan(share) else min(1.0, max(0.0, share)) * 100
        self.assertLess(abs(width - expected), 0.01)

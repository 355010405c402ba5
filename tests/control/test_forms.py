"""What people fill in, as browsers write it."""

from __future__ import annotations

from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.forms import MAX_FIELDS, NO_FORM, read_form
from omnigate.control.routes import Answer, Call
from omnigate.control.sessions import Session, Ticket
from omnigate.errors import GatewayError

#: Any text that UTF-8 can hold.
TEXT = st.text(st.characters(codec="utf-8"))


class FormTests(SynchronousTestCase):
    """Bodies and their fields."""

    def test_fields(self) -> None:
        """Blanks and plus signs, several of one name, empty ones, and those that are not there."""
        form = read_form(b"name=+a%20b+c+&box=1&box=2&empty=&sum=1%2B1&%C3%A4=%E2%82%AC")
        self.assertEqual(form.get("name"), "a b c")
        self.assertEqual((form.all("box"), form.get("box")), (("1", "2"), "2"))
        self.assertEqual((form.all("empty"), form.get("empty")), (("",), ""))
        self.assertEqual((form.all("gone"), form.get("gone")), ((), ""))
        self.assertEqual((form.get("sum"), form.get("ä")), ("1+1", "€"))

    def test_no_text_shows_it(self) -> None:
        """Whatever a request or an answer holds may be a secret, and no log gets hold of it."""
        body = b"token=guarded"
        ticket = Ticket("", 0, 0, "nonce")
        session = Session(ticket, "admin-token", True, form_token="guarded")
        call = Call("POST", "/", "", {}, body, "id", session=session, form=read_form(body))
        cookie = ((b"set-cookie", b"guarded"),)
        for text in (repr(call), f"{call}", repr(Answer(b"guarded", headers=cookie))):
            self.assertNotIn("guarded", text)

    def test_nothing(self) -> None:
        """An empty body is a form without fields."""
        self.assertEqual(read_form(b""), NO_FORM)

    def test_what_is_no_form(self) -> None:
        """It is refused whole."""
        for body in (
            b"\xff=1",
            b"a=%ff",
            b"a=%ed%a0%80",
            b"name",
            b"a=1&&b=2",
            b'{"a":1}',
            b"&".join(b"a=1" for _ in range(MAX_FIELDS + 1)),
        ):
            with self.assertRaises(GatewayError) as caught:
                read_form(body)
            self.assertEqual(caught.exception.kind.code, "invalid_request", body)

    @given(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=MAX_FIELDS))
    def test_what_was_filled_in_comes_out(self, pairs: list[tuple[str, str]]) -> None:
        """Whatever stands in the fields."""
        form = read_form(urlencode(pairs).encode())
        for name, _ in pairs:
            self.assertEqual(form.all(name), tuple(v for n, v in pairs if n == name))

    @given(st.binary(max_size=200))
    def test_any_bytes(self, body: bytes) -> None:
        """They are fields, or are refused; nothing else comes of them."""
        try:
            form = read_form(body)
        except GatewayError as refusal:
            self.assertEqual(refusal.kind.code, "invalid_request")
        else:
            self.assertTrue(
                all(isinstance(value, str) for v in form.fields.values() for value in v)
            )

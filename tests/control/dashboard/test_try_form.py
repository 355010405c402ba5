"""The form of a try, and the requests that come of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.try_form import STYLES, TryForm, asked_for, read_try
from omnigate.control.forms import Form

GOOD = {
    "model": "fast",
    "style": "chat",
    "source": "pasted",
    "secret": "og-secret",
    "message": "Hello",
    "max_tokens": "20",
    "stream": "1",
}


def filled(**fields: str) -> TryForm:
    return read_try(Form({name: (value,) for name, value in {**GOOD, **fields}.items()}))


def body_of(form: TryForm) -> Any:
    return json.loads(form.request(form.secret).body)


class FormTests(SynchronousTestCase):
    """What is filled in."""

    def test_requests(self) -> None:
        """Each kind of request says the same in its own words."""
        form = filled(system="Be brief.")
        self.assertEqual(form.faults, {})
        self.assertEqual(form.request("s").path, "/v1/chat/completions")
        self.assertEqual(
            body_of(form),
            {
                "model": "fast",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Hello"},
                ],
                "stream": True,
                "max_completion_tokens": 20,
            },
        )
        form = filled(style="messages", system="Be brief.", stream="")
        self.assertEqual(form.request("s").path, "/v1/messages")
        self.assertEqual(form.request("s").headers, ((b"anthropic-version", b"2023-06-01"),))
        self.assertEqual(
            body_of(form),
            {
                "model": "fast",
                "max_tokens": 20,
                "messages": [{"role": "user", "content": "Hello"}],
                "stream": False,
                "system": "Be brief.",
            },
        )
        form = filled(style="responses", max_tokens="")
        self.assertEqual(form.request("s").path, "/v1/responses")
        self.assertEqual(body_of(form), {"model": "fast", "input": "Hello", "stream": True})

    def test_faults(self) -> None:
        """Each stands at its field."""
        for name, value in (
            ("model", ""),
            ("model", "m" * 257),
            ("style", "poems"),
            ("source", "stolen"),
            ("secret", ""),
            ("secret", "two words"),
            ("secret", "schlüssel"),
            ("secret", "oga_secret"),
            ("secret", "s" * 513),
            ("message", " "),
            ("max_tokens", "0"),
            ("max_tokens", "-1"),
            ("max_tokens", "many"),
            ("max_tokens", "1000001"),
        ):
            with self.subTest(name, value=value):
                self.assertEqual(list(filled(**{name: value}).faults), [name])
        self.assertEqual(list(filled(style="messages", max_tokens="").faults), ["max_tokens"])

    def test_a_key_that_is_made_needs_no_secret(self) -> None:
        self.assertEqual(filled(source="made", secret="").faults, {})

    def test_no_repr_has_the_secret(self) -> None:
        """What is logged by mistake holds none."""
        form = filled(secret="og-very-secret")
        for thing in (form, form.request(form.secret)):
            self.assertNotIn("very-secret", repr(thing))

    def test_links(self) -> None:
        """A link chooses model and kind; what it says wrong is passed over."""
        form = asked_for({"model": "fast", "style": "responses"})
        self.assertEqual((form.model, form.style), ("fast", "responses"))
        self.assertEqual(asked_for({"style": "poems"}).style, "chat")

    @given(
        st.fixed_dictionaries(
            {name: st.text(max_size=30) for name in GOOD} | {"style": st.sampled_from([*STYLES])}
        )
    )
    def test_anything(self, fields: dict[str, str]) -> None:
        """Whatever is filled in has faults, or makes a request."""
        form = filled(**fields)
        if not form.faults:
            self.assertEqual(body_of(form)["model"], form.model)

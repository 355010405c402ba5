"""What people fill in: ``application/x-www-form-urlencoded`` bodies, as browsers write them.

https://url.spec.whatwg.org/#application/x-www-form-urlencoded
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

import attrs

from omnigate.errors import GatewayError

#: The longest form of the dashboard has some twenty fields.
MAX_FIELDS: Final = 64


@attrs.frozen
class Form:
    """The fields of a form; one that is not there is the same as an empty one.

    They may hold secrets, so no text of it shows them.
    """

    fields: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, repr=False)

    def get(self, name: str) -> str:
        """Return a field without the blanks around it; the last one where there are several."""
        return self.fields.get(name, ("",))[-1].strip()

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a field, such as those of the boxes that are ticked."""
        return self.fields.get(name, ())


NO_FORM: Final = Form()


def read_form(body: bytes) -> Form:
    """Return the fields of a body.

    :raises GatewayError: ``invalid_request``; it is no form, or has too many fields.
    """
    fields: dict[str, tuple[str, ...]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise GatewayError(
            "invalid_request", f"this is no form of UTF-8 with at most {MAX_FIELDS} fields"
        ) from None
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return Form(fields)

"""How long a piece of media is to be, in whole milliseconds, as clients write it.

``5``, ``"5"``, ``"5s"`` and ``4.5`` are the same kind of thing: providers differ in which of them
they take.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from omnigate.config.media_values import DURATION_FIELDS

#: The fields of an input that name one, in the order in which they are looked for.
FIELDS: Final = DURATION_FIELDS

#: A day; the longest that any provider makes is ten minutes.
MAX_SECONDS: Final = 86_400

_TEXT: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?s?", re.ASCII)


class BadDurationError(ValueError):
    """A value is no duration; the text says what one is."""


def milliseconds(value: object) -> int:
    """Return a duration in milliseconds; what is finer is rounded up, so that it costs something.

    :raises BadDurationError: it is negative, no number of seconds, or over :data:`MAX_SECONDS`.
    """
    amount = _seconds(value)
    if amount is None:
        raise BadDurationError('write seconds, such as 5, 4.5, "5" or "5s", and none below 0')
    if amount > MAX_SECONDS:
        raise BadDurationError(f"may be {MAX_SECONDS} seconds at most")
    return int((amount * 1000).to_integral_value(ROUND_CEILING))


def _seconds(value: object) -> Decimal | None:
    if isinstance(value, str):
        # A text longer than any duration is not walked.
        if len(value) > 20 or not _TEXT.fullmatch(value):
            return None
        return Decimal(value.removesuffix("s"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # NaN is not 0 or more either.
    if not value >= 0:
        return None
    # Far above the limit a whole number may have more digits than Python turns into text.
    return Decimal(str(min(value, MAX_SECONDS + 1)))


def named(input: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the field of ``input`` that names a duration, and the milliseconds.

    A field that is null names none.

    :raises BadDurationError: what stands there is none.
    """
    for field in FIELDS:
        if input.get(field) is not None:
            return field, milliseconds(input[field])
    return None

"""JSON that people write (a request of the admin API, a file they may have edited), read strictly.

Numbers with a point become exact decimals, a member named twice is refused, and so are ``NaN`` and
``Infinity``, which are no JSON.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn


class StrictJsonError(ValueError):
    """The bytes are no acceptable JSON; the text says why."""


def read_json(data: bytes) -> Any:
    """Return the value of one JSON document.

    :raises StrictJsonError: it is no JSON, holds a member twice, or nests too deeply.
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            parse_float=_decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        raise StrictJsonError("is not valid UTF-8") from None
    except RecursionError:
        raise StrictJsonError("nests too deeply") from None
    except StrictJsonError:
        raise
    except ValueError as error:
        # json's own message quotes nothing of the document; integers of thousands of digits,
        # which Python will not convert, end here too.
        raise StrictJsonError(f"is no JSON: {error}") from None


def _decimal(text: str) -> Decimal:
    # An exponent in the millions would cost seconds in any later sum.
    if len(text) > 40:
        raise StrictJsonError("holds a number of more than 40 characters")
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond what decimals can hold
        raise StrictJsonError("holds a number that is out of all bounds") from None


def _refuse_constant(word: str) -> NoReturn:
    raise StrictJsonError(f"holds {word}, which is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise StrictJsonError("names a member twice in one object")
    return members

"""What a provider's refusal tells of its model: the two quirks that a translation can work around.

A client of the other protocol cannot know them. Providers, and the servers between them and the
gateway, put the same words into envelopes of many shapes, and into strings within them; so the text
is looked at and not its JSON. A client can make a provider repeat words of its own, so what is
found is good for the requests of that client's key alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from omnigate.dialects.shapes import Quirk

#: What is looked at of an error: real ones have a few hundred bytes, those that quote others more.
MAX_LOOKED_AT: Final = 8 * 1024

#: How far behind or before a parameter its refusal begins. The longest seen has 55 bytes between.
_NEAR: Final = 100

_STATUSES: Final = frozenset((400, 422))

# Names stand bare, in quotes of three kinds, and behind backslashes where JSON stands in JSON.
_MARKS: Final = b"\\\"'`"
_SAMPLING: Final = re.compile(rb"\b(?:temperature|top_p|top_k)\b")
_REFUSED: Final = re.compile(
    rb"\b(?:deprecated|unsupported(?:_parameter|_value)?"
    rb"|(?:is|are|were) not (?:supported|permitted|allowed|available|accepted)"
    rb"|(?:does not|do not|doesnt|dont) (?:support|accept|allow)|no longer (?:supported|accepted)"
    rb"|cannot (?:both )?be (?:specified|used|set|combined)|may only be set"
    rb"|only the default|only [^\s]{1,20} is (?:supported|allowed)"
    rb"|extra inputs|extra_forbidden|cannot find field"
    rb"|(?:unknown|unrecognized|unexpected) (?:name|parameter|field|request argument|argument))\b"
)
# Where a provider names the parameter at fault, it is no other that the message may speak of.
_AT_FAULT: Final = re.compile(rb"\b(?:param|unsupported (?:parameter|value)): ?([a-z_][\w.\[\]]*)")
_SIGNATURE: Final = re.compile(rb"\bthought[_ ]?signatures?\b")
_DEMANDED: Final = re.compile(rb"\b(?:missing|required?|requires|must (?:be|have|include))\b")


def refused_quirk(status: int, body: bytes) -> Quirk:
    """Return what the model was asked wrongly, as far as its provider's refusal tells.

    :param status: of the answer.
    :param body: of the answer, as far as it was read.
    :returns: any of the flags; ``NONE`` for every other error.
    """
    if status not in _STATUSES:
        return Quirk.NONE
    text = body[:MAX_LOOKED_AT].lower().translate(None, _MARKS)
    found = Quirk.NONE
    if _near(_SAMPLING, _REFUSED, text) and not _blames_another(text):
        found |= Quirk.NO_SAMPLING
    if _near(_SIGNATURE, _DEMANDED, text):
        found |= Quirk.THOUGHT_SIGNATURE
    return found


def _near(names: re.Pattern[bytes], words: re.Pattern[bytes], text: bytes) -> bool:
    """Say whether one of the words stands close to one of the names."""
    places = [found.start() for found in names.finditer(text)]
    if not places:
        return False
    for found in words.finditer(text):
        after = bisect_left(places, found.start())
        if after < len(places) and places[after] - found.start() <= _NEAR:
            return True
        if after and found.start() - places[after - 1] <= _NEAR:
            return True
    return False


def _blames_another(text: bytes) -> bool:
    """Say whether what is named as the fault is something else than a sampling parameter."""
    named = [name for name in _AT_FAULT.findall(text) if name not in (b"null", b"none")]
    return bool(named) and not any(map(_SAMPLING.search, named))

"""Where a JSON object ends that comes in pieces.

The arguments of a tool call come as fragments of JSON text, cut anywhere. All is looked at once, by
patterns that take a string as a whole, so a call costs what its text is long.
"""

import re

# Up to the quote of a string that is not closed; what is no string, and closed strings.
# Atomic groups and not ``)*+``, which before Python 3.11.5 errs where a repeat in it gives up.
_parted = re.compile(r'(?>(?:[^"]++|"[^"\\]*+(?>(?:\\.[^"\\]*+)*)")*)', re.DOTALL).match
_strings = re.compile(r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"', re.DOTALL).sub


# Fragments are gathered up to this many characters and looked at as one: most have three to ten,
# and to begin the look costs as much as these.
_GATHERED_CHARS = 512


class JsonEnd:
    """Tells whether the JSON object or array that was fed so far is whole.

    Brackets are counted, not judged: what is no JSON is whole where they are even, or never.
    """

    __slots__ = ("_begun", "_chars", "_depth", "_gathered", "_lost", "_reached", "_string")

    def __init__(self) -> None:
        """Begin before the first fragment."""
        self._gathered: list[str] = []
        self._chars = 0
        self._lost = False
        self._reached = False
        self._begun = False
        self._depth = 0
        self._string = ""  # as which a string goes on: its quote, and a backslash that ended it

    @property
    def reached(self) -> bool:
        """Whether it is whole."""
        if self._gathered:
            self._look()
        return self._reached

    def feed(self, fragment: str) -> None:
        """Take the next piece of the text."""
        if self._lost:
            return
        self._gathered.append(fragment)
        self._chars += len(fragment)
        if self._chars > _GATHERED_CHARS:
            self._look()

    def give_up(self) -> None:
        """Look at nothing more: the end is never reached."""
        self._lost = True
        self._reached = False
        self._gathered.clear()

    def _look(self) -> None:
        """Look through what was gathered, once."""
        text = "".join(self._gathered)
        self._gathered.clear()
        self._chars = 0
        if self._string:
            text = self._string + text
        if text.find('"') >= 0:
            end = _parted(text).end()  # type: ignore[union-attr]
            self._string = _open_string(text[end:])
            text = _strings("", text[:end])
        opened = text.count("{") + text.count("[")
        if opened:
            self._begun = True
        self._depth += opened - text.count("}") - text.count("]")
        self._reached = self._begun and self._depth <= 0 and not self._string


def _open_string(text: str) -> str:
    """Return what to put before the rest of a string of which ``text`` is the beginning."""
    if not text:
        return ""
    backslashes = len(text) - len(text.rstrip("\\"))
    return '"\\' if backslashes % 2 else '"'

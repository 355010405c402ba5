"""Where a JSON object ends that comes in pieces.

The arguments of a tool call come as fragments of JSON text, cut anywhere. Each fragment is looked
at once, by patterns that take a string as a whole, so a call costs what its text is long.
"""

import re

# Up to the quote of a string that is not closed; what is no string, and closed strings.
_parted = re.compile(r'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL).match
_strings = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).sub


class JsonEnd:
    """Tells whether the JSON object or array that was fed so far is whole.

    Brackets are counted, not judged: what is no JSON is whole where they are even, or never.

    :ivar reached: whether it is whole.
    """

    __slots__ = ("_begun", "_depth", "_lost", "_string", "reached")

    def __init__(self) -> None:
        """Begin before the first fragment."""
        self.reached = False
        self._begun = False
        self._lost = False
        self._depth = 0
        self._string = ""  # as which a string goes on: its quote, and a backslash that ended it

    def feed(self, fragment: str) -> None:
        """Take the next piece of the text."""
        if self._lost:
            return
        text = fragment
        if self._string:
            if self._string == '"' and text.find('"') < 0 and text.find("\\") < 0:
                return
            text = self._string + text
        if text.find('"') >= 0:
            end = _parted(text).end()  # type: ignore[union-attr]
            self._string = _open_string(text[end:])
            text = _strings("", text[:end])
        opened = text.count("{") + text.count("[")
        if opened:
            self._begun = True
        self._depth += opened - text.count("}") - text.count("]")
        self.reached = self._begun and self._depth <= 0 and not self._string

    def give_up(self) -> None:
        """Look at nothing more: the end is never reached."""
        self._lost = True
        self.reached = False


def _open_string(text: str) -> str:
    """Return what to put before the rest of a string of which ``text`` is the beginning."""
    if not text:
        return ""
    backslashes = len(text) - len(text.rstrip("\\"))
    return '"\\' if backslashes % 2 else '"'

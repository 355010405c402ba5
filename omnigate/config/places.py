"""On which line of a TOML text each of its values stands.

The TOML reader tells places of syntax faults only. This walk over a text that it has taken finds
where the tables, keys and members of arrays begin, by the dotted paths that faults have. It judges
nothing: of a text that is no TOML it finds what it can.
"""

from __future__ import annotations

import re
from typing import Final

#: Values within values, as deep as the TOML reader goes itself before it gives up.
MAX_DEPTH: Final = 200

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'""")
_STRING = re.compile(
    r'"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'{3}(?:[^']|'{1,2}(?!'))*'{3,5}"
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}\n#]*")
_PLACE_PART = re.compile(r"\.?[^.\[]+|\[\d+\]")


class Places:
    """The lines of one text.

    :param text: as the TOML reader takes it.
    """

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._line = 1
        self._counted = 0
        self._lines: dict[str, int] = {}
        #: By the path of an array of tables, how many it has so far.
        self._sizes: dict[str, int] = {}
        self._walk()

    def line_of(self, path: str) -> int | None:
        """Return the line on which what is at a path begins, or what it would stand in.

        :param path: as in a fault, such as ``routes[2].targets[0].price.input``.
        :return: None where not even the outermost part of it is there.
        """
        parts = _PLACE_PART.findall(path)
        while parts:
            line = self._lines.get("".join(parts))
            if line is not None:
                return line
            parts.pop()
        return None

    def _walk(self) -> None:
        table = ""
        while self._skip(_BLANK) and self._at < len(self._text):
            begin = self._at
            if self._text.startswith("[", begin):
                table = self._header()
            else:
                self._pair(table, 0)
            if self._at == begin:  # no TOML: nothing beyond can be trusted
                return

    def _header(self) -> str:
        """Read ``[a.b]`` or ``[[a.b]]`` and return the path of the table that begins."""
        line = self._line_here()
        double = self._text.startswith("[[", self._at)
        self._at += 2 if double else 1
        names = self._names()
        self._at = self._line_end()
        path = ""
        for index, name in enumerate(names):
            path = _joined(path, name)
            if double and index == len(names) - 1:
                number = self._sizes.get(path, 0)
                self._sizes[path] = number + 1
                self._lines.setdefault(path, line)
                path = f"{path}[{number}]"
            elif path in self._sizes:
                path = f"{path}[{self._sizes[path] - 1}]"
            self._lines.setdefault(path, line)
        return path

    def _pair(self, table: str, depth: int) -> None:
        """Read ``key = value``."""
        line = self._line_here()
        path = table
        for name in self._names():
            path = _joined(path, name)
            self._lines.setdefault(path, line)
        self._skip(_SPACE)
        if self._text.startswith("=", self._at):
            self._at += 1
            self._skip(_SPACE)
            self._value(path, depth)

    def _value(self, path: str, depth: int) -> None:
        sign = self._text[self._at : self._at + 1]
        if sign in ("[", "{") and depth < MAX_DEPTH:
            self._at += 1
            self._members(path, "]" if sign == "[" else "}", depth + 1)
            return
        found = _STRING.match(self._text, self._at) if sign in ('"', "'") else None
        found = found or _BARE.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _members(self, path: str, end: str, depth: int) -> None:
        """Read the rest of an array or of an inline table."""
        number = 0
        while self._skip(_BLANK) and self._at < len(self._text):
            begin = self._at
            sign = self._text[begin]
            if sign == end:
                self._at += 1
                return
            if sign == ",":
                self._at += 1
            elif end == "}":
                self._pair(path, depth)
            else:
                inner = f"{path}[{number}]"
                self._lines.setdefault(inner, self._line_here())
                number += 1
                self._value(inner, depth)
            if self._at == begin:
                return

    def _names(self) -> list[str]:
        """Read a dotted key."""
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            found = _KEY.match(self._text, self._at)
            if found is None:
                return names
            self._at = found.end()
            names.append(next((part for part in found.groups() if part is not None), found[0]))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return names
            self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return True

    def _line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _line_here(self) -> int:
        """Return the number of the line that is read; places come in order."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

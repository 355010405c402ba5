"""Text as a page of the manual has it: the macros of man(7), out of Markdown and plain words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

# Signs with a name of their own, so that a page is plain ASCII.
_NAMED = {
    "\\": "\\e",
    "…": "\\&...",
    "→": "\\(->",
    "—": "\\(em",
    "–": "\\(en",
    "×": "\\(mu",
    "≤": "\\(<=",
    "≥": "\\(>=",
    "~": "\\(ti",
    "^": "\\(ha",
    "`": "\\(ga",
    "'": "\\(aq",
}
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE_INDENT = 4


class MarkdownError(Exception):
    """A page of the docs holds something that no page of the manual can have."""


def escaped(text: str, *, literal: bool = False) -> str:
    """Return words as roff has them.

    :param literal: a hyphen is the sign that is typed, and not one of prose.
    """
    out = []
    for char in text:
        if char in _NAMED:
            out.append(_NAMED[char])
        elif char == "-" and literal:
            out.append("\\-")
        elif char.isascii():
            out.append(char)
        else:
            out.append(f"\\[u{ord(char):04X}]")
    return "".join(out)


def line_of(text: str) -> str:
    """Return a line that begins no request, whatever it begins with."""
    return f"\\&{text}" if text.startswith((".", "'")) else text


def inline(text: str) -> str:
    """Return a text with the fonts that Markdown asks for; of a link its words."""
    out, place = [], 0
    for found in _INLINE.finditer(text):
        out.append(escaped(text[place : found.start()]))
        code, strong, weak, link, _ = found.groups()
        if code is not None:
            out.append(bold(code))
        elif strong is not None:
            out.append(f"\\fB{inline(strong)}\\fR")
        elif weak is not None:
            out.append(f"\\fI{escaped(weak)}\\fR")
        else:
            out.append(inline(link))
        place = found.end()
    out.append(escaped(text[place:]))
    return "".join(out)


def bold(text: str) -> str:
    """Return what is typed as it stands."""
    return f"\\fB{escaped(text, literal=True)}\\fR"


def weak(text: str) -> str:
    """Return what is replaced by something else."""
    return f"\\fI{escaped(text, literal=True)}\\fR"


def paragraph(text: str) -> list[str]:
    """Return a paragraph of Markdown."""
    return [".PP", *wrapped(inline(text))]


def wrapped(text: str) -> list[str]:
    """Return prose in lines, none of which begins a request."""
    return [line_of(line) for line in textwrap.wrap(text, 90, break_long_words=False)] or [""]


def item(term: str, text: str) -> list[str]:
    """Return a term, as roff has it already, with what it means."""
    return [".TP", line_of(term), *wrapped(text)]


def example(text: str) -> list[str]:
    """Return lines that stand as they are."""
    lines = [line_of(escaped(line, literal=True)) for line in text.strip("\n").split("\n")]
    return [".PP", f".RS {_CODE_INDENT}", ".nf", *lines, ".fi", ".RE"]


def markdown(text: str) -> list[str]:
    """Return some Markdown: headings, paragraphs, lists, tables, examples.

    :raises MarkdownError: there is something else.
    """
    out: list[str] = []
    for block in _blocks(_COMMENT.sub("", text)):
        if block.startswith("#"):
            out += [f".SS {inline(block.lstrip('# '))}"]
        elif block.startswith("|"):
            out += _table(block)
        elif block.startswith(" " * _CODE_INDENT):
            out += example(textwrap.dedent(block))
        elif re.match(r"(\*|-|\d+\.) ", block):
            out += _list(block)
        elif block.startswith(("<", "```", ">")):
            raise MarkdownError(f"no page of the manual can have this: {block[:60]}")
        else:
            out += paragraph(" ".join(block.split()))
    return out


def _blocks(text: str) -> Iterator[str]:
    """Cut at empty lines; examples that follow each other are one."""
    block: list[str] = []
    for line in [*text.strip("\n").split("\n"), ""]:
        if line.strip():
            starts = line.startswith(("#", "|", "* ", "- ")) or re.match(r"\d+\. ", line)
            if block and starts and not _goes_on(block, line):
                yield "\n".join(block)
                block = []
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []


def _goes_on(block: Sequence[str], line: str) -> bool:
    """Whether a line is of the same table or list as those before it."""
    if line.startswith("|"):
        return block[0].startswith("|")
    return not line.startswith("#") and bool(re.match(r"(\*|-|\d+\.) ", block[0]))


def _list(block: str) -> list[str]:
    out: list[str] = []
    for text in re.split(r"(?m)^(?:\*|-|\d+\.) ", block)[1:]:
        out += [".IP \\(bu 2", *wrapped(inline(" ".join(text.split())))]
    return out


def _table(block: str) -> list[str]:
    """Return a table as terms and what they mean; the first column has the terms.

    Of the others the defaults go first, the next one speaks for itself, and any further one is told
    with its name.
    """
    rows = [_cells(line) for line in block.split("\n")]
    head, body = rows[0], rows[2:]
    out: list[str] = []
    for row in body:
        told: list[str] = []
        named = False
        for name, cell in zip(head[1:], row[1:], strict=True):
            if not cell:
                continue
            if name == "default" or named:
                told.append(f"{sentence(name).rstrip('.')}: {inline(cell)}.")
            else:
                named = True
                told.append(sentence(inline(cell)))
        out += item(inline(row[0]), " ".join(told))
    return out


def sentence(text: str) -> str:
    """Return words as a sentence; a name that begins them stays as it is."""
    first = text.partition(" ")[0].rstrip(",;:.")
    if first.isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _cells(line: str) -> list[str]:
    """The cells of a row; a stroke behind a backslash parts nothing."""
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [part.strip().replace("\\|", "|") for part in parts]

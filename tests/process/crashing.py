"""Runs ``twistd`` with stores that crash on demand: whoever writes a word into a file says where.

The file's name is in ``CRASH_FILE``. It is looked at wherever something may crash, and the word is
taken out when it does; another one may stand behind it and a plus sign. What is raised is nothing
that any code expects.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from omnigate.control.audit_file import AuditFile
from omnigate.control.generation import LEDGER_WRITER
from omnigate.ledger.books import Books
from omnigate.ledger.store import LedgerStore
from omnigate.writer_thread import WriterThread

#: The program of a child: everything behind it on the command line is twistd's.
PROGRAM = (
    "import sys; from tests.process import crashing; crashing.install(); "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)

#: Where it can crash: before a group of events is written, behind its sync, in the sums, at a
#: start (until the file is gone), in the audit log, and a thread that is lost.
BEFORE, BEHIND, BOOKS, START, AUDIT, THREAD = (
    "before",
    "behind",
    "books",
    "start",
    "audit",
    "thread",
)


class CrashedOnPurposeError(Exception):
    """What a test asked for."""


def is_due(place: str, once: bool) -> bool:
    """Whether something is to crash here."""
    path = os.environ["CRASH_FILE"]
    try:
        with open(path, encoding="ascii") as file:
            word, _, rest = file.read().partition("+")
    except FileNotFoundError:
        return False
    if word != place:
        return False
    if rest:
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(rest)
        os.replace(f"{path}.new", path)
    elif once:
        os.unlink(path)
    return True


def _crash(place: str, once: bool = True) -> None:
    if is_due(place, once):
        raise CrashedOnPurposeError(place)


def _lose(writer: WriterThread) -> None:
    if writer.name == LEDGER_WRITER:
        _crash(THREAD)


def _around(
    home: Any,
    name: str,
    before: Callable[[Any], None],
    behind: Callable[[], None] = lambda: None,
) -> None:
    """Have something done before and behind a method."""
    method = getattr(home, name)

    def changed(*arguments: Any, **options: Any) -> Any:
        before(arguments[0])
        result = method(*arguments, **options)
        behind()
        return result

    setattr(home, name, changed)


def install() -> None:
    """Change the stores of this process, before its daemon is made."""
    _around(LedgerStore, "append", lambda _: _crash(BEFORE), lambda: _crash(BEHIND))
    _around(LedgerStore, "load_step", lambda _: _crash(START, once=False))
    _around(Books, "enter", lambda _: _crash(BOOKS))
    _around(AuditFile, "append", lambda _: _crash(AUDIT))
    _around(WriterThread, "_do", _lose)

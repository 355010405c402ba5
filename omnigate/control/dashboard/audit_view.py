"""What the page of the audit log shows, made of the lines that are kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from omnigate.control.audit_line import FAILED, AuditLine
from omnigate.control.dashboard.formats import filled
from omnigate.control.dashboard.paths import job_path, key_path

#: Lines of a page; one may list twenty changes.
LINES_A_PAGE: Final = 50

#: The endings of actions whose detail has members of what they were done to.
_CREATE: Final = ".create"
_CHANGE: Final = ".change"
_DELETE: Final = ".delete"

#: Where what is the target of an action is looked after, by the beginning of the action.
_PLACES: Final = {"admin_key": "/admin-keys", "config": "/config/history", "sign_in": ""}

#: What became of it.
DONE: Final = "done"
DID_FAIL: Final = "failed"
#: It was written down as about to be done, and then failed: another line says why.
THEN_FAILED: Final = "then failed"


@attrs.frozen
class Wanted:
    """What lines are looked for; the empty string stands for any.

    :ivar target: a part of it, in any case.
    """

    actor: str = ""
    action: str = ""
    target: str = ""

    @property
    def query(self) -> dict[str, str]:
        """It as the parameters of an address."""
        return {name: text for name, text in attrs.asdict(self).items() if text}

    def fits(self, line: AuditLine) -> bool:
        """Whether a line is one of those."""
        return (
            (not self.actor or line.actor == self.actor)
            and (not self.action or line.action == self.action)
            and self.target.casefold() in line.target.casefold()
        )


@attrs.frozen
class Member:
    """One member of a line's detail.

    :ivar before: what it was; None where no line that is kept says so.
    """

    name: str
    before: str | None
    after: str


@attrs.frozen
class AuditRow:
    """One line as it is shown.

    :ivar outcome: :data:`DONE`, :data:`DID_FAIL` or :data:`THEN_FAILED`.
    :ivar target_path: the page of what it was done to; empty where there is none.
    """

    line: AuditLine
    outcome: str
    target_path: str
    members: Sequence[Member]


@attrs.frozen
class AuditPart:
    """One page of lines.

    :ivar newer: below which number the page before it begins; 0 for the newest lines, and None
        where this page has those.
    :ivar older: the same of the page behind it.
    """

    lines: Sequence[AuditLine]
    newer: int | None
    older: int | None


def part_of(lines: Sequence[AuditLine], wanted: Wanted, before: int | None) -> AuditPart:
    """Return the newest lines that are wanted, of those with a number below ``before``.

    :param lines: newest first.
    """
    found = [line for line in lines if wanted.fits(line)]
    start = 0
    if before is not None:
        start = next((n for n, line in enumerate(found) if line.seq < before), len(found))
    page = found[start : start + LINES_A_PAGE]
    newer = None
    if start:
        first = max(0, start - LINES_A_PAGE)
        newer = found[first - 1].seq if first else 0
    older = page[-1].seq if start + LINES_A_PAGE < len(found) else None
    return AuditPart(page, newer, older)


class Story:
    """What lines tell together: which failed after all, and what was before a change.

    :param lines: all that are kept, newest first.
    """

    def __init__(self, lines: Sequence[AuditLine]) -> None:
        self._failed = {_deed(line) for line in lines if line.outcome == FAILED and line.request_id}
        self._before: dict[int, Mapping[str, Any]] = {}
        self._whole: set[int] = set()
        self._follow(lines)

    def _follow(self, lines: Sequence[AuditLine]) -> None:
        """Go through the lives of keys, as far as changes of them are told."""
        known: dict[tuple[str, str], dict[str, Any]] = {}
        made: set[tuple[str, str]] = set()
        for line in reversed(lines):
            if line.outcome == FAILED or _deed(line) in self._failed:
                continue
            kind, _, _ = line.action.partition(".")
            thing = kind, line.target
            if line.action.endswith((_CREATE, _DELETE)):
                known.pop(thing, None)
                made.discard(thing)
            if line.action.endswith(_CREATE):
                made.add(thing)
            if line.action.endswith((_CREATE, _CHANGE)):
                self._before[line.seq] = known.get(thing, {})
                if thing in made:
                    self._whole.add(line.seq)
                known[thing] = {**known.get(thing, {}), **line.detail}

    def row(self, line: AuditLine, has_key: bool) -> AuditRow:
        """Return a line as it is shown.

        :param has_key: whether its target is the name of a gateway key that there is.
        """
        outcome = DONE
        if line.outcome == FAILED:
            outcome = DID_FAIL
        elif _deed(line) in self._failed:
            outcome = THEN_FAILED
        kind, _, _ = line.action.partition(".")
        path = _PLACES.get(kind, "")
        if kind == "key" and has_key:
            path = key_path(line.target)
        elif kind == "job":
            path = job_path(line.target)
        return AuditRow(line, outcome, path, self._members(line))

    def _members(self, line: AuditLine) -> list[Member]:
        changes = line.action.endswith(_CHANGE) and line.outcome != FAILED
        members = [
            Member(
                name.replace("_", " "),
                self._was(line.seq, name) if changes else None,
                text_of(value),
            )
            for name, value in line.detail.items()
        ]
        # A line about an admin key has all members, and those that stayed are no news.
        return [one for one in members if one.before != one.after]

    def _was(self, seq: int, name: str) -> str | None:
        """Return what a member was before a line; None where that is not known."""
        before = self._before.get(seq, {})
        if name in before:
            return text_of(before[name])
        return text_of(None) if seq in self._whole else None


def _deed(line: AuditLine) -> tuple[str, str, str]:
    """What a line and the one that says that it failed have in common."""
    return line.request_id, line.action, line.target


def text_of(value: Any) -> str:
    """Return a value of a line's detail for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(text_of(one) for one in value) or str(filled(None))
    if isinstance(value, dict):  # not of ours, but a file may hold anything
        return ", ".join(f"{name}: {text_of(one)}" for name, one in value.items())
    return str(filled(value))

"""The last questions: what clients, providers, lines and sums say of one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigate.ledger.family import Family
from omnigate.ledger.verify import verify
from tests.simulation import config
from tests.simulation.bill import Ledgered, WrongBillError
from tests.simulation.control_side import LEDGER
from tests.simulation.world import CONTROL_FOLDER

if TYPE_CHECKING:
    from omnigate.ledger.service import Ledger
    from omnigate.ledger.totals import NamedSums
    from tests.simulation.story import Story

#: What the names of the ledger's files begin with.
STEM = LEDGER.removesuffix("jsonl")


def judge(story: Story) -> None:
    """Ask everything of a run that has come to rest, its data plane stopped.

    :raises WrongBillError: something does not hold.
    """
    _check_clients(story)
    ledgered = story.bill.check_lines(_lines(story), story.provider.attempts)
    _check_sums(story, ledgered, "as they are")
    beside = story.rng.random() < 0.5
    if beside:
        _verify(story, "beside the control plane")
    story.control.stop()
    for _ in range(3):
        story.step(1.0)
    if story.control.alive:
        raise WrongBillError("the control plane does not stop")
    if not beside:
        _verify(story, "after a stop")
    _start_again(story)
    _check_sums(story, ledgered, "after a stop and a start")
    power = story.rng.random() < 0.5
    story.mishaps.control_dies(power)
    _start_again(story)
    _check_sums(story, ledgered, f"after {'a power loss' if power else 'a kill'} and a start")
    story.mishaps.control_dies(False)
    if not _deleted(story) and story.rng.random() < 0.4:
        for path in story.world.disk.paths(CONTROL_FOLDER):
            if path.startswith(STEM) and not path.endswith(".jsonl"):
                story.world.disk.unlink(path)
        _start_again(story)
        _check_sums(story, ledgered, "when every line is read again")
        story.mishaps.control_dies(False)
    story.bill.check_lines(_lines(story), story.provider.attempts)


def _start_again(story: Story) -> None:
    story.mishaps.start_control()
    for _ in range(10):
        story.step(0.5)
        if story.control.ready:
            return
    raise WrongBillError(f"the control plane does not start: {story.control.ending.failed}")


def _verify(story: Story, when: str) -> None:
    """The program's own verification finds nothing but what was spoiled and is not needed."""
    for found in verify(Family(LEDGER), config.IDS_DAYS).first:
        if found.path not in story.mishaps.spoiled:
            raise WrongBillError(f"verified {when}: {found}")


def _deleted(story: Story) -> list[str]:
    """The segments that are kept no more."""
    return [
        path
        for path in story.world.disk.removed
        if path.startswith(STEM) and path.endswith(".jsonl")
    ]


def _lines(story: Story) -> list[bytes]:
    """The lines of all the ledger's files, also of those that were deleted in their time."""
    disk = story.world.disk
    lines = []
    for path in _deleted(story):
        lines += disk.removed[path].splitlines()
    for path in disk.paths(CONTROL_FOLDER):
        if path.startswith(STEM) and path.endswith(".jsonl"):
            lines += disk.shown(path).splitlines()
    return lines


def _check_clients(story: Story) -> None:
    """Whoever got a whole answer is billed for it."""
    for asked in story.asked:
        if asked.request_id in story.bill.events or asked.request_id in story.bill.half:
            continue
        answer = asked.answer()
        if answer.startswith(b"HTTP/1.1 200") and is_whole(answer):
            raise WrongBillError(f"{asked.request_id} was answered and is in no bill")


def _check_sums(story: Story, ledgered: Ledgered, when: str) -> None:
    """What the ledger tells is what its lines add up to."""
    ledger, now_ms = story.control.ledger, story.world.wall_ms()
    for by, member in (
        ("key", "key_sha256"),
        ("model", "route_model"),
        ("upstream", "upstream"),
    ):
        _compare(f"{by} {when}", _rows(ledger.totals(by)), ledgered.sums(member))
    days = ledgered.days()
    _compare(f"day {when}", _rows(ledger.totals("day")), days)
    for day in days:
        told = _rows(ledger.totals("key", day, day))
        _compare(f"{day} {when}", told, ledgered.of_day(str(day)))
    for sha256, budget in config.BUDGETS.items():
        spent = ledgered.spent(sha256, budget, now_ms)
        nano = _spent(ledger, sha256, budget, now_ms)
        if nano != spent:
            raise WrongBillError(f"{budget.name} {when} spent {nano} and must have {spent}")


def _spent(ledger: Ledger, sha256: str, budget: config.Budget, now_ms: int) -> int:
    return ledger.spend_nano((sha256,), budget.period, now_ms, budget.zone)


def _rows(rows: list[NamedSums]) -> dict[str | None, tuple[int, ...]]:
    return {
        row.name: (
            row.sums.requests,
            row.sums.input_tokens,
            row.sums.cached_input_tokens,
            row.sums.cache_write_input_tokens,
            row.sums.output_tokens,
            row.sums.cost_nano,
        )
        for row in rows
    }


def _compare(what: str, told: Any, wanted: Any) -> None:
    if told != wanted:
        raise WrongBillError(f"sums by {what} are {told} and must be {wanted}")


def is_whole(answer: bytes) -> bool:
    """Whether an answer came to its end."""
    head, blank, body = answer.partition(b"\r\n\r\n")
    if not blank:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n")

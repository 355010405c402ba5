"""How a fake media provider misbehaves: words behind the model's name, ``flux~fail~outputs=2``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Every mode and what it does; a number behind ``=`` is a count unless it says otherwise.
MODES: Final[Mapping[str, str]] = {
    "429": "submit answers 429, the first so many times or always",
    "quota": "submit answers that the quota is spent",
    "500": "submit answers 500",
    "503": "submit answers 503",
    "401": "submit answers 401",
    "402": "submit answers 402",
    "422": "submit answers 422",
    "413": "submit answers 413",
    "slow-head": "the head of the submit's answer comes so many milliseconds late",
    "hang": "submit is never answered",
    "reset-submit": "the connection breaks after submit was read and the work begun",
    "steps": "done after so many polls; 2 where it is not given",
    "poll-500": "so many bad polls",
    "poll-429": "so many bad polls",
    "poll-404": "so many bad polls",
    "poll-junk": "so many polls that are no JSON",
    "poll-reset": "so many polls whose connection breaks",
    "poll-hang": "so many polls that are never answered",
    "never": "runs for ever",
    "fail": "ends as failed",
    "moderated": "ends as refused by moderation",
    "expired": "ends as expired",
    "empty": "ends without an output",
    "unknown-status": "a status that nobody documented, then success",
    "outputs": "number of outputs",
    "bytes": "size of each output in bytes",
    "no-length": "outputs are chunked without a length",
    "huge-answer": "an answer of 5 MiB about the work",
    "type": "content type of the outputs, with + for /",
    "no-type": "outputs without a content type",
    "redirect": "so many hops before each output",
    "redirect-loop": "hops without an end",
    "redirect-private": "a hop to 169.254.169.254",
    "redirect-http": "a hop from https to http",
    "redirect-file": "a hop to file:",
    "private-url": "the output lies at a private address",
    "mixed-dns": "the output lies at mixed.example.com",
    "userinfo-url": "the output's URL has a user",
    "data-url": "the output is a data: URL",
    "file-404": "the output is not there",
    "file-cut": "the output breaks off in the middle",
    "file-slow": "the output comes in two halves, so many milliseconds apart",
    "file-endless": "the output never ends",
    "file-gzip": "the output is packed though nobody asked for it",
    "foreign-urls": "status and cancel URLs lie at another origin",
    "cancel-ok": "a cancel stops the work",
    "cancel-late": "a cancel comes too late",
    "cancel-404": "a cancel answers 404",
    "cancel-500": "a cancel answers 500",
    "cancel-ignored": "a cancel is accepted, and the work goes on",
    "sync": "done in the submit's answer, where the provider can",
    "seconds": "the seconds of media that the provider reports",
}

Modes = Mapping[str, str]


class UnknownModeError(ValueError):
    """A word that is no mode."""


def split_model(model: str) -> tuple[str, Modes]:
    """Split a model's name from its modes.

    :raises UnknownModeError: one of them is none.
    """
    name, *words = model.split("~")
    return name, read_modes(words)


def read_modes(words: list[str]) -> Modes:
    """Read modes, each ``word`` or ``word=value``.

    :raises UnknownModeError: one of them is none.
    """
    modes: dict[str, str] = {}
    for word in words:
        mode, _, value = word.partition("=")
        if mode not in MODES:
            raise UnknownModeError(f"no mode {mode!r}; --list shows them")
        modes[mode] = value
    return modes


def count_of(modes: Modes, mode: str, otherwise: int) -> int:
    """Return the number of a mode, or another where it has none."""
    value = modes.get(mode, "")
    return int(value) if value.isdigit() else otherwise

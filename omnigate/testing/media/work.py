"""What the fake providers work on, and what they remember of all that was asked of them."""

from __future__ import annotations

import base64
from typing import Any, Final

import attrs

from omnigate.testing.media.modes import Modes, count_of, read_modes
from omnigate.testing.media.pictures import made

#: Where a private address, a mixed name and a user part of a URL lead.
PRIVATE_URL: Final = "http://169.254.169.254/latest/meta-data/"
MIXED_URL: Final = "https://mixed.example.com/a.png"

#: Works that are remembered; a test that makes more looks at the newest.
MAX_WORKS: Final = 20_000

DEFAULT_STEPS: Final = 2


@attrs.define
class Work:
    """One piece of work at one provider.

    :ivar id: the provider's id of it.
    :ivar content_type: what it makes.
    :ivar polls: how often its state was asked for, bad polls not counted.
    :ivar bad: bad polls so far, by mode.
    """

    id: str
    adapter: str
    model: str
    modes: Modes
    input: dict[str, Any]
    content_type: str
    polls: int = 0
    bad: dict[str, int] = attrs.Factory(dict)
    canceled: bool = False
    cancels: int = 0

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        if "never" in self.modes:
            return False
        return "sync" in self.modes or self.polls >= count_of(self.modes, "steps", DEFAULT_STEPS)

    @property
    def failure(self) -> str:
        """``fail``, ``moderated``, ``expired`` or nothing."""
        return next((mode for mode in ("fail", "moderated", "expired") if mode in self.modes), "")

    @property
    def unknown(self) -> bool:
        """Whether its state has a word that nobody knows, this time."""
        return "unknown-status" in self.modes and self.polls == 1

    @property
    def seconds(self) -> int:
        """Seconds of media that it reports; 0 where it says nothing."""
        return count_of(self.modes, "seconds", 0)

    @property
    def outputs(self) -> int:
        """How many files it makes."""
        return 0 if "empty" in self.modes else count_of(self.modes, "outputs", 1)

    def content(self, number: int) -> bytes:
        """Return one file."""
        return made(
            self.content_type, f"{prompt_of(self.input)}/{number}", count_of(self.modes, "bytes", 0)
        )

    def base64(self, number: int) -> str:
        """Return one file in base64."""
        return base64.b64encode(self.content(number)).decode("ascii")

    @property
    def served_type(self) -> str:
        """What the file host says it is; empty for nothing."""
        if "no-type" in self.modes:
            return ""
        return self.modes.get("type", "").replace("+", "/") or self.content_type


@attrs.define
class World:
    """All fakes together.

    :ivar base: where the APIs are, without a slash at the end.
    :ivar files: where the file host is.
    :ivar works: by id, oldest first.
    :ivar submits: how often each adapter was asked to begin, refused ones too.
    """

    base: str = ""
    files: str = ""
    works: dict[str, Work] = attrs.Factory(dict)
    submits: dict[str, int] = attrs.Factory(dict)
    scripts: dict[str, list[Modes]] = attrs.Factory(dict)
    by_prompt: dict[tuple[str, str], Modes] = attrs.Factory(dict)
    refused: dict[str, int] = attrs.Factory(dict)
    by_key: dict[str, str] = attrs.Factory(dict)
    made: int = 0

    def reset(self) -> None:
        """Forget everything."""
        for table in (self.works, self.submits, self.scripts, self.refused, self.by_key):
            table.clear()
        self.by_prompt.clear()

    def script(self, adapter: str, modes: str, times: int, prompt: str = "") -> None:
        """Have the next works of an adapter behave so, or all of a prompt, begun ones too.

        :raises omnigate.testing.media.modes.UnknownModeError: a word is none.
        """
        found = read_modes(modes.split("~")) if modes else {}
        if prompt:
            self.by_prompt[adapter, prompt] = found
            for work in self.works.values():
                if work.adapter == adapter and prompt_of(work.input) == prompt:
                    work.modes = found
        else:
            self.scripts.setdefault(adapter, []).extend([found] * times)

    def scripted(self, adapter: str, given: dict[str, Any]) -> Modes:
        """Return what the next work of an adapter was ordered to do."""
        ordered = self.by_prompt.get((adapter, prompt_of(given)))
        if ordered is not None:
            return ordered
        waiting = self.scripts.get(adapter)
        return waiting.pop(0) if waiting else {}

    def begin(
        self, adapter: str, model: str, modes: Modes, given: dict[str, Any], content_type: str
    ) -> Work:
        """Begin a piece of work."""
        self.made += 1
        wanted = modes.get("type", "").replace("+", "/")
        work = Work(
            f"{adapter[:3]}-{self.made:06d}", adapter, model, modes, given, wanted or content_type
        )
        if len(self.works) >= MAX_WORKS:
            del self.works[next(iter(self.works))]
        self.works[work.id] = work
        return work

    def url(self, work: Work, number: int) -> str:
        """Return where an output is said to lie."""
        modes = work.modes
        if "private-url" in modes:
            return PRIVATE_URL
        if "mixed-dns" in modes:
            return MIXED_URL
        if "data-url" in modes:
            return f"data:{work.content_type};base64,{work.base64(number)}"
        url = f"{self.files}/f/{work.id}/{number}"
        return url.replace("://", "://user:pass@") if "userinfo-url" in modes else url

    def urls(self, work: Work) -> list[str]:
        """Return where all outputs lie."""
        return [self.url(work, number) for number in range(work.outputs)]


def prompt_of(given: dict[str, Any]) -> str:
    """Return what was asked for in words."""
    return str(given.get("prompt") or given.get("text") or "")

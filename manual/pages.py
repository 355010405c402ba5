"""The pages: what each is made of, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from manual.roff import bold, example, inline, item, markdown, paragraph, sentence, weak
from omnigate import __version__
from omnigate.cli import parser
from omnigate.commands.spelling import Argument, Command, spelled
from omnigate.control_tap import Options as ControlOptions
from omnigate.data_tap import Options as DataOptions
from omnigate.settings_table import SETTINGS

ROOT: Final = Path(__file__).resolve().parent.parent

#: When the words of this version were written; a page must have a date.
DATE: Final = "2026-11-30"

_ADDRESS = "self-hosted gateway between applications and model providers"


class SectionError(Exception):
    """A page of the docs has no such section any more; name the new one in manual/pages.py."""


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {name: "\n".join(_tidy(build())) + "\n" for name, build in PAGES.items()}


def _tidy(lines: list[str]) -> list[str]:
    """Leave out what begins a paragraph where a heading did so already."""
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if not (line == ".PP" and before.startswith((".SH", ".SS")))
    ]


def docs(page: str, heading: str) -> str:
    """Return a section of the docs without its heading.

    :raises SectionError: there is none.
    """
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {heading}\n")
    if not found:
        raise SectionError(f"docs/{page} has no section {heading!r}")
    return rest.partition("\n## ")[0]


def _head(name: str, section: int, summary: str) -> list[str]:
    return [
        '.\\" Written by `make man` out of the help of the commands and docs/; change those.',
        f'.TH {name.upper()} {section} {DATE} "omnigate {__version__}" "omnigate"',
        # Names of variables must not be parted at the end of a line, nor words be pulled apart.
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{inline(name)} \\- {inline(summary)}",
    ]


def _see_also(*names: str) -> list[str]:
    told = ", ".join(f"\\fB{name}\\fR({section})" for name, section in _named(names))
    return [".SH SEE ALSO", told]


def _named(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name.rpartition(".")[0], name.rpartition(".")[2]) for name in names]


# -- omnigate(1) ------------------------------------------------------------------------------


def _omnigate() -> list[str]:
    program = spelled(parser())
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    intro = text.partition("\n## ")[0]
    table, _, rest = intro.partition("\n\nWhat reads the admin API")
    lines = _head("omnigate", 1, f"commands of a {_ADDRESS}")
    lines += [".SH SYNOPSIS", f"{bold('omnigate')} {weak('COMMAND')} [{weak('OPTION')}]\\&..."]
    lines += [".SH DESCRIPTION"]
    lines += markdown("|" + table.partition("\n\n|")[2])
    lines += markdown("What reads the admin API" + rest)
    lines += [".SH COMMANDS"]
    for command in program.walk():
        if not command.children:
            lines += _command(command)
    lines += [".SH NOTES"]
    for section in text.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        lines += [f".SS More on {inline(heading)}", *markdown(body)]
    return lines + _see_also("omnigate.toml.5", "omnigate-control.8", "omnigate-data.8")


def _command(command: Command) -> list[str]:
    words = [bold(" ".join(("omnigate", *command.path)))]
    words += [_place(argument) for argument in command.places]
    lines = [f".SS {' '.join(words)}", *paragraph(command.description)]
    for option in command.arguments:
        if option.names != ("-h", "--help"):
            lines += item(_term(option), inline(_told(option)))
    if command.epilog.startswith("examples:\n"):
        lines += example(_dedented(command.epilog.partition("\n")[2]))
    return lines


def _place(argument: Argument) -> str:
    return f"[{weak(argument.word)}]" if argument.optional else weak(argument.word)


def _term(argument: Argument) -> str:
    names = ", ".join(map(bold, argument.names))
    if not argument.word:
        return names
    return f"{names} {weak(argument.word)}" if names else weak(argument.word)


def _told(argument: Argument) -> str:
    """What an argument is for; one that begins with a value it may have stays as it is."""
    value = argument.help.partition(" ")[0] in argument.choices
    return argument.help if value else sentence(argument.help)


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.split("\n"))


# -- omnigate.toml(5) -------------------------------------------------------------------------


def _config_file() -> list[str]:
    lines = _head("omnigate.toml", 5, "config of the gateway omnigate: keys, upstreams, routes")
    lines += [".SH SYNOPSIS", bold("/etc/omnigate/omnigate.toml")]
    lines += [".SH DESCRIPTION", *markdown(docs("configuration.md", "The config file"))]
    lines += [".SH SECRETS", *markdown(docs("configuration.md", "Secrets"))]
    return lines + _see_also("omnigate.1", "omnigate-control.8", "omnigate-data.8")


# -- the daemons ------------------------------------------------------------------------------


def _daemon(plane: str, options: Any, summary: str, other: str) -> list[str]:
    name = f"omnigate-{plane}"
    lines = _head(name, 8, summary)
    command = f"twistd --nodaemon --pidfile= --reactor=omnigate {name}"
    lines += [".SH SYNOPSIS", f"{bold(command)} [{weak('OPTION')}]\\&..."]
    lines += [".SH DESCRIPTION", *paragraph(options.longdesc), ".SH OPTIONS"]
    for long, short, _, text in options.optParameters:
        names = [f"-{short}", f"--{long}"] if short else [f"--{long}"]
        term = ", ".join(map(bold, names))
        lines += item(f"{term} {weak('VALUE')}", inline(text))
    lines += [".SH EXAMPLES", *example(_dedented(options.examples))]
    lines += [
        ".SH ENVIRONMENT",
        *paragraph("An option wins over the variable; a variable that is empty counts as absent."),
    ]
    for setting in SETTINGS:
        if plane in setting.planes:
            default = "It must be given." if setting.default is None else "Default: "
            if setting.default is not None:
                default += f"{bold(setting.default)}."
            lines += item(bold(setting.name), f"{inline(setting.meaning)} {default}")
    lines += [".SH SECRETS", *markdown(docs("configuration.md", "Secrets"))]
    lines += [
        ".SH SIGNALS AND EXIT STATUS",
        *markdown(docs("operations.md", "Stopping and exit statuses")),
    ]
    return lines + _see_also("omnigate.1", "omnigate.toml.5", f"omnigate-{other}.8", "twistd.1")


def _data() -> list[str]:
    return _daemon(
        "data", DataOptions, "data plane of omnigate: the port of applications", "control"
    )


def _control() -> list[str]:
    return _daemon(
        "control",
        ControlOptions,
        "control plane of omnigate: config, keys, ledger, admin API",
        "data",
    )


PAGES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "omnigate.1": _omnigate,
    "omnigate.toml.5": _config_file,
    "omnigate-control.8": _control,
    "omnigate-data.8": _data,
}

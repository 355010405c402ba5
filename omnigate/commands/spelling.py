"""The command line as data: every command with its options, out of the parser that reads it.

Completion and the pages of the manual are made of this, so that they tell what there is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

import attrs

#: What stands for a path, by the word that help shows for it; the rest is not completed.
_PATHS: Mapping[str, str] = {"CONFIG": "file", "FILE": "file", "PATH": "file", "DIR": "directory"}


@attrs.frozen
class Argument:
    """One option, or one argument by its place.

    :ivar names: ``--format`` and the like; none for an argument by its place.
    :ivar word: what help shows for its value; empty for an option that has none.
    :ivar choices: the values that it may have, where they are few.
    :ivar path: ``file`` or ``directory`` where the value is one.
    :ivar optional: whether it may be left out.
    """

    names: tuple[str, ...]
    word: str
    help: str
    choices: tuple[str, ...] = ()
    path: str = ""
    optional: bool = True


@attrs.frozen
class Command:
    """A command, or a group of commands.

    :ivar path: the words that name it, without the program's; none for the program itself.
    :ivar help: what the list of commands says of it.
    """

    path: tuple[str, ...]
    help: str
    description: str
    epilog: str
    arguments: tuple[Argument, ...]
    children: tuple[Command, ...] = ()

    @property
    def options(self) -> Iterator[Argument]:
        """What is given by name."""
        return (argument for argument in self.arguments if argument.names)

    @property
    def places(self) -> Iterator[Argument]:
        """What is given by its place."""
        return (argument for argument in self.arguments if not argument.names)

    def walk(self) -> Iterator[Command]:
        """This command and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def spelled(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = (), help_text: str = ""
) -> Command:
    """Return what a parser reads."""
    arguments: list[Argument] = []
    children: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            children.extend(
                spelled(child, (*path, name), told.get(name, ""))
                for name, child in action.choices.items()
            )
        else:
            arguments.append(_argument(action))
    return Command(
        path,
        help_text,
        parser.description or "",
        parser.epilog or "",
        tuple(arguments),
        tuple(children),
    )


def _argument(action: argparse.Action) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    valued = action.nargs != 0
    if choices and action.metavar is None:
        metavar = "|".join(choices)
    return Argument(
        names=tuple(action.option_strings),
        word=metavar if valued else "",
        help=(action.help or "") % {"prog": "omnigate", "default": action.default},
        choices=choices,
        path=_PATHS.get(metavar, "") if valued else "",
        optional=action.nargs in ("?", "*") or bool(action.option_strings),
    )

"""What more than one command takes, and how a command says that it did not work."""

import argparse
from datetime import date
from decimal import Decimal

#: What a command that talks to the control plane says of itself.
ASKS = (
    " Asks the control plane at OMNIGATE_CONTROL_URL with the token in OMNIGATE_ADMIN_TOKEN; "
    "see omnigate --help."
)

#: Where the units of systemd look for their files.
SYSTEM_FOLDER = "/etc/omnigate"

#: How a listing can be printed.
SHAPES = ("table", "json", "csv")


_EXAMPLES = "examples:\n"


class CommandError(Exception):
    """A command did not work; the text is for the person who gave it.

    :ivar status: what the command ends with: 1, or 2 where the arguments were wrong.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def dollars(text: str) -> Decimal:
    """Read an amount of money; argparse makes its error out of this function's."""
    try:
        amount = Decimal(text)
    except ArithmeticError:
        amount = Decimal("nan")
    if not amount.is_finite():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of US dollars, such as 20 or 0.5")
    return amount


def utc_day(text: str) -> str:
    """Read a UTC day, such as ``2026-11-29``."""
    # fromisoformat alone would also take "20261129" and "2026-W48-7"
    if len(text) == 10 and text[4] == text[7] == "-":
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(f"{text!r} is no day; write it as YYYY-MM-DD")


def whole(text: str) -> int:
    """Read a whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def counted(count: int, what: str) -> str:
    """Say how many there are, such as ``1,234 lines``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def add_format(command: argparse.ArgumentParser) -> None:
    """Add the choice of how a listing is printed: ``options.format`` is one of :data:`SHAPES`."""
    shape = command.add_mutually_exclusive_group()
    shape.add_argument(
        "--format",
        choices=SHAPES,
        default=SHAPES[0],
        help="table (default) for people, json for programs, csv for spreadsheets",
    )
    shape.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )


class HelpText(argparse.HelpFormatter):
    """Help whose sentences are wrapped, and whose examples stand as they were written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


def add_examples(command: argparse.ArgumentParser, lines: str) -> None:
    """Show examples at the end of a command's help.

    :param lines: each begins with two spaces, and what it does may stand behind it.
    """
    command.epilog = _EXAMPLES + lines
    command.formatter_class = HelpText


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the switch for programs that read along, where the answer is no listing."""
    command.add_argument("--json", action="store_true", help="print the answer as JSON")

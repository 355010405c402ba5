"""``omnigate completion bash|zsh``: what makes a shell complete the commands and their options."""

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.commands.arguments import add_examples

SHELLS = ("bash", "zsh")


def add_completion(commands: Any) -> None:
    """Add the command to the command line."""
    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands and options",
        description="Print a script that makes a shell complete the commands, their options, and "
        "what these may be. The package brings files that shells find by themselves where it is "
        "installed under their prefix, such as /usr; elsewhere let the shell read it at its start.",
    )
    completion.add_argument("shell", choices=SHELLS, help="which shell it is for")
    add_examples(
        completion,
        """\
  eval "$(omnigate completion bash)"            in ~/.bashrc
  eval "$(omnigate completion zsh)"             in ~/.zshrc, after compinit
""",
    )
    completion.set_defaults(run=_completion)


def _completion(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate completion``."""
    from omnigate.cli import parser
    from omnigate.commands.completion_scripts import bash_script, zsh_script
    from omnigate.commands.spelling import spelled

    script = bash_script if options.shell == "bash" else zsh_script
    print(script(spelled(parser())), end="")
    return 0

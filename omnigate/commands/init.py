"""``omnigate init``: a config that starts as it is, out of the credentials in the environment."""

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.commands.arguments import SYSTEM_FOLDER, add_examples


def add_init(commands: Any) -> None:
    """Add the command to the command line."""
    init = commands.add_parser(
        "init",
        help="write a config and secrets to start with; asks nothing",
        description="Write omnigate.toml, control.env and data.env to start with: routes to every "
        "provider whose credential is in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, "
        "XAI_API_KEY, MISTRAL_API_KEY, DEEPSEEK_API_KEY, or one of these with _FILE behind it; "
        "OLLAMA_HOST for a server of one's own), media routes for REPLICATE_API_TOKEN, FAL_KEY, "
        "ELEVENLABS_API_KEY, XAI_API_KEY and GEMINI_API_KEY, two tokens, and one application key. "
        "Asks nothing; prints the admin token and the key once, and what to run next.",
    )
    init.add_argument(
        "--dir",
        metavar="DIR",
        help=f"the folder to write to; default: run, with --systemd {SYSTEM_FOLDER}",
    )
    init.add_argument(
        "--systemd",
        action="store_true",
        help="write for the units: the tokens into files of DIR/credentials, and no folder for "
        "state, since the units have theirs",
    )
    init.add_argument(
        "--force",
        action="store_true",
        help="write even where there are such files; each of them is kept as NAME.old or NAME.old2",
    )
    add_examples(
        init,
        """\
  OPENAI_API_KEY=sk-... omnigate init       a config and secrets in run/
  omnigate init --systemd                   the same in /etc/omnigate, for the units
""",
    )
    init.set_defaults(run=_init)


# The other commands need nothing of it, and start in half the time without it.


def _init(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate init``."""
    from omnigate.commands.init_files import run_init

    return run_init(options, environ)

"""``python -m tests.install``: run the page on operations on a fresh Debian, booted in a folder.

It needs root, debootstrap and systemd-nspawn, and says so where they are not there. The first run
fetches Debian and what pip installs, some 400 MB in all, and keeps them in the folder.
"""

from __future__ import annotations

import argparse
import configparser
import sys
import time
from pathlib import Path

from tests.install.checks import CHECKS, Check, Trial
from tests.install.machine import Machine, MachineError, lacking
from tests.install.page import Block, blocks_of

ROOT = Path(__file__).resolve().parent.parent.parent

#: Blocks that need the network, and so are run before the machine is booted without one.
FETCHES = ("packages",)


def main() -> int:
    """Run it; status 0 if all went well, or if this machine cannot do it."""
    options = argparse.ArgumentParser(prog="make install-check", description=__doc__)
    options.add_argument("--folder", type=Path, default=Path("/var/tmp/omnigate-install-check"))
    options.add_argument("--verbose", action="store_true", help="show what blocks print")
    given = options.parse_args()
    why_not = lacking()
    if why_not:
        say(f"left out: {why_not}")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    blocks = blocks_of((ROOT / "docs" / "operations.md").read_text())
    with Machine(given.folder, say) as machine:
        trial = Trial(machine, ROOT)
        try:
            prepare(machine)
            for block in blocks:
                if block.name:
                    if block.name not in FETCHES and not machine.booted:
                        machine.fetch_wheels(requirements())
                        machine.boot()
                    run(trial, block, given.verbose)
        except MachineError as error:
            say(f"failed: {error}")
            say(machine.journal())
            return 1
    for name, value in trial.shown.items():
        say(f"{name}: {value}")
    say("everything on the page went as written")
    return 0


def say(line: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"install-check: {line}\n")
    sys.stdout.flush()


def prepare(machine: Machine) -> None:
    """Make the machine, with the checkout in it."""
    machine.make()
    machine.copy_checkout(ROOT)


def requirements() -> list[str]:
    """What pip will need in there."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = config["options"]["install_requires"].split("\n")
    return ["setuptools>=68", "wheel", *(line.strip() for line in wanted if line.strip())]


def run(trial: Trial, block: Block, verbose: bool) -> None:
    """Run one block with its check.

    :raises MachineError: it did not do what the page says.
    """
    check = CHECKS.get(block.name, Check())
    check.before(trial)
    began = time.monotonic()
    status, said = trial.machine.shell(block.commands, strict=1 not in block.statuses)
    if verbose:
        say(said)
    if status not in block.statuses:
        raise MachineError(f"{block.name} ended with {status}:\n{block.commands}\n{said}")
    for words in block.says:
        if words not in said:
            raise MachineError(f"{block.name} does not say {words}:\n{said}")
    check.after(trial)
    say(f"{block.name}: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    sys.exit(main())

"""A fresh Debian in a folder, booted there with its own systemd (systemd-nspawn).

It has a network of its own with nothing but loopback, so its ports are nobody else's; packages are
fetched before it is booted. Everything runs as its root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

SUITE: Final = "bookworm"

#: What one of the page's blocks may take, in seconds: a build, packages, a start.
BLOCK_SECONDS: Final = 600
#: What a boot may take on a loaded machine.
_BOOT_SECONDS: Final = 120
#: What an end in order may take.
_STOP_SECONDS: Final = 60

#: The checkout, as an operator has it.
CHECKOUT: Final = "/root/omnigate"
WHEELS: Final = "/root/wheels"

_STATE: Final = "/root/.shell-of-the-page"
_BLOCK: Final = "/root/.block-of-the-page"
_ENVIRON: Final = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}

#: Keeps the variables and the folder of the shell for the next block, whatever comes of this one.
_SHELL: Final = """
cd {checkout}
if [ -e {state} ]; then . {state}; fi
trap 'code=$?; {{ declare -p | grep -Ev "^declare -[a-zA-Z]*r|^declare -- (code|_)="
printf "cd %q\\n" "$PWD"; }} > {state}; exit $code' EXIT
{strict}
"""


class MachineError(Exception):
    """The machine cannot be made, or does not do what it is told."""


def lacking() -> str:
    """What this machine lacks to make another one; empty where nothing does."""
    if os.geteuid() != 0:
        return "only root can boot a machine in a folder"
    for program, package in (
        ("debootstrap", "debootstrap"),
        ("systemd-nspawn", "systemd-container"),
    ):
        if shutil.which(program) is None:
            return f"{program} is not installed; on Debian: apt-get install {package}"
    return ""


class Machine:
    """See the module's docstring.

    :ivar root: its files.

    :param folder: where the machine and what it is made of lie; the latter is kept.
    :param say: told what is done.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._base = folder / f"base-{SUITE}"
        self.root = folder / "machine"
        self._wheels = folder / "wheels"
        self._log = folder / "boot.log"
        self._say = say
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- making it

    def make(self) -> None:
        """Copy a fresh Debian, which is fetched at the first time."""
        if not self._base.is_dir():
            self._say(f"fetching Debian {SUITE}")
            beside = self._base.with_suffix(".new")
            shutil.rmtree(beside, ignore_errors=True)
            _run(["debootstrap", SUITE, str(beside)])
            beside.rename(self._base)
        if self.root.exists():
            shutil.rmtree(self.root)
        _run(["cp", "-a", "--reflink=auto", str(self._base), str(self.root)])

    def copy_checkout(self, source: Path, place: str = CHECKOUT, commit: str = "") -> None:
        """Put the files of a checkout there: those that git knows, or those of a commit."""
        target = self.inside(place)
        target.mkdir(parents=True)
        if commit:
            archive = _git(source, "archive", commit)
            _run(["tar", "-x", "-C", str(target)], archive)
            return
        listed = _git(source, "ls-files", "-z", "-co", "--exclude-standard")
        for name in filter(None, listed.decode().split("\0")):
            if (source / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, target / name)

    def fetch_wheels(self, requirements: Sequence[str]) -> None:
        """Get what pip will want in there, with this machine's pip and its settings."""
        python = os.readlink(self.inside("/usr/bin/python3")).removeprefix("python")
        libc = (17, 28, 34, 36)
        arch = os.uname().machine
        platforms = [f"--platform=manylinux_2_{minor}_{arch}" for minor in libc]
        self._wheels.mkdir(exist_ok=True)
        _run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"),
                *(f"--python-version={python}", *platforms, "--dest", str(self._wheels)),
                *requirements,
            ]
        )
        shutil.copytree(self._wheels, self.inside(WHEELS))
        self.inside("/etc/pip.conf").write_text(
            f"[global]\nno-index = true\nfind-links = {WHEELS}\n"
        )

    def inside(self, path: str) -> Path:
        """A path of the machine as it is seen from here."""
        return self.root / path.lstrip("/")

    # -- running it

    @property
    def booted(self) -> bool:
        """Whether its systemd runs."""
        return self._nspawn is not None

    def journal(self) -> str:
        """What its services said last."""
        if not self.booted:
            return ""
        command = ["journalctl", "--no-pager", "-n", "60", "-u", "omnigate*"]
        return self._inside(command, b"").stdout.decode("utf-8", "replace")

    def boot(self) -> None:
        """Start its systemd, and wait until it has started everything else."""
        self._say("booting")
        with self._log.open("wb") as log:
            self._nspawn = subprocess.Popen(
                [*self._nspawn_command(), "--private-network", "--boot", "--console=read-only"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
        until = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < until:
            if self._nspawn.poll() is not None:
                raise MachineError(f"it does not boot: {self._log.read_text('utf-8', 'replace')}")
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    self._leader = int(child)
                    said = self._inside(["systemctl", "is-system-running"], b"").stdout.decode()
                    if said.strip() in ("running", "degraded"):
                        return
            time.sleep(0.5)
        raise MachineError(f"it did not boot within {_BOOT_SECONDS} s; see {self._log}")

    def stop(self) -> None:
        """Shut it down."""
        if self._nspawn is None:
            return
        with contextlib.suppress(MachineError, subprocess.TimeoutExpired):
            self._inside(["systemctl", "poweroff"], b"")
        try:
            self._nspawn.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._nspawn.terminate()
            self._nspawn.wait(_STOP_SECONDS)
        self._nspawn = None

    def call(self, commands: str) -> str:
        """Run commands of a check, and return what they print.

        :raises MachineError: one of them failed.
        """
        done = self._inside(["bash", "-euo", "pipefail", "-c", commands], b"")
        said = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            raise MachineError(f"{commands}\nended with {done.returncode}:\n{said}")
        return said

    def shell(self, commands: str, strict: bool = True) -> tuple[int, str]:
        """Run commands as the next ones of the operator's shell; its status and what it printed.

        :param strict: the first command that fails ends the block.
        """
        script = _SHELL.format(
            checkout=CHECKOUT, state=_STATE, strict="set -eo pipefail" if strict else ""
        )
        self.inside(_BLOCK).write_text(f"{script}{commands}")
        done = self._inside(["bash", _BLOCK], b"")
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def _nspawn_command(self) -> list[str]:
        return [
            *("systemd-nspawn", "--quiet", "--directory", str(self.root)),
            *("--register=no", "--keep-unit", "--resolv-conf=copy-host"),
        ]

    def _inside(self, command: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        """Run a program in the booted machine, or in its folder while it is not."""
        environ = [f"{name}={value}" for name, value in _ENVIRON.items()]
        if self._leader and self._nspawn is not None:
            enter = ["nsenter", "--target", str(self._leader), "--all", "env", "-i", *environ]
        else:
            enter = [*self._nspawn_command(), "--pipe", "env", *environ]
        return subprocess.run(
            [*enter, *command],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BLOCK_SECONDS,
            check=False,
        )


def _git(source: Path, *arguments: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(source), *arguments], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise MachineError(f"git {arguments[0]} failed; this needs a checkout with its history")
    return done.stdout


def _run(command: Sequence[str], given: bytes | None = None) -> None:
    done = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace")[-4000:]
        raise MachineError(f"{' '.join(command)}\nended with {done.returncode}:\n{said}")

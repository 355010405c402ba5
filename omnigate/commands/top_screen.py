"""The terminal of ``omnigate top``: asks in a thread, draws, and leaves all as it was.

The page is drawn on the terminal's other screen, so that what stood there is there again at the
end, however that comes about. Keys are read one by one without being shown.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from omnigate.admin_client import AdminClient, AdminError, client_from
from omnigate.commands.arguments import CommandError
from omnigate.commands.doctor_facts import Answer, samples
from omnigate.commands.table import fit, has_colour, rows_of
from omnigate.commands.top_view import NEWEST, Told, number, page
from omnigate.text import one_line

#: An answer that takes longer than a few seconds is told as one that does not come.
ANSWER_SECONDS: Final = 5.0
#: How long a key may lie there, and how soon a new size is seen.
_LOOK_SECONDS: Final = 0.1
#: A page for a pipe.
_PIPE_COLUMNS, _PIPE_LINES = 120, 60

_OTHER_SCREEN, _FIRST_SCREEN = b"\033[?1049h\033[?25l", b"\033[?25h\033[?1049l"
_HOME, _EMPTY_LINE = "\033[H", "\033[2K"
_REVERSE, _PLAIN = "\033[7m", "\033[0m"
_ENDS: Final = (b"q", b"Q", b"\x03", b"\x04")
#: Ctrl-L: to draw all of it once more.
_AGAIN: Final = b"\x0c"
#: What ends it the way Ctrl-C does. Nothing can be done about SIGKILL.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_top(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Show one page, or pages until the end.

    :raises AdminError: the first round had no answer.
    """
    client = client_from(environ, ANSWER_SECONDS)
    first = ask(client)
    able = environ.get("TERM", "") not in ("", "dumb")
    if options.once or not (able and sys.stdout.isatty() and sys.stdin.isatty()):
        for line in page(first, None, client.address, _PIPE_COLUMNS, _PIPE_LINES):
            print(line.rstrip())
        return 0
    rounds = Rounds(client, first, options.interval)
    rounds.start()
    with other_screen() as read_key:
        _show(rounds, read_key, client.address)
    return 0


def ask(client: AdminClient) -> Told:
    """Ask for one round.

    :raises AdminError: the control plane is away, or refuses.
    """
    events = rows_of(client.call("GET", f"/admin/requests?limit={NEWEST}"), "requests")
    refusals = rows_of(client.call("GET", "/admin/refusals"), "refusals")
    scrape = client.text("GET", "/metrics", accept="text/plain")
    return Told(
        at=time.time(),
        events=events,
        refusals={
            (str(row.get("key")), str(row.get("code"))): number(row, "count") for row in refusals
        },
        figures=samples(Answer(200, scrape)) or {},
    )


class Rounds:
    """Asks again and again, in a thread that ends with the process.

    :ivar told: the newest round, and :ivar before: an earlier one.
    :ivar fault: why the last one had no answer; empty where it had.
    """

    def __init__(self, client: AdminClient, first: Told, interval: float) -> None:
        self._client = client
        self._interval = interval
        self.told = first
        self.before: Told | None = None
        self.fault = ""

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, daemon=True, name="omnigate-top").start()

    def _run(self) -> None:
        while True:
            time.sleep(self._interval)
            self.again()

    def again(self) -> None:
        """Ask for one more round; whatever comes of it is told."""
        try:
            told = ask(self._client)
        except (AdminError, CommandError) as error:
            self.fault = str(error)
        except Exception as error:
            # Of whatever kind: a page that stands still in silence would be taken for what is.
            self.fault = one_line(repr(error), 200)
        else:
            self.before, self.told, self.fault = self.told, told, ""


def _show(rounds: Rounds, read_key: Callable[[], bytes], address: str) -> None:
    """Draw whenever there is something new, until a key ends it."""
    drawn: object = None
    while True:
        size = shutil.get_terminal_size()
        state = (size, id(rounds.told), rounds.fault)
        if state != drawn:
            drawn = state
            _draw(page_lines(rounds, address, size.columns, size.lines))
        key = read_key()
        if key in _ENDS:
            return
        if key == _AGAIN:
            drawn = None


def page_lines(rounds: Rounds, address: str, width: int, height: int) -> list[str]:
    """Return a page with its foot, which tells what does not work."""
    lines = page(rounds.told, rounds.before, address, width, height - 1)
    lines += [""] * (height - 1 - len(lines))
    foot = f"q ends   no answer: {rounds.fault}" if rounds.fault else "q ends"
    return [*lines, fit(foot, width)]


def _draw(lines: list[str]) -> None:
    """Write over the page that is there.

    A line is emptied before it is written: behind its last column that would take the last letter.
    """
    if has_colour(os.environ):
        lines = [f"{_REVERSE}{lines[0]}{_PLAIN}", *lines[1:]]
    text = "\n".join(f"{_EMPTY_LINE}{line}" for line in lines)
    sys.stdout.write(f"{_HOME}{text}")
    sys.stdout.flush()


@contextmanager
def other_screen() -> Iterator[Callable[[], bytes]]:
    """Take the terminal over, and give it back as it was; also for as long as Ctrl-Z stops us.

    :return: reads a key that was pressed, or nothing after a moment.
    """
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(keyboard)
    came_back: list[bytes] = []

    # Written past sys.stdout, which a signal may have found in the middle of a write.
    def take() -> None:
        tty.setcbreak(keyboard)
        os.write(screen, _OTHER_SCREEN)

    def give_back() -> None:
        # A terminal that is gone needs nothing any more.
        with suppress(OSError, termios.error):
            termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
            os.write(screen, _FIRST_SCREEN)

    def pause(number: int, frame: FrameType | None) -> None:
        give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, pause)
        take()
        came_back[:] = [_AGAIN]

    handlers = {number: signal.signal(number, _interrupt) for number in _ENDING}
    handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, pause)
    try:
        take()
        yield lambda: _key(keyboard) or (came_back.pop() if came_back else b"")
    finally:
        give_back()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _key(keyboard: int) -> bytes:
    """A key that was pressed, nothing after a moment; a terminal that is gone is the end."""
    ready, _, _ = select.select([keyboard], [], [], _LOOK_SECONDS)
    if not ready:
        return b""
    try:
        return os.read(keyboard, 1) or _ENDS[0]
    except OSError:
        return _ENDS[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A signal ends it the way Ctrl-C does."""
    raise KeyboardInterrupt

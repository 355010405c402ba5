"""A program that writes lines to a log as fast as it can, beside others that do the same.

``python -m tests.gateway.log_writer PATH NAME GROUPS LIMIT``: so many groups of lines of any
length, numbered; a write beyond LIMIT bytes of the file (0 is none) fails as on a full disk. The
file is opened anew now and then. What could not be written is told at the end, as a number of
groups.
"""

from __future__ import annotations

import contextlib
import random
import resource
import sys

from omnigate.gateway.log_output import STANDARD_OUTPUT, LogOutput

LINES = 40


def line(name: str, number: int) -> bytes:
    """One line; how long it is depends on its number."""
    filler = random.Random(number).randrange(3800) if number % 9 == 0 else number % 300
    return b'{"name":"%b","number":%d,"x":"%b"}\n' % (name.encode(), number, b"x" * filler)


def main(path: str, name: str, groups: int, limit: int) -> None:
    """Write them."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    output = LogOutput(path, shared=True)
    output.open()
    failed = 0
    for group in range(groups):
        lines = b"".join(line(name, group * LINES + number) for number in range(LINES))
        try:
            output.write(lines)
        except OSError:
            failed += 1
        if group % 50 == 49:
            with contextlib.suppress(FileNotFoundError):
                output.reopen()
    output.close()
    if path != STANDARD_OUTPUT:
        sys.stdout.write(f"{failed}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

"""Files that an operator names: certificates, the config. What stands there may be anything."""

import os


def open_at_once(path: str, flags: int) -> int:
    """Open a file, for ``open``; without O_NONBLOCK a named pipe would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)

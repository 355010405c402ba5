"""``python -m manual``: writes the pages of the manual anew."""

import sys
from pathlib import Path

from manual.pages import pages
from manual.roff import MarkdownError


def main() -> int:
    """Write them, and tell which have changed."""
    try:
        written = pages()
    except MarkdownError as error:
        print(f"manual: {error}", file=sys.stderr)
        return 1
    for name, text in written.items():
        path = Path(__file__).resolve().parent / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

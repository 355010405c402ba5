"""The rules of axe-core, held against a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twisted.trial.unittest import SkipTest

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: The package that carries the script; nothing else of it is needed.
PACKAGE: Final = "axe_playwright_python"


@cache
def _script() -> str:
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SkipTest(f"{PACKAGE} is not installed; the extra dev has it")
    return (Path(found.origin).parent / "axe.min.js").read_text("utf-8")


def violations(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return which rules a page breaks, each with the elements that do and why.

    :param rules: which are held against it; all of them, those of WCAG as well as those of good
        practice, where none is named.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    only = {"runOnly": list(rules)} if rules else {}
    told = page.evaluate(
        "options => axe.run(document, options)", {"resultTypes": ["violations"], **only}
    )
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}\n"
        f"    {node['html'][:300]}\n    {' '.join(node['failureSummary'].split())}"
        for rule in told["violations"]
        for node in rule["nodes"]
    ]

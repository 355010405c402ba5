"""Long lists, a page at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.slices import Slice, page_of


class SliceTests(SynchronousTestCase):
    """Which rows a page has."""

    def test_pages(self) -> None:
        """The last one may be short; an empty list has one page without rows."""
        self.assertEqual(page_of(5, 2, None), Slice(1, 1, 2, 5, 3))
        self.assertEqual(page_of(5, 2, "3"), Slice(3, 5, 5, 5, 3))
        self.assertEqual(page_of(0, 2, "1"), Slice(1, 0, 0, 0, 1))
        self.assertEqual(page_of(0, 2, "1").of([]), [])

    def test_a_page_that_there_is_not(self) -> None:
        """The nearest is shown, and for what is no number the first."""
        for asked, number in (("0", 1), ("9", 3), ("-1", 1), ("x", 1), ("²", 1), ("9" * 99, 3)):
            self.assertEqual(page_of(5, 2, asked).number, number, asked)

    def test_links(self) -> None:
        """They keep what was asked for beside."""
        self.assertEqual(page_of(5, 2, "1").links("/a", {"b": "c d"}), ("", "/a?b=c+d&page=2"))
        self.assertEqual(page_of(5, 2, "3").links("/a", {}), ("/a?page=2", ""))
        self.assertEqual(page_of(5, 2, "2").links("/a", {})[0], "/a")

    @given(st.integers(0, 60), st.integers(1, 9))
    def test_pages_are_the_list(self, rows: int, size: int) -> None:
        """All pages after one another have each row once."""
        whole = list(range(rows))
        found: list[int] = []
        for number in range(1, page_of(rows, size, None).pages + 1):
            found += page_of(rows, size, str(number)).of(whole)
        self.assertEqual(found, whole)

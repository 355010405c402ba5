"""Where pages are."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.paths import (
    admin_key_path,
    key_path,
    model_path,
    request_path,
    search_path,
    upstream_path,
)
from omnigate.control.dashboard.request_rows import key_of


class PathTests(SynchronousTestCase):
    """Paths have one spelling; what may hold any character stands in the query."""

    def test_keys(self) -> None:
        """One that is called as the page for new ones is has a page, too."""
        self.assertEqual(key_path("app"), "/keys/app")
        self.assertEqual(key_path("new"), "/keys/new/key")
        self.assertEqual(key_of("hash", {"hash": "new"}).path, "/keys/new/key")
        self.assertEqual(admin_key_path("new"), "/admin-keys/new/key")

    def test_names_in_the_query(self) -> None:
        """Whatever they hold."""
        self.assertEqual(model_path("a/b&c=ä"), "/models/one?model=a%2Fb%26c%3D%C3%A4")
        self.assertEqual(upstream_path("x y"), "/models/upstream?name=x+y")
        self.assertEqual(request_path("a/b&c"), "/requests/one?id=a%2Fb%26c")

    def test_searches(self) -> None:
        """Filters that say nothing are not in them."""
        self.assertEqual(search_path({"key": "app", "model": ""}), "/requests?key=app")
        self.assertEqual(search_path({"key": ""}), "/requests")

"""The table of model endpoints."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.endpoints import ENDPOINTS


class EndpointsTests(SynchronousTestCase):
    def test_paths(self) -> None:
        """The public port serves exactly these model endpoints."""
        self.assertEqual(
            {
                "/v1/chat/completions": ("openai", "chat"),
                "/v1/completions": ("openai", "completions"),
                "/v1/responses": ("openai", "responses"),
                "/v1/embeddings": ("openai", "embeddings"),
                "/v1/messages": ("anthropic", "messages"),
                "/v1/messages/count_tokens": ("anthropic", "count_tokens"),
            },
            {path: (point.protocol, point.kind) for path, point in ENDPOINTS.items()},
        )

    def test_upstream_path(self) -> None:
        """An upstream's base address ends in /v1, so the path to add does not begin with it."""
        for path, endpoint in ENDPOINTS.items():
            self.assertEqual(path, endpoint.path)
            self.assertEqual(path.encode(), b"/v1" + endpoint.upstream_path)

    def test_metered(self) -> None:
        """Only the counting of tokens costs nothing."""
        unmetered = [point.kind for point in ENDPOINTS.values() if not point.metered]
        self.assertEqual(["count_tokens"], unmetered)

"""The fake provider's rules and the golden requests: two judges of one thing, which must agree."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_heard import BrokenRuleError
from omnigate.testing.provider_plan import RULES
from tests.dialects.vectors import vectors
from tests.testing.loops import PATHS
from tests.testing.provider_requests import post

#: Whose thinking was sealed by others, which this provider cannot know.
SEALED_ELSEWHERE = {
    "c2m-028-thinking-blocks-roundtrip",
    "m2r-002-reasoning-roundtrip",
    "r2m-003-reasoning-roundtrip",
}


class GoldenRequestTests(SynchronousTestCase):
    """What must go upstream is what the rules allow."""

    def test_all(self) -> None:
        """Every golden request is heard; the seals of others are refused, and nothing else."""
        refused = {}
        protocols = set()
        for vector in vectors():
            if vector.sent is None:
                continue
            protocols.add(vector.upstream)
            path = PATHS[vector.upstream]
            headers = {"anthropic-version": "2023-06-01"}
            try:
                RULES[path.removeprefix("/v1")](post(path, headers=headers, **vector.sent))
            except BrokenRuleError as error:
                refused[vector.name] = str(error)
        self.assertEqual(set(refused), SEALED_ELSEWHERE, refused)
        for said in refused.values():
            self.assertRegex(said, "signature|encrypted_content")
        self.assertEqual(protocols, set(PATHS))

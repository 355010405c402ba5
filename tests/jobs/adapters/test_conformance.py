"""The adapters of the registry, held to the rules that are the same for all."""

from urllib.parse import urlsplit

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import ADAPTERS as NAMES
from omnigate.jobs.adapters.base import Task
from omnigate.jobs.adapters.registry import ADAPTERS
from tests.jobs.adapters import rules
from tests.jobs.cases import cases


class Registry(SynchronousTestCase):
    """Which adapters there are."""

    def test_the_config_knows_the_same(self) -> None:
        """A name in the config leads to an adapter, and every adapter has one."""
        self.assertEqual(sorted(ADAPTERS), sorted(NAMES))
        for name, adapter in ADAPTERS.items():
            self.assertEqual(adapter.name, name)

    def test_they_keep_nothing(self) -> None:
        """One object serves all jobs, so none may stay in it."""
        for adapter in ADAPTERS.values():
            self.assertEqual(getattr(adapter, "__dict__", {}), {}, adapter.name)

    def test_a_task_has_no_metadata(self) -> None:
        """What a client notes for itself is no provider's business."""
        self.assertNotIn("metadata", [field.name for field in attrs.fields(Task)])

    def test_a_default_address_is_an_origin_and_a_path(self) -> None:
        """Paths are put behind it."""
        for adapter in ADAPTERS.values():
            url = urlsplit(adapter.default_base_url)
            self.assertEqual(url.scheme, "https")
            self.assertFalse(adapter.default_base_url.endswith("/"))


class Conformance(rules.Rules):
    """What comes of odd answers and of odd inputs."""

    samples = tuple(
        sample
        for adapter in ADAPTERS.values()
        for sample in rules.samples_of(adapter, cases(adapter.name))
    )

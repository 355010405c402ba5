"""What is different between two configs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import Config, KeyConfig, RetentionConfig, load_config
from omnigate.control.config_changes import MAX_NAMES, Changes, changes_between
from omnigate.control.dashboard.config_view import change_lines, change_words


def keys(*names: str, rpm: int = 0) -> tuple[ResolvedKey, ...]:
    return tuple(ResolvedKey(f"{name:0>64}", KeyConfig(name=name, rpm=rpm)) for name in names)


class ChangeTests(SynchronousTestCase):
    def test_rows(self) -> None:
        """What is new, different and gone, by name; nothing where nothing is."""
        found = changes_between(Config(), keys("a", "b"), Config(), keys("a", rpm=5) + keys("c"))
        self.assertEqual(
            found.rows(), {"keys": {"added": ["c"], "changed": ["a"], "removed": ["b"]}}
        )
        self.assertEqual(changes_between(Config(), keys("a"), Config(), keys("a")), Changes())
        self.assertEqual(Changes().rows(), {})

    def test_another_secret(self) -> None:
        """A key whose text is the same and whose secret is not is a changed one."""
        (key,) = keys("a")
        other = ResolvedKey("f" * 64, key.config)
        found = changes_between(Config(), (key,), Config(), (other,))
        self.assertEqual(found.rows(), {"keys": {"changed": ["a"]}})

    def test_every_table(self) -> None:
        upstream = '[[upstreams]]\nname = "u"\nprotocol = "openai"\nbase_url = "http://h/v1"\n'
        route = '[[routes]]\nmodel = "m"\n[[routes.targets]]\nupstream = "u"\nmodel = "x"\n'
        old = load_config(upstream + route)
        new = load_config(upstream.replace("http:", "https:") + route.replace('"x"', '"y"'))
        found = changes_between(old, (), new, ()).rows()
        self.assertEqual(found, {"upstreams": {"changed": ["u"]}, "routes": {"changed": ["m"]}})
        days = Config(retention=RetentionConfig(ledger_days=9))
        self.assertEqual(changes_between(Config(), (), days, ()).rows(), {"retention": True})

    def test_media(self) -> None:
        """Its routes by their models, what else it says, and whom it may reach."""
        target = 'targets = [{ adapter = "fal", model = "m" }]'
        text = f'[[media.routes]]\nmodel = "flux"\n{target}\n'
        old = load_config(text)
        new = load_config(text.replace("fal", "sume") + "[outbound]\nallow = ['10.0.0.1']")
        found = changes_between(old, (), new, ())
        self.assertEqual(found.rows(), {"media_routes": {"changed": ["flux"]}, "outbound": True})
        found = changes_between(old, (), load_config("[media]\nmax_input_bytes = 5\n" + text), ())
        self.assertEqual(found.rows(), {"media": True})
        self.assertEqual(
            change_words(change_lines(changes_between(new, (), old, ()).rows())),
            "1 media route changed, outbound changed",
        )

    @given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)))
    def test_bounded(self, old: set[int], new: set[int]) -> None:
        """Names that are told and those that are only counted are all there are."""
        before, after = keys(*map(str, sorted(old))), keys(*map(str, sorted(new)))
        found = changes_between(Config(), before, Config(), after).keys
        told = len(found.added) + len(found.removed)
        self.assertLessEqual(max(len(found.added), len(found.removed)), MAX_NAMES)
        self.assertEqual(told + found.more, len(old ^ new))

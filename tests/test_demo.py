"""The demonstration's own parts: config, settings, prices, and its client."""

import contextlib
import io
import sys
from decimal import Decimal
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate import demo
from omnigate.config.prices import price_for
from omnigate.config.schema import load_config
from omnigate.demo import TARGET, Answer, DemoError, Place, config_text, expected_usd, plane_environ
from omnigate.demo_children import Child, Children, python_environ
from omnigate.events import TokenCounts
from omnigate.money import cost_nano, usd
from omnigate.settings import read_control_settings, read_data_settings
from omnigate.testing.provider_scenario import scenario_of

PLACE = Place(1, 2, 3, "demo-" + "k" * 32, "a" * 48, "i" * 48, "sk-demo-1")


class ConfigTests(SynchronousTestCase):
    """What the demonstration hands to the planes."""

    def test_the_config_is_good(self) -> None:
        """Both routes lead to the fake provider, at the prices shown."""
        config = load_config(config_text(PLACE))
        self.assertEqual([route.model for route in config.routes], ["demo", "demo-claude"])
        self.assertEqual({route.targets[0].model for route in config.routes}, {TARGET})
        scenario_of(TARGET)

    def test_the_settings_are_good(self) -> None:
        """Both planes take theirs without a warning, and each secret goes where it belongs."""
        folder = Path("/nowhere")
        data = plane_environ("data", PLACE, folder)
        control = plane_environ("control", PLACE, folder)
        self.assertEqual(read_data_settings(data, {})[1], [])
        self.assertEqual(read_control_settings(control, {})[1], [])
        self.assertNotIn(PLACE.admin_token, data.values())
        self.assertNotIn(PLACE.provider_key, control.values())

    def test_the_price_is_the_ledgers(self) -> None:
        """The product computed here is the one the control plane computes."""
        config = load_config(config_text(PLACE))
        price = price_for(config, "demo", "fake-openai", TARGET)
        assert price is not None
        for counts in (
            TokenCounts(16, 24, 0, 62),
            TokenCounts(1, 1, 1, 1),
            TokenCounts(0, 7, 3, 0),
        ):
            served = {
                "input_tokens": counts.input_tokens,
                "cached_input_tokens": counts.cached_input_tokens,
                "cache_write_input_tokens": counts.cache_write_input_tokens,
                "output_tokens": counts.output_tokens,
            }
            self.assertEqual(expected_usd(served), Decimal(usd(cost_nano(counts, price))))


class ClientTests(SynchronousTestCase):
    """Asking by hand, and the bill, straight from a fake provider."""

    def place(self) -> Place:
        """A place whose data plane is the provider itself."""
        folder = Path(self.mktemp())
        folder.mkdir()
        group = Children()
        self.addCleanup(group.__exit__, None, None, None)
        command = [*python_command(), "--key", PLACE.key]
        child = group.add(Child("provider", command, python_environ({}), folder, True))
        port = int(child.first_line())
        return Place(port, 2, port, PLACE.key, "a" * 48, "i" * 48, PLACE.key)

    def ask(self, place: Place) -> tuple[Answer, str]:
        """Ask by hand; the answer and what was printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            answer = demo._ask_by_hand(place)
        return answer, out.getvalue()

    def test_by_hand(self) -> None:
        """The words are printed as they come and counted; the provider counts the same."""
        self.patch(demo, "ROUTE", "fake-words-5")
        self.patch(demo, "TARGET", "fake-words-5")
        place = self.place()
        answer, printed = self.ask(place)
        self.assertEqual((answer.pieces, answer.text), (5, printed))
        self.assertEqual(demo.provider_tokens(place)["output_tokens"], 5)

    def test_failures_are_told(self) -> None:
        """A refusal, a cut and an end without [DONE] each end the demonstration."""
        place = self.place()
        for route, said in {
            "fake-429": "429",
            "fake-cut-after-3": "before its [DONE]",
            "fake-no-done": "before its [DONE]",
        }.items():
            self.patch(demo, "ROUTE", route)
            error = self.assertRaises(DemoError, self.ask, place)
            self.assertIn(said, str(error))


def python_command() -> list[str]:
    """The command that runs a fake provider."""
    return [sys.executable, "-m", "omnigate.testing.provider"]

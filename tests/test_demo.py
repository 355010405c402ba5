"""The demonstration's own parts: config, settings, prices, and its client."""

import contextlib
import io
import sys
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate import demo, demo_media
from omnigate.config.prices import price_for
from omnigate.config.schema import load_config
from omnigate.demo import TARGET, Answer, Place, config_text, expected_usd, plane_environ
from omnigate.demo_children import Child, Children, python_environ
from omnigate.demo_media import MEDIA_KEY, MEDIA_ROUTE, DemoError, MediaPlace, Picture
from omnigate.demo_media import expected_usd as expected_media_usd
from omnigate.events import TokenCounts
from omnigate.jobs.job import Billable
from omnigate.jobs.pricing import cost_nano as media_cost_nano
from omnigate.money import cost_nano, usd
from omnigate.settings import read_control_settings, read_data_settings
from omnigate.testing.media.pictures import png
from omnigate.testing.provider_scenario import scenario_of

MEDIA = MediaPlace(4)
PLACE = Place(1, 2, 3, "demo-" + "k" * 32, "a" * 48, "i" * 48, "sk-demo-1", MEDIA)


class ConfigTests(SynchronousTestCase):
    """What the demonstration hands to the planes."""

    def test_the_config_is_good(self) -> None:
        """Both routes lead to the fake provider, at the prices shown."""
        config = load_config(config_text(PLACE))
        self.assertEqual([route.model for route in config.routes], ["demo", "demo-claude"])
        self.assertEqual({route.targets[0].model for route in config.routes}, {TARGET})
        scenario_of(TARGET)

    def test_the_media_route_is_good(self) -> None:
        """It leads to the fake, whose price is the one that is shown, and webhooks are signed."""
        config = load_config(config_text(PLACE))
        (route,) = config.media.routes
        (target,) = route.targets
        self.assertEqual(
            (route.model, target.base_url), (MEDIA_ROUTE, "http://127.0.0.1:4/replicate")
        )
        assert target.price is not None
        bill = Billable(0, 0, 1)
        self.assertEqual(
            expected_media_usd(1), Decimal(usd(media_cost_nano(target.price, {}, {}, bill)))
        )
        self.assertTrue(config.media.webhooks.allow_http)
        self.assertIn(config.keys[0].webhook_secret_env, plane_environ("control", PLACE, Path("/")))

    def test_the_settings_are_good(self) -> None:
        """Both planes take theirs without a warning, and each secret goes where it belongs."""
        folder = Path("/nowhere")
        data = plane_environ("data", PLACE, folder)
        control = plane_environ("control", PLACE, folder)
        self.assertEqual(read_data_settings(data, {})[1], [])
        self.assertEqual(read_control_settings(control, {})[1], [])
        self.assertNotIn(PLACE.admin_token, data.values())
        self.assertNotIn(PLACE.provider_key, control.values())
        self.assertNotIn(MEDIA.hook_secret, data.values())
        self.assertNotIn(MEDIA_KEY, data.values())

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
        return Place(port, 2, port, PLACE.key, "a" * 48, "i" * 48, PLACE.key, MEDIA)

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


class PictureTests(SynchronousTestCase):
    """What the picture's part makes of answers that are not what they should be."""

    def picture(self, job: dict[str, Any], **answers: object) -> Picture:
        """A picture whose job has ended, and what is answered by path from then on."""
        picture = Picture(MEDIA, 1, "key")
        picture.job = job
        self.patch(demo_media, "call", lambda port, method, path, *more: answers[path[3:]])
        self.patch(demo_media, "request", lambda *more: answers["file"])
        return picture

    def test_webhook(self) -> None:
        """The one of this job counts; a fault of it is told."""
        others = {"id": "msg_job_2", "fault": "no signature fits"}
        ours = {"id": "msg_job_1", "fault": "", "body": {"type": "job.succeeded"}}
        self.assertEqual(
            self.picture({"id": "job_1"}, hooks=[others, ours]).webhook(), "job.succeeded"
        )
        bad = self.picture({"id": "job_2"}, hooks=[others])
        self.assertIn("no signature fits", str(self.assertRaises(DemoError, bad.webhook)))

    def test_file(self) -> None:
        """What is not the picture that the job tells of is not saved."""
        path = Path(self.mktemp())
        data = png("x", 7, 5)
        for sent, digest, said in (
            (data + b"!", sha256(data), "hash"),
            (b"<html>", sha256(b"<html>"), "no PNG"),
        ):
            job = {"outputs": [{"signed_url": "/f", "sha256": digest.hexdigest()}]}
            picture = self.picture(job, file=sent)
            self.assertIn(said, str(self.assertRaises(DemoError, picture.fetch, path)))
            self.assertFalse(path.exists())
        job = {"outputs": [{"signed_url": "/f", "sha256": sha256(data).hexdigest()}]}
        self.assertEqual(self.picture(job, file=data).fetch(path), (7, 5))
        self.assertEqual(path.read_bytes(), data)

    def test_bill(self) -> None:
        """A wrong price, and a second submit, are told as such."""
        out = io.StringIO()
        for cost, prompts, right in (("0.012", 1, True), ("0.013", 1, False), ("0.012", 2, False)):
            works = [{"input": {"prompt": demo_media.PROMPT}}] * prompts
            picture = self.picture({"id": "job_1"}, jobs={"works": works})
            self.patch(picture, "make", lambda: None)
            self.patch(picture, "webhook", lambda: "job.succeeded")
            self.patch(picture, "fetch", lambda path: (1, 1))
            events = {"job_1": {"cost_usd": cost}}
            with contextlib.redirect_stdout(out):
                found = demo_media.show_picture(picture, Path("/nowhere"), events.__getitem__)
            self.assertEqual(found, right)
        self.assertIn("asked 2 times", out.getvalue())

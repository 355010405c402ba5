"""xAI's films: three calls told apart by the input, and what each answer comes to."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import (
    Accepted,
    Done,
    Failed,
    Handle,
    Running,
    Transient,
    UrlSource,
)
from omnigate.jobs.adapters.xai_video import XaiVideo
from omnigate.jobs.job import Billable
from omnigate.outbound.messages import Answer
from tests.jobs.adapters.talking import fault_in, talk, task_of, told

XAI = XaiVideo()
MODEL = "grok-imagine-video"
HANDLE = Handle("q1")
CLIP = "https://example.com/v.mp4"


def polled(answer: Answer) -> object:
    """What a poll comes to."""
    return talk(XAI.poll(task_of(XAI, MODEL, {"prompt": "x"}), HANDLE), answer)[1]


class SubmitTests(SynchronousTestCase):
    def test_calls(self) -> None:
        """Which is made, what goes into it, and the seconds that are billed."""
        video = {"url": CLIP}
        cases: list[tuple[dict[str, Any], str, dict[str, Any], int]] = [
            ({"prompt": "x", "seconds": "6s"}, "generations", {"prompt": "x", "duration": 6}, 6),
            ({"prompt": "x", "duration": None}, "generations", {"prompt": "x"}, 0),
            (
                {"image_url": "https://i", "generate_audio": False, "user": "u", "extend": False},
                "generations",
                {"image": {"url": "https://i"}, "generate_audio": False, "user": "u"},
                0,
            ),
            (
                {
                    "prompt": "x",
                    "reference_image_urls": ["https://i", "data:,"],
                    "resolution": "480p",
                },
                "generations",
                {
                    "prompt": "x",
                    "reference_images": [{"url": "https://i"}, {"url": "data:,"}],
                    "resolution": "480p",
                },
                0,
            ),
            ({"prompt": "x", "video_url": CLIP}, "edits", {"prompt": "x", "video": video}, 0),
            (
                {"prompt": "x", "video_url": CLIP, "extend": True, "duration": 4.0},
                "extensions",
                {"prompt": "x", "video": video, "duration": 4},
                4,
            ),
        ]
        for input, call, body, seconds in cases:
            self.assertIsNone(fault_in(XAI, MODEL, input), input)
            task = task_of(XAI, MODEL, input)
            (request,), outcome = talk(XAI.submit(task), told({"request_id": "q1"}))
            self.assertEqual(request.url, f"https://api.x.ai/v1/videos/{call}")
            self.assertEqual(json.loads(request.body), {"model": MODEL, **body})
            self.assertEqual(outcome, Accepted(HANDLE))
            characters = len(input.get("prompt", ""))
            self.assertEqual(XAI.billable(task), Billable(characters, 1000 * seconds))

    def test_what_is_refused(self) -> None:
        """With the field that is at fault; nothing is sent for it."""
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "prompt"),
            ({"prompt": ""}, "prompt"),
            ({"prompt": "x", "odd": 1}, "odd"),
            ({"prompt": "x", "model": "other"}, "model"),
            ({"prompt": "x", "duration": 4.5}, "duration"),
            ({"prompt": "x", "duration": "-1"}, "duration"),
            ({"prompt": "x", "generate_audio": "yes"}, "generate_audio"),
            ({"prompt": "x", "extend": True}, "extend"),
            ({"prompt": "x", "video_url": CLIP, "duration": 5}, "duration"),
            ({"prompt": "x", "video_url": CLIP, "aspect_ratio": "1:1"}, "aspect_ratio"),
            ({"video_url": CLIP}, "prompt"),
            ({"video_url": CLIP, "image_url": "https://i", "prompt": "x"}, "image_url"),
            ({"prompt": "x", "reference_image_urls": []}, "reference_image_urls"),
            ({"prompt": "x", "reference_image_urls": [1]}, "reference_image_urls"),
            ({"prompt": "x", "reference_image_urls": ["u"] * 33}, "reference_image_urls"),
        ]
        for input, field in cases:
            fault = fault_in(XAI, MODEL, input)
            assert fault is not None, input
            self.assertEqual(fault.field, field, input)
            requests, outcome = talk(XAI.submit(task_of(XAI, MODEL, input)))
            self.assertEqual(requests, [])
            self.assertIsInstance(outcome, Failed)


class PollTests(SynchronousTestCase):
    def test_outcomes(self) -> None:
        """What each answer comes to."""
        url = "https://vidgen.x.ai/1.mp4"
        for answer, kind in (
            (Answer(202), Running),
            (Answer(202, {}, b" \n"), Running),
            (told({}, 202), Running),
            (told({"status": "pending"}), Running),
            (told({"status": "queued"}), Running),
            (told({"status": "brewing", "video": {"url": url}}), Running),
            (told({}), Transient),
            (Answer(200), Transient),
            (told({"status": "expired"}), Failed),
            (told({"status": "failed"}), Failed),
            (told({"status": "done", "video": {"url": url, "respect_moderation": False}}), Failed),
            (told({"status": "done", "video": {"url": ""}}), Failed),
            (told({"status": "done"}), Failed),
            (told({"code": "x", "error": "no"}, 403), Failed),
            (told({}, 503), Transient),
        ):
            self.assertIsInstance(polled(answer), kind, answer)
        done = Done((UrlSource(url),), 8500, "q1")
        for status in ({"status": "done"}, {}):
            self.assertEqual(polled(told({**status, "video": {"url": url, "duration": 8.5}})), done)

"""Marks of a client on blocks for a Messages upstream."""

import time

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.messages.block_writer import BlockWriter
from omnigate.dialects.shapes import CacheMark


class MarkTests(SynchronousTestCase):
    def test_a_mark_full_of_numbers(self) -> None:
        """Whatever stands in one of OpenAI's, it is a mark and holds nobody up."""
        writer = BlockWriter()
        blocks = [
            writer.mark({}, CacheMark(b'{"ttl":%b}' % ttl, openai=True))
            for ttl in (b"[" + b"1e308," * 30_000 + b"1]", b"1e309", b'"12h"', b'"5m"')
        ]
        began = time.thread_time()
        writer.place_marks()
        self.assertLess(time.thread_time() - began, 0.5)
        told = [block["cache_control"].get("ttl") for block in blocks]
        self.assertEqual([None, None, "1h", None], told)

"""Reading and merging the providers' token figures."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.endpoints import ANTHROPIC, OPENAI
from omnigate.dialects.usage import MAX_TOKENS, Details, Figures, Usage, load_tree, read_usage
from omnigate.events import TokenCounts, decode_event, encode_event
from tests.usage import usage_event


def merged(*usages: Any) -> Figures:
    figures = Figures()
    for value in usages:
        usage = read_usage(json.dumps(value).encode())
        if usage is not None:
            figures.merge(usage)
    return figures


class ReadUsageTests(SynchronousTestCase):
    def test_openai(self) -> None:
        """The figures of a chat completion are found, its other details passed over."""
        usage = read_usage(
            b'{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,'
            b'"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":1,"cache_write_tokens":2}}'
        )
        self.assertEqual(
            Usage(
                prompt_tokens=9,
                completion_tokens=5,
                prompt_tokens_details=Details(cached_tokens=4, cache_write_tokens=2),
            ),
            usage,
        )

    def test_no_object(self) -> None:
        """What is no object is no usage."""
        for raw in (b"null", b"[]", b"7", b'"x"', b"true", b"", b"{"):
            self.assertIsNone(read_usage(raw), raw)

    def test_odd_figures(self) -> None:
        """A figure of another type or size counts as not given; those beside it are read."""
        for odd in (
            '"7"',
            "null",
            "true",
            "-1",
            str(10**12 + 1),
            str(2**70),
            "1.5",
            "[7]",
            "1e999",
        ):
            usage = read_usage(b'{"prompt_tokens":%s,"output_tokens":3}' % odd.encode())
            self.assertEqual(Usage(output_tokens=3), usage, odd)
        usage = read_usage(b'{"prompt_tokens":%s,"output_tokens":3}' % (b"9" * 5000))
        self.assertEqual(Usage(output_tokens=3), usage)

    def test_whole_floats(self) -> None:
        """A whole number is one, however it is written."""
        self.assertEqual(Usage(prompt_tokens=12), read_usage(b'{"prompt_tokens":12.0}'))

    def test_largest(self) -> None:
        """The bound itself is believed."""
        raw = b'{"prompt_tokens":%d}' % MAX_TOKENS
        self.assertEqual(Usage(prompt_tokens=MAX_TOKENS), read_usage(raw))

    def test_ledger_takes_what_is_believed(self) -> None:
        """An event of any figures that are believed is one that the ledger takes."""
        figures = {
            "prompt_tokens": 2 * MAX_TOKENS,
            "input_tokens": MAX_TOKENS,
            "output_tokens": MAX_TOKENS,
            "completion_tokens": 2**40,
            "cache_read_input_tokens": MAX_TOKENS,
            "cache_creation_input_tokens": MAX_TOKENS,
        }
        for protocol in (OPENAI, ANTHROPIC):
            counts = merged(figures).normalised(protocol)
            event = usage_event(**msgspec.to_builtins(counts))
            self.assertEqual(event, decode_event(encode_event(event)))

    def test_odd_details(self) -> None:
        """Details of another type are none."""
        self.assertEqual(
            Usage(prompt_tokens=3, input_tokens_details=Details(cached_tokens=2)),
            read_usage(
                b'{"prompt_tokens":3,"prompt_tokens_details":[1],'
                b'"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":"x"}}'
            ),
        )

    def test_escaped_names(self) -> None:
        """A name spelled with escapes is the same name, as it is to every other parser."""
        self.assertEqual(Usage(prompt_tokens=1), read_usage(b'{"\\u0070rompt_tokens":1}'))

    def test_depth(self) -> None:
        """Nesting without end is no usage."""
        self.assertIsNone(read_usage(b'{"a":' * 100_000))


class FiguresTests(SynchronousTestCase):
    def test_cached_input(self) -> None:
        """An OpenAI-style input figure holds the cached tokens; an Anthropic-style one does not."""
        openai = merged({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 40}})
        anthropic = merged({"input_tokens": 60, "cache_read_input_tokens": 40})
        expected = TokenCounts(input_tokens=60, cached_input_tokens=40)
        self.assertEqual(expected, openai.normalised("openai"))
        self.assertEqual(expected, anthropic.normalised("anthropic"))

    def test_written_input(self) -> None:
        """So it is with tokens written to the cache."""
        openai = merged(
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20},
            }
        )
        anthropic = merged(
            {
                "input_tokens": 50,
                "cache_read_input_tokens": 30,
                "cache_creation_input_tokens": 20,
            }
        )
        expected = TokenCounts(50, 30, 20, 0)
        self.assertEqual(expected, openai.normalised("openai"))
        self.assertEqual(expected, anthropic.normalised("anthropic"))

    def test_more_cached_than_given(self) -> None:
        """Uncached input is never negative."""
        figures = merged({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}})
        self.assertEqual(TokenCounts(0, 9, 0, 0), figures.normalised("openai"))

    def test_running_totals(self) -> None:
        """A figure that is given again counts as its larger value."""
        figures = merged(
            {"input_tokens": 25, "output_tokens": 1}, {"output_tokens": 15}, {"output_tokens": 0}
        )
        self.assertEqual(TokenCounts(25, 0, 0, 15), figures.normalised("anthropic"))

    def test_output_given(self) -> None:
        """Merging tells whether the output was among the figures, even as nought."""
        self.assertTrue(Figures().merge(Usage(completion_tokens=0)))
        self.assertFalse(Figures().merge(Usage(prompt_tokens=4)))

    def test_input_seen(self) -> None:
        """Any input figure tells that the input is known."""
        self.assertFalse(merged({"output_tokens": 3}).input_seen)
        self.assertTrue(merged({"prompt_tokens": 0}).input_seen)
        self.assertTrue(merged({"cache_read_input_tokens": 0}).input_seen)
        self.assertTrue(merged({"prompt_tokens_details": {"cached_tokens": 0}}).input_seen)

    figures = st.dictionaries(
        st.sampled_from([*Usage.__struct_fields__, *Details.__struct_fields__]),
        st.integers(-2, 9)
        | st.sampled_from([10**12, 10**12 + 1, 2**70, 1.0, 0.5, None, True, "1"])
        | st.fixed_dictionaries({"cached_tokens": st.integers(-1, 3)}),
    )

    @given(st.lists(figures, max_size=4))
    @settings(max_examples=200, deadline=None)
    def test_order_does_not_matter(self, usages: list[dict[str, Any]]) -> None:
        """The same usage objects give the same counts in any order, and within bounds."""
        forward, backward = merged(*usages), merged(*reversed(usages))
        self.assertEqual(forward, backward)
        self.assertEqual(forward, merged(*usages, *usages))
        for protocol in ("openai", "anthropic"):
            counts = forward.normalised(protocol)
            for name in TokenCounts.__struct_fields__:
                self.assertTrue(0 <= getattr(counts, name) <= MAX_TOKENS)


class LoadTreeTests(SynchronousTestCase):
    def test_python_json(self) -> None:
        """Half a surrogate pair, a bare line feed, NaN and bytes that are no UTF-8 are taken."""
        for data in (b'["\\ud83d"]', b'["a\nb"]', b"[NaN]", b'["\xff"]'):
            self.assertIsInstance(load_tree(data, 100), list, data)

    def test_bound(self) -> None:
        """What is longer than allowed is not looked at."""
        self.assertEqual([1], load_tree(b"[1]", 3))
        self.assertIsNone(load_tree(b"[10]", 3))

    def test_junk(self) -> None:
        """What is no JSON is nothing."""
        for data in (b"", b"{", b"[" * 5000, b"x"):
            self.assertIsNone(load_tree(data, 10_000), data[:9])

"""Tests of omnigate.wire.json_body."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_body import ScanError, asks_for_usage, usage_span, value_start


class OptionsTests(SynchronousTestCase):
    """Reading ``stream_options``."""

    def test_asked_for(self) -> None:
        """Only true asks; what is no object says nothing."""
        for options, asked in (
            (b'{"include_usage":true}', True),
            (b'{"include_usage": true}', True),
            (b'{ "a":[{"include_usage":false}], "include_usage" : true }', True),
            (b'{"include_usage":false}', False),
            (b'{"include_usage":"true"}', False),
            (b'{"include_usage":1}', False),
            (b"{}", None),
            (b'{"a":{"include_usage":true}}', None),
            (b"null", None),
            (b'["include_usage"]', None),
        ):
            self.assertEqual(asks_for_usage(options), asked, options)

    def test_span(self) -> None:
        """The span is that of the value."""
        options = b'{"a":1,"include_usage" : [ 1 ] }'
        span = usage_span(options)
        assert span is not None
        self.assertEqual(options[span[0] : span[1]], b"[ 1 ]")

    def test_refused(self) -> None:
        """Given twice, in escapes, or in too long a value, it is refused."""
        for options in (
            b'{"include_usage":true,"include_usage":true}',
            b'{"\\u0069nclude_usage":true}',
            b'{"a":"' + b"a" * 65536 + b'"}',
        ):
            error = self.assertRaises(ScanError, asks_for_usage, options)
            self.assertEqual((error.code, error.param), ("invalid_request", "stream_options"))

    def test_value_start(self) -> None:
        """Blanks behind the colon are passed over."""
        self.assertEqual(value_start(b'"a": \n\t1', 4), 7)
        self.assertEqual(value_start(b'"a":1', 4), 4)

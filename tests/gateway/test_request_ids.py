"""Request ids, as many as are asked for."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.request_ids import BATCH, RequestIds


class RequestIdTests(SynchronousTestCase):
    def test_spelling(self) -> None:
        """Each is 32 hexadecimal digits, in the first batch and in any later one."""
        ids = RequestIds()
        for _ in range(2 * BATCH + 1):
            self.assertRegex(ids.take(), r"\A[0-9a-f]{32}\Z")

    def test_none_twice(self) -> None:
        """None is given out twice, whoever gives them out."""
        givers = [RequestIds() for _ in range(4)]
        taken = {giver.take() for giver in givers for _ in range(3 * BATCH + 1)}
        self.assertEqual(4 * (3 * BATCH + 1), len(taken))

    def test_all_bits(self) -> None:
        """Each of the 128 bits is set in about half of them."""
        ids = RequestIds()
        numbers = [int(ids.take(), 16) for _ in range(4 * BATCH)]
        for bit in range(128):
            share = sum(number >> bit & 1 for number in numbers) / len(numbers)
            # Eight standard deviations: to fail by chance takes longer than there are runs.
            self.assertTrue(0.375 < share < 0.625, (bit, share))

"""A short run of the hostile client, always the same one; ``hostile_client.py`` runs longer."""

import random

from twisted.trial.unittest import SynchronousTestCase

from tests.process.hostile_bodies import CHAT, judge, spoiled_body
from tests.process.hostile_client import started
from tests.process.hostile_requests import HEADS, attack, sound

#: Rounds after the first one, and the attacks of each.
ROUNDS = 5
ATTACKS = 400
SEED = 20


class HostileClientTests(SynchronousTestCase):
    """Against a living gateway."""

    def test_rounds(self) -> None:
        """It serves, gives everything back, and its books balance."""
        run = started(SEED, ATTACKS)
        self.addCleanup(run.gateway.stop)
        run.begin()
        for number in range(1, ROUNDS + 1):
            run.round(number)
        run.settle()
        for status in (0, 200, 400, 401, 404, 405, 411, 413, 417, 501, 505):
            self.assertIn(status, run.statuses)


class AttackTests(SynchronousTestCase):
    """What it sends."""

    def test_again(self) -> None:
        """The same seed makes the same attack, so that it can be played again."""
        for seed in range(500):
            self.assertEqual(attack(random.Random(seed)), attack(random.Random(seed)))

    def test_every_way(self) -> None:
        """Every way to spoil a head spoils each kind of request, without a fault of its own."""
        for seed in range(100):
            for spoiler in HEADS:
                rng = random.Random(seed)
                sent, statuses = spoiler(rng, sound(rng))
                self.assertTrue(sent and statuses)

    def test_judge(self) -> None:
        """The judge of bodies knows good ones from bad ones, and both are made."""
        self.assertEqual(judge(CHAT), {200})
        for body, statuses in (
            (b'{"model":"nobody"}', {404}),
            (b'{"model":5}', {400}),
            (b'{"model":"small","model":"small"}', {400}),
            (b'{"model":"small","x":' + b"[" * 63 + b"]" * 63 + b"}", {200}),
            (b'{"model":"small","x":' + b"[" * 64 + b"]" * 64 + b"}", {400}),
            (b'{"model":"small","x":NaN}', {400}),
            (b'{"model":"small","x":"\xff"}', {400}),
            (b'{"model":"small","x":"\\ud800"}', {400}),
            (b'{"model":"small","' + b"k" * 8193 + b'":0}', {400}),
        ):
            self.assertEqual(judge(body), statuses, body[:60])
        rng = random.Random(0)
        made = {status for _ in range(300) for status in spoiled_body(rng)[2]}
        self.assertEqual(made, {200, 400, 404})

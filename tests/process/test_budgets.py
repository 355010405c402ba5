"""How far a key passes its budget, with real daemons: less than the manual's formula says."""

import math
import threading
import time
from decimal import Decimal

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import Gateway, cost_of, key_table, route_table, upstream_table, wait_for

#: Requests that the key may have in flight, and clients that try to have more.
IN_FLIGHT = 4
CLIENTS = IN_FLIGHT + 2
#: What a request takes at least, and the pause between deliveries, in seconds.
REQUEST_SECONDS = 0.1
FLUSH_SECONDS = 0.2
#: A delivery, and a poll with its installation: some milliseconds each on a machine that is idle.
DELIVERY_SECONDS = 0.5
INSTALL_SECONDS = 0.5

#: Every answer is as long as every other, so this is what each costs.
COST = cost_of(
    {
        "input_tokens": 3,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 10,
    }
)
BUDGET = COST * 21 / 2
SOFT_BUDGET = COST * 5


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


def config(provider_port: int) -> str:
    """One key with a small budget, and one model with answers of one price."""
    return (
        key_table(
            "tight",
            max_concurrent=IN_FLIGHT,
            budget_usd=float(BUDGET),
            soft_budget_usd=float(SOFT_BUDGET),
        )
        + upstream_table("openai", "openai", provider_port)
        + route_table(
            "even", ("openai", f"fake-words-10-slow-first-byte-{REQUEST_SECONDS * 1000:.0f}")
        )
    )


class OverspendTests(SynchronousTestCase):
    """A key that spends as fast as it may."""

    def start(self, poll_seconds: float, **data: str) -> None:
        """Start both daemons."""
        settings = {"FLUSH_MS": _ms(FLUSH_SECONDS), "POLL_MS": _ms(poll_seconds), **data}
        self.gateway = Gateway(config, settings)
        self.addCleanup(self.gateway.stop)
        self.gateway.start()
        #: Of each request that was answered: when it was sent, and when it had ended.
        self.answered: list[tuple[float, float]] = []
        self.refused: set[int] = set()

    def spend(self) -> None:
        """Ask without a pause until the budget is told to be spent."""
        while True:
            sent = time.monotonic()
            status = self.gateway.ask("even", key="tight").status
            if status == 200:
                self.answered.append((sent, time.monotonic()))
                continue
            self.refused.add(status)
            if status != 429:
                return
            time.sleep(0.005)

    def spend_all(self) -> float:
        """Have all clients spend until each is refused; how long that took, in seconds."""
        clients = [threading.Thread(target=self.spend) for _ in range(CLIENTS)]
        began = time.monotonic()
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        took = time.monotonic() - began
        self.assertIn(402, self.refused)
        self.assertLessEqual(self.refused, {402, 429})
        wait_for(
            "all of it to be recorded", lambda: len(self.gateway.ledger()) >= len(self.answered)
        )
        return took

    def check_bound(self, in_flight: int, block_seconds: float) -> None:
        """What was spent is over the budget by less than the formula says.

        :param block_seconds: what it may take from the end of a request to the block.
        """
        spent = sum((event["cost_usd"] for event in self.gateway.ledger()), Decimal(0))
        self.assertEqual(spent, COST * len(self.answered))
        requests = in_flight + in_flight * math.ceil(block_seconds / REQUEST_SECONDS)
        over = spent - BUDGET
        print(
            f"\nbudget {BUDGET} USD, spent {spent}: over by {over} ({over / COST:.1f} requests); "
            f"the bound is {requests * COST} ({requests} requests); the last request was let in "
            f"{self.after_the_budget():.3f} s after the budget was spent"
        )
        self.assertGreater(over, 0)
        self.assertLess(over, requests * COST)

    def after_the_budget(self) -> float:
        """How long after the budget was spent a request was still let in, in seconds."""
        needed = math.ceil(BUDGET / COST)
        spent_at = sorted(ended for _, ended in self.answered)[needed - 1]
        return max(0.0, max(sent for sent, _ in self.answered) - spent_at)

    def test_one_process(self) -> None:
        """Its polls are a minute apart: the block comes since the answer to a delivery tells."""
        self.start(poll_seconds=60)
        self.assertLess(self.spend_all(), 30)
        self.check_bound(IN_FLIGHT, FLUSH_SECONDS + 2 * DELIVERY_SECONDS + 2 * INSTALL_SECONDS)
        self.check_told()

    def test_several_workers(self) -> None:
        """One that has delivered nothing learns of the block by its next poll."""
        poll_seconds = 0.5
        self.start(poll_seconds, WORKERS="2")
        run = self.gateway.data
        assert run is not None
        wait_for("both workers to serve", lambda: run.log().count("in force: 1 keys") >= 2)
        self.spend_all()
        seconds = FLUSH_SECONDS + 2 * DELIVERY_SECONDS + poll_seconds + 2 * INSTALL_SECONDS
        # Limits that workers share may be passed by one request for each worker but one.
        self.check_bound(IN_FLIGHT + 1, seconds)

    def check_told(self) -> None:
        """The operator sees the same, and was told of the soft budget once."""
        admin = self.gateway.admin()
        key = admin.call("GET", "/admin/keys/tight")
        self.assertTrue(key["blocked"] and key["over_soft"], key)
        self.assertEqual(key["left_usd"], 0)
        assert self.gateway.control is not None
        lines = [line for line in self.gateway.control.log().splitlines() if "soft budget" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("tight", lines[0])
        metrics = admin.text("GET", "/metrics", accept="text/plain")
        self.assertIn("omnigate_soft_budget_exceeded_total 1.0", metrics)
        self.assertIn("omnigate_keys_over_budget 1.0", metrics)

"""What the planes must look like after a soak: what holds passes, and what is left is noticed."""

from collections import Counter
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from bench.soak.judge import Judge
from bench.soak.states import NOTHING, Course, Gauges, State, checks
from bench.soak.watch import Sight


def figures(**changes: float) -> Gauges:
    """Of a plane at rest that keeps two connections."""
    told = {f"omnigate_data_{name}": 0.0 for name in NOTHING}
    told |= {
        "omnigate_spool_events": 0.0,
        "omnigate_data_deadlines": 3.0,
        "omnigate_data_timers": 5.0,
        'omnigate_data_upstream_connections{upstream="alpha",state="idle"}': 2.0,
        'omnigate_data_upstream_connections{upstream="alpha",state="busy"}': 0.0,
        'omnigate_data_refusals_total{reason="invalid_json"}': 0.0,
        "omnigate_data_usage_delivered_total": 0.0,
        'omnigate_data_tokens_total{route="a"}': 0.0,
    }
    for name, value in changes.items():
        told[name] = value
    return Gauges(told)


def sockets(**more: int) -> Counter[tuple[str, str]]:
    found = Counter({("itself", "listening"): 2, ("control", "established"): 1})
    found["upstream alpha", "established"] = 2
    for name, count in more.items():
        place, _, state = name.partition("__")
        found[place, state] += count
    return found


def state(gauges: Gauges | None = None, **changes: Any) -> State:
    data = Sight(60.0, 12, sockets())
    control = Sight(60.0, 12, Counter({("client", "established"): 1}))
    return State(gauges or figures(), attrs.evolve(data, **changes), control)


class StateTests(SynchronousTestCase):
    def faults(self, after: State, without_pool: bool = False, **course: Any) -> list[str]:
        found = checks(state(), after, Course(**course), 1000, without_pool)
        return [f"{check.name}: {check.faults}" for check in found if not check.ok]

    def test_sound(self) -> None:
        """A plane that is as it was passes, with other kept connections too."""
        self.assertTrue(state().at_rest)
        self.assertEqual(self.faults(state()), [])
        more = figures(
            **{
                'omnigate_data_upstream_connections{upstream="alpha",state="idle"}': 5.0,
                "omnigate_data_deadlines": 6.0,
                "omnigate_data_timers": 6.0,
            }
        )
        grown = {"sockets": sockets() + Counter({("upstream alpha", "established"): 3})}
        self.assertEqual(self.faults(state(more, rss_mb=61.0, **grown)), [])

    def test_left_behind(self) -> None:
        """A ticket, a reserved byte, a timer, a file, a socket, a megabyte too many."""
        for name in NOTHING:
            left = state(figures(**{f"omnigate_data_{name}": 1.0}))
            self.assertFalse(left.at_rest)
            self.assertIn(name, "".join(self.faults(left)))
        for left, said in (
            (state(figures(omnigate_spool_events=1.0)), "wait in the spool"),
            (state(figures(omnigate_data_deadlines=6.0)), "4 deadlines after, 1 before"),
            (state(figures(omnigate_data_timers=8.0)), "8 timers after"),
            (state(files=13), "13 files"),
            (state(sockets=sockets(client__established=1)), "connections of clients are open"),
            (state(sockets=sockets(control__close_wait=1)), "close_wait"),
            (state(sockets=sockets() + sockets()), "2 are kept, 4 are open"),
            (state(rss_mb=160.0), "160.0 MB after"),
        ):
            self.assertIn(said, "".join(self.faults(left)))
        self.assertIn("still kept", "".join(self.faults(state(), without_pool=True)))

    def test_trend(self) -> None:
        """A leak shows in the slope of the last two thirds; a short load has none."""
        grows = [(float(at), 60 + at / 30) for at in range(0, 900, 10)]
        settles = [(float(at), min(80.0, 60 + at / 10)) for at in range(0, 900, 10)]
        self.assertIn("KB a minute", "".join(self.faults(state(), samples=grows, seconds=900.0)))
        self.assertEqual(self.faults(state(), samples=settles, seconds=900.0), [])
        self.assertEqual(self.faults(state(), samples=grows, seconds=15.0), [])

    def test_counters(self) -> None:
        """Counters of the data plane that say something else than the books."""
        for name in (
            'omnigate_data_refusals_total{reason="invalid_json"}',
            "omnigate_data_usage_delivered_total",
            'omnigate_data_tokens_total{route="a"}',
        ):
            found = Judge([], [], [], []).run(figures(**{name: 1.0}), "0")
            self.assertEqual(len([check for check in found if not check.ok]), 1, name)
        self.assertTrue(all(check.ok for check in Judge([], [], [], []).run(figures(), "0")))
        self.assertFalse(all(check.ok for check in Judge([], [], [], []).run(figures(), "0.1")))

"""A key asks about itself, with real daemons."""

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import Gateway, key_of, key_table, route_table, upstream_table, wait_for


def config(provider_port: int) -> str:
    """A key with a budget."""
    return (
        key_table("app", budget_usd=5, budget_period="monthly", rpm=600)
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class OwnUsageTests(SynchronousTestCase):
    """``GET /v1/usage`` through both planes."""

    def test_own_usage(self) -> None:
        """What was spent a moment ago is told; without a control plane it is said so."""
        gateway = Gateway(config, {"FLUSH_MS": "50"})
        self.addCleanup(gateway.stop)
        gateway.start()
        secret = key_of("app")
        self.assertEqual(0, gateway.get("/v1/usage", secret).json["spent_usd"])
        self.assertEqual(200, gateway.ask("small").status)

        def spent() -> float:
            told = gateway.get("/v1/usage", secret).json
            self.assertEqual(
                ("app", 5, "monthly", 600),
                tuple(told[name] for name in ("name", "budget_usd", "period", "rpm")),
            )
            return float(told["spent_usd"])

        wait_for("the spend to be told", spent)
        self.assertEqual(401, gateway.get("/v1/usage", "og-nobodys-key-0123456789").status)
        assert gateway.control is not None
        gateway.control.kill()
        away = gateway.get("/v1/usage", secret)
        self.assertEqual((502, "control_plane_unavailable"), (away.status, away.code))

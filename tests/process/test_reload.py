"""A config that changes while both daemons run."""

import signal

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import Gateway, key_table, route_table, upstream_table, wait_for


def config(provider_port: int, *models: str) -> str:
    """One key, one provider, and these models."""
    routes = [route_table(model, ("openai", "fake-paced-20")) for model in ("first", *models)]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


class ReloadTests(SynchronousTestCase):
    """The file is changed, with and without a signal, for the better and for the worse."""

    def setUp(self) -> None:
        self.gateway = Gateway(config)
        self.addCleanup(self.gateway.stop)
        self.gateway.start()

    def write(self, text: str, hang_up: bool = True) -> None:
        """Replace the file."""
        self.gateway.config_path.write_text(text)
        assert self.gateway.control is not None
        if hang_up:
            self.gateway.control.send(signal.SIGHUP)

    def serves(self, model: str) -> bool:
        """Whether requests of a model are answered."""
        return self.gateway.ask(model, stream=True).status == 200

    def test_reload(self) -> None:
        """What is new is served, what is wrong changes nothing and is told."""
        port = self.gateway.provider_port
        self.assertFalse(self.serves("second"))
        self.write(config(port, "second"))
        wait_for("the second model", lambda: self.serves("second"))
        # A file with a fault: the log names it, and everything goes on as before.
        self.write(config(port, "third") + "[[keys]]\nnmae = 1\n")
        control = self.gateway.control
        assert control is not None
        wait_for("the fault to be told", lambda: "keys[1].nmae" in control.log())
        self.assertTrue(self.serves("second"))
        self.assertFalse(self.serves("third"))
        faults = self.gateway.admin().call("GET", "/admin/config")["faults"]
        self.assertIn("keys[1].nmae", [fault["path"] for fault in faults])
        # Mended, and found without being told.
        self.write(config(port, "third"), hang_up=False)
        wait_for("the third model", lambda: self.serves("third"))
        self.assertFalse(self.serves("second"))
        self.assertEqual(self.gateway.admin().call("GET", "/admin/config")["faults"], [])

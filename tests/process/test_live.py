"""A live part over a real socket: rows come while somebody looks, and a stop ends it in order."""

from __future__ import annotations

import http.client
import json
import re
from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    ADMIN_TOKEN,
    SECONDS,
    Gateway,
    key_table,
    route_table,
    upstream_table,
)


def config(provider_port: int) -> str:
    """One key and one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class LiveTests(SynchronousTestCase):
    """The list of requests."""

    def test_a_request_while_somebody_looks(self) -> None:
        """Its row comes by itself; the stream has an end when the control plane stops."""
        gateway = Gateway(config, {"FLUSH_MS": "50"})
        self.addCleanup(gateway.stop)
        gateway.start()
        gateway.event(gateway.ask("small").id)
        cookie = self.sign_in(gateway)
        page = self.get(gateway, "/requests", cookie).read().decode()
        found = re.search(r'data-live="requests" data-mark="([^"]+)"', page)
        assert found is not None, page
        stream = self.get(gateway, f"/live/requests?mark={found[1]}", cookie)
        self.assertEqual(stream.status, 200)
        asked = gateway.ask("small")
        line = b""
        while not line.startswith(b"data: "):
            line = stream.readline()
            self.assertTrue(line)
        update = json.loads(line[6:])
        self.assertEqual((update["mode"], update["html"].count("<tr")), ("prepend", 1))
        self.assertIn(asked.id, update["html"])
        assert gateway.control is not None
        gateway.control.terminate()
        stream.read()  # to the last chunk, or this fails
        self.assertEqual(gateway.control.wait(), 0)

    def sign_in(self, gateway: Gateway) -> str:
        """Return the cookie of the form."""
        connection = http.client.HTTPConnection("127.0.0.1", gateway.control_port, timeout=SECONDS)
        self.addCleanup(connection.close)
        form = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/sign-in", urlencode({"token": ADMIN_TOKEN}), form)
        return connection.getresponse().headers["set-cookie"].partition(";")[0]

    def get(self, gateway: Gateway, target: str, cookie: str) -> http.client.HTTPResponse:
        """Ask for something; the body is not read yet."""
        connection = http.client.HTTPConnection("127.0.0.1", gateway.control_port, timeout=SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", target, headers={"cookie": cookie})
        return connection.getresponse()

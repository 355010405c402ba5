"""Both planes with a month behind them, for tests, for screenshots, and for people who look.

``python -m tests.browser.seeding`` starts them, tells where the dashboard is, and sends a request
now and then until Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import signal
import sys
import time
from decimal import Decimal
from random import Random
from typing import Any, Final

import msgspec

import omnigate
from omnigate.admin_client import AdminClient, AdminError
from omnigate.events import MAX_BATCH_EVENTS
from omnigate.periods import DAY_MS, rfc3339
from omnigate.upstream_state import UpstreamState
from tests.browser import world
from tests.browser.media import Studio
from tests.process.daemons import ADMIN_TOKEN, INTERNAL_TOKEN, SECONDS, Gateway

#: What the dashboard is shown with; no two of them have one secret.
READER, BOT = "oncall", "deploy-bot"

#: Pauses of the traffic that goes on, in seconds.
_PAUSES: Final = (0.3, 2.5)
#: How often the second plane says that it lives, as a real one does.
_REPORT_SECONDS: Final = 5.0


class Seeded(Gateway):
    """A gateway whose dashboard has something on every page.

    :ivar secrets: of the keys, by name; :data:`READER` has the scope ``read_only``.
    :ivar jobs: ids of media jobs, by what became of them.
    """

    def __init__(self) -> None:
        super().__init__(world.config)
        self.secrets: dict[str, str] = {}
        self.jobs: dict[str, str] = {}

    def start(self) -> Seeded:
        """Start all, and wait until the month is in the ledger."""
        studio = Studio(self.control_state, int(time.time() * 1000))
        studio.write()
        self.jobs = studio.named
        super().start()
        try:
            self._seed()
        except BaseException:
            self.stop(orderly=False)
            raise
        return self

    def _seed(self) -> None:
        now_ms = int(time.time() * 1000)
        admin = self.admin()
        self._make_keys(admin, now_ms)
        hashes = {name: _sha256(secret) for name, secret in self.secrets.items()}
        batch: list[Any] = []
        for event in world.events(now_ms, hashes):
            batch.append(msgspec.to_builtins(event))
            if len(batch) == MAX_BATCH_EVENTS:
                self._post("/internal/usage/batch", {"events": batch})
                batch = []
        self._post("/internal/usage/batch", {"events": batch})
        self._set_budgets(admin, now_ms)
        rows = [{"key": key, "code": code, "count": n} for key, code, n in world.REFUSALS]
        self._post("/internal/counters", {"refusals": rows})
        self.report_second_plane()
        self._make_history(admin)

    def report_second_plane(self) -> None:
        """Report figures of a plane that has trouble with one upstream."""
        self._post(
            "/internal/counters",
            {
                "reporter": "5" * 32,
                "gauges": {"requests_in_flight": 7, "reactor_lag_seconds": 0.004},
                "upstreams": {"mistral": int(UpstreamState.DEGRADED)},
                "about": {
                    "host": "gateway-2",
                    "address": "10.0.4.12:8080",
                    "version": omnigate.__version__,
                    "resting": [("mistral", "mistral-small-latest", 18.0, 140.0)],
                },
            },
        )

    def _make_keys(self, admin: AdminClient, now_ms: int) -> None:
        for team in world.TEAMS:
            # One that nothing reaches: with it a key tells what it has spent in its period.
            budget = {} if team.spent is None else {"budget_usd": 1_000_000}
            self._make_key(admin, {"name": team.name, **budget, **team.limits})
        expires_at = rfc3339(now_ms + 9 * DAY_MS)
        self._make_key(admin, {"name": world.NEW, "models": ["smart"], "expires_at": expires_at})
        self._make_key(admin, {"name": world.RETIRED, "allowed_ips": ["10.20.0.0/16"]})
        for name, scope in ((READER, "read_only"), (BOT, "full")):
            made = admin.call("POST", "/admin/admin-keys", {"name": name, "scope": scope})
            self.secrets[name] = made["secret"]

    def _make_key(self, admin: AdminClient, members: dict[str, Any]) -> None:
        self.secrets[members["name"]] = admin.call("POST", "/admin/keys", members)["secret"]

    def _set_budgets(self, admin: AdminClient, now_ms: int) -> None:
        """Give each key a budget of which its share is spent, whatever day of the month it is."""
        for team in world.TEAMS:
            if team.spent is None:
                continue
            path = f"/admin/keys/{team.name}"
            spent = Decimal(admin.call("GET", path)["spent_usd"])
            budget = max(round(spent / Decimal(team.spent), 2), Decimal("0.01"))
            soft = round(budget * Decimal("0.8"), 2) if team.soft else None
            admin.call("PATCH", path, {"budget_usd": budget, "soft_budget_usd": soft})

    def _make_history(self, admin: AdminClient) -> None:
        """Change a few things, as operators do, so that the audit log and the history have some."""
        admin.call("PATCH", f"/admin/keys/{world.RETIRED}", {"disabled": True})
        admin.call("POST", "/admin/keys/support-bot/rotate", {"grace_s": 86_400})
        AdminClient(f"http://127.0.0.1:{self.control_port}", self.secrets[BOT]).call(
            "PATCH", "/admin/keys/mobile-app", {"rpm": 180}
        )
        text = self.config_path.read_text()
        self.config_path.write_text(text.replace("cache_ttl_s = 600", "cache_ttl_s = 900"))
        admin.call("POST", "/admin/reload")
        try:
            AdminClient(f"http://127.0.0.1:{self.control_port}", "a guess").call(
                "GET", "/admin/keys"
            )
        except AdminError:
            pass  # as it should be; the audit log has it

    def _post(self, path: str, body: object) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.control_port, timeout=SECONDS)
        headers = {
            "x-omnigate-internal": INTERNAL_TOKEN,
            "content-type": "application/json",
        }
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == 200, (path, answer.status, said)
        finally:
            connection.close()

    def fallen_over(self) -> str:
        """Return the id of a request that a second upstream answered."""
        for event in self.admin().call("GET", "/admin/requests?limit=500")["requests"]:
            if len(event["attempts"]) > 1 and event["upstream"] is not None:
                return str(event["id"])
        raise AssertionError("no request fell over")

    def request_of(self, team: world.Team, model: str) -> int:
        """Send a request of a team's application; the status of its answer."""
        endpoint = world.MODELS[model].endpoint
        text = "What is the status of order 4711?"
        body: dict[str, Any] = {"model": model}
        if endpoint == "embeddings":
            path, body["input"] = "/v1/embeddings", text
        else:
            body |= {"messages": [{"role": "user", "content": text}], "max_tokens": 500}
            body["stream"] = True
            path = "/v1/messages" if endpoint == "messages" else "/v1/chat/completions"
        return self.post(path, body, self.secrets[team.name]).status


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def main() -> int:
    """Start, tell where, and send requests until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.seeding", description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="send no requests")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    gateway = Seeded().start()
    try:
        print(f"dashboard  http://127.0.0.1:{gateway.control_port}/")
        print(f"token      {ADMIN_TOKEN}")
        print(f"look only  {gateway.secrets[READER]}")
        print(f"data plane http://127.0.0.1:{gateway.data_port}/", flush=True)
        dice, reported = Random(), 0.0
        while True:
            if time.monotonic() - reported > _REPORT_SECONDS:
                gateway.report_second_plane()
                reported = time.monotonic()
            if not options.quiet:
                (team,) = dice.choices(world.TEAMS, [team.weight for team in world.TEAMS])
                gateway.request_of(team, dice.choice(list(team.models)))
            time.sleep(dice.uniform(*_PAUSES))
    except KeyboardInterrupt:
        return 0
    finally:
        gateway.stop(orderly=False)


if __name__ == "__main__":
    sys.exit(main())

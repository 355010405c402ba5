"""omnigate keys and omnigate admin-keys, against an admin API that is played."""

from __future__ import annotations

import json
from itertools import pairwise

from omnigate.commands import key_arguments
from omnigate.commands.key_arguments import duration
from tests.test_admin_client import FakeAdmin
from tests.test_cli import CliCase


class KeyTests(CliCase):
    """omnigate keys."""

    def test_keys_list(self) -> None:
        """A table without columns that nothing fills."""
        keys = [
            {"name": "app", "source": "managed", "rpm": 600, "models": ["fast", "claude-*"]},
            {"name": "b", "source": "file", "rpm": 0, "models": None, "soft_budget_usd": None},
        ]
        FakeAdmin.answers["/admin/keys"] = (200, json.dumps({"keys": keys}).encode())
        status, out, _ = self.run_cli("keys", "list")
        self.assertEqual(status, 0)
        self.assertEqual(
            out,
            "name  source   rpm  models\n"
            "app   managed  600  fast,claude-*\n"
            "b     file       0  -\n",
        )
        _, out, _ = self.run_cli("keys", "list", "--format", "csv")
        self.assertTrue(out.startswith("name,source,rpm,max_concurrent,models,budget_usd,"), out)
        self.assertIn('\r\napp,managed,600,,"fast,claude-*",,', out)
        _, out, _ = self.run_cli("keys", "list", "--json")
        self.assertEqual(json.loads(out), {"keys": keys})

    def test_keys_create(self) -> None:
        """The secret stands alone on standard output."""
        FakeAdmin.answers["/admin/keys"] = (201, b'{"name": "app", "secret": "ogk_x"}')
        status, out, err = self.run_cli(
            *("keys", "create", "app", "--rpm", "600", "--models", "fast, claude-*"),
            *("--budget-usd", "12.5", "--budget-period", "weekly", "--max-concurrent", "3"),
            *("--soft-budget-usd", "10", "--budget-timezone", "Europe/Stockholm"),
        )
        self.assertEqual((status, out), (0, "ogk_x\n"))
        self.assertIn("shown once", err)
        self.assertIn("OMNIGATE_POLL_MS", err)
        self.assertEqual(
            json.loads(FakeAdmin.asked[0][3]),
            {
                "name": "app",
                "rpm": 600,
                "models": ["fast", "claude-*"],
                "max_concurrent": 3,
                "budget_usd": 12.5,
                "soft_budget_usd": 10,
                "budget_period": "weekly",
                "budget_timezone": "Europe/Stockholm",
            },
        )

    def test_no_money(self) -> None:
        """A budget that is no number is a wrong argument, and nothing is asked."""
        for text in ("much", "nan", "inf"):
            status, _, err = self.run_cli("keys", "create", "app", "--budget-usd", text)
            self.assertEqual(status, 2)
            self.assertIn("no number of US dollars", err)
        self.assertEqual(FakeAdmin.asked, [])

    def test_keys_delete(self) -> None:
        """The name is one segment of the path."""
        FakeAdmin.answers["/admin/keys/a%2Fb"] = (204, b"")
        self.assertEqual(self.run_cli("keys", "delete", "a/b")[0], 0)
        self.assertEqual(FakeAdmin.asked[0][:2], ("DELETE", "/admin/keys/a%2Fb"))

    def test_keys_list_in_pages(self) -> None:
        """All pages are one listing, asked for one after the other."""
        first = {"keys": [{"name": "a"}, {"name": "b+"}], "next": "b+"}
        FakeAdmin.answers["/admin/keys"] = (200, json.dumps(first).encode())
        FakeAdmin.answers["/admin/keys?after=b%2B"] = (200, b'{"keys":[{"name":"c"}],"next":null}')
        status, out, _ = self.run_cli("keys", "list", "--json")
        self.assertEqual(
            (status, [row["name"] for row in json.loads(out)["keys"]]), (0, [*"a", "b+", "c"])
        )
        for page in (
            b'{"keys":[{}],"next":"a"}',
            b'{"keys":[{}],"next":5}',
            b'{"keys":[],"next":"c"}',
        ):
            FakeAdmin.answers["/admin/keys?after=b%2B"] = (200, page)
            self.check_no_end()

    def test_pages_without_an_end(self) -> None:
        """There are no more of them than there may be keys."""
        self.patch(key_arguments, "MAX_PAGES", 5)
        names = ["", *"abcdefg"]
        for before, name in pairwise(names):
            path = f"/admin/keys?after={before}" if before else "/admin/keys"
            FakeAdmin.answers[path] = (200, b'{"keys":[{}],"next":"%b"}' % name.encode())
        self.check_no_end()
        self.assertEqual(len(FakeAdmin.asked), 5)

    def check_no_end(self) -> None:
        """The pages of keys lead nowhere, and that is told."""
        status, _, err = self.run_cli("keys", "list")
        self.assertEqual(status, 1)
        self.assertIn("do not go on", err)

    def test_rare_columns(self) -> None:
        """A table has them where a key has something there, CSV always."""
        keys = [
            {"name": "a", "tpm": 0, "disabled": False},
            {"name": "b", "tpm": 0, "disabled": True},
        ]
        FakeAdmin.answers["/admin/keys"] = (200, json.dumps({"keys": keys}).encode())
        self.assertEqual(self.run_cli("keys", "list")[1], "name  disabled\na     no\nb     yes\n")
        out = self.run_cli("keys", "list", "--format", "csv")[1]
        self.assertIn(",tpm,allowed_ips,endpoints,expires_at,disabled,", out.splitlines()[0])

    def test_show(self) -> None:
        """A member a line, or the answer as it came."""
        answer = (
            b'{"name":"app","rpm":5,"models":["a","b"],"budget_usd":0.10,"tpm":0,"blocked":null}'
        )
        FakeAdmin.answers["/admin/keys/app"] = (200, answer)
        status, out, _ = self.run_cli("keys", "show", "app")
        lines = dict(line.split() for line in out.splitlines()[1:])
        wanted = {"name": "app", "rpm": "5", "models": "a,b", "budget_usd": "0.10", "tpm": "0"}
        self.assertEqual((status, lines), (0, wanted))
        self.assertEqual(self.run_cli("keys", "show", "app", "--json")[1].encode(), answer + b"\n")

    def test_limits(self) -> None:
        """Each goes into the body as the admin API calls it."""
        FakeAdmin.answers["/admin/keys"] = (201, b'{"secret": "s"}')
        self.run_cli(
            *("keys", "create", "app", "--tpm", "9", "--endpoints", "chat, models"),
            *("--allowed-ips", "10.0.0.0/8,::1", "--expires-at", "2027-01-31T00:00:00Z"),
        )
        self.assertEqual(
            json.loads(FakeAdmin.asked[0][3]),
            {
                "name": "app",
                "tpm": 9,
                "endpoints": ["chat", "models"],
                "allowed_ips": ["10.0.0.0/8", "::1"],
                "expires_at": "2027-01-31T00:00:00Z",
            },
        )

    def test_change(self) -> None:
        """What is given is changed, what is unset becomes null, and the rest is not named."""
        FakeAdmin.answers["/admin/keys/app"] = (200, b'{"name":"app"}')
        status, out, err = self.run_cli(
            *("keys", "change", "app", "--rpm", "0", "--unset", "budget-usd, models")
        )
        self.assertEqual((status, out, err), (0, "", "changed app\n"))
        self.assertEqual(FakeAdmin.asked[0][:2], ("PATCH", "/admin/keys/app"))
        self.assertEqual(
            json.loads(FakeAdmin.asked[0][3]), {"rpm": 0, "budget_usd": None, "models": None}
        )
        self.assertEqual(
            self.run_cli("keys", "change", "app", "--rpm", "1", "--json")[1], '{"name":"app"}\n'
        )

    def test_no_change(self) -> None:
        """Wrong arguments are status 2, and nothing is asked."""
        for arguments, words in (
            ((), "nothing is to be changed"),
            (("--unset", "name"), "--unset takes rpm, tpm, max-concurrent,"),
            (("--unset", ","), "nothing is to be changed"),
            (("--rpm", "5", "--unset", "rpm"), "--unset rpm too"),
            (("--rpm", "-1"), "no whole number"),
        ):
            status, _, err = self.run_cli("keys", "change", "app", *arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn(words, err)
        self.assertEqual(FakeAdmin.asked, [])

    def test_rotate(self) -> None:
        """The new secret stands alone, and beside it until when the old ones work."""
        answer = {"secret": "ogk_new", "old_secrets_until": "2027-01-31T00:00:00.000Z"}
        FakeAdmin.answers["/admin/keys/app/rotate"] = (200, json.dumps(answer).encode())
        status, out, err = self.run_cli("keys", "rotate", "app", "--grace", "24h")
        self.assertEqual((status, out), (0, "ogk_new\n"))
        self.assertIn("shown once", err)
        self.assertIn("work until 2027-01-31T00:00:00.000Z", err)
        self.assertEqual(json.loads(FakeAdmin.asked[0][3]), {"grace_s": 86_400})
        answer["old_secrets_until"] = ""
        FakeAdmin.answers["/admin/keys/app/rotate"] = (
            200,
            b'{"secret":"s","old_secrets_until":null}',
        )
        _, out, err = self.run_cli("keys", "rotate", "app")
        self.assertEqual((out, "work until" in err), ("s\n", False))
        self.assertEqual(json.loads(FakeAdmin.asked[1][3]), {"grace_s": 0})
        out = self.run_cli("keys", "rotate", "app", "--json")[1]
        self.assertEqual(json.loads(out)["secret"], "s")

    def test_webhook_secret(self) -> None:
        """The same of what signs webhooks; the one before signs for a day, or none does."""
        path = "/admin/keys/app/webhook-secret"
        answer = {"secret": "whsec_n", "old_webhook_secrets_until": "2027-01-31T00:00:00.000Z"}
        FakeAdmin.answers[path] = (200, json.dumps(answer).encode())
        status, out, err = self.run_cli("keys", "webhook-secret", "app")
        self.assertEqual((status, out), (0, "whsec_n\n"))
        self.assertNotIn("hash", err)
        self.assertIn("work until 2027-01-31T00:00:00.000Z", err)
        self.run_cli("keys", "webhook-secret", "app", "--grace", "0")
        status, out, err = self.run_cli("keys", "webhook-secret", "app", "--delete")
        self.assertEqual((status, out, "not signed" in err), (0, "", True))
        asked = [(method, body) for method, _, _, body in FakeAdmin.asked]
        self.assertEqual([method for method, _ in asked], ["POST", "POST", "DELETE"])
        self.assertEqual([json.loads(body)["grace_s"] for _, body in asked[:2]], [86_400, 0])

    def test_lengths_of_time(self) -> None:
        for text, seconds in (("0", 0), ("90", 90), ("90s", 90), ("15m", 900), ("7d", 604_800)):
            self.assertEqual(duration(text), seconds)
        for text in ("", "m", "-1", "1.5h", "1w", "1 h", "٣", "1" * 10):
            status, _, err = self.run_cli("keys", "rotate", "app", f"--grace={text}")
            self.assertEqual(status, 2)
            self.assertIn("no length of time", err)

    def test_disable_and_enable(self) -> None:
        FakeAdmin.answers["/admin/keys/app"] = (200, b"{}")
        for word, disabled in (("disable", True), ("enable", False)):
            status, _, err = self.run_cli("keys", word, "app")
            self.assertEqual((status, err), (0, f"{word}d app\n"))
            self.assertEqual(json.loads(FakeAdmin.asked[-1][3]), {"disabled": disabled})

    def test_what_the_control_plane_refuses(self) -> None:
        """Its words are told, with status 1."""
        problem = {"code": "conflict", "detail": 'the key "app" is disabled; enable it'}
        FakeAdmin.answers["/admin/keys/app/rotate"] = (409, json.dumps(problem).encode())
        status, out, err = self.run_cli("keys", "rotate", "app")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("enable it", err)


class AdminKeyTests(CliCase):
    """omnigate admin-keys."""

    def test_list(self) -> None:
        row = {"name": "ann", "scope": "full", "disabled": False, "allowed_ips": None}
        FakeAdmin.answers["/admin/admin-keys"] = (200, json.dumps({"keys": [row]}).encode())
        status, out, _ = self.run_cli("admin-keys", "list")
        self.assertEqual((status, out), (0, "name  scope  disabled\nann   full   no\n"))

    def test_create(self) -> None:
        """Whoever makes one says what it may do."""
        FakeAdmin.answers["/admin/admin-keys"] = (201, b'{"secret": "oga_x"}')
        status, out, err = self.run_cli(
            *("admin-keys", "create", "ann", "--scope", "read_only", "--allowed-ips", "::1"),
        )
        self.assertEqual((status, out), (0, "oga_x\n"))
        self.assertIn("OMNIGATE_ADMIN_TOKEN", err)
        self.assertEqual(
            json.loads(FakeAdmin.asked[0][3]),
            {"name": "ann", "scope": "read_only", "allowed_ips": ["::1"]},
        )
        self.assertEqual(self.run_cli("admin-keys", "create", "ann")[0], 2)

    def test_change_rotate_and_delete(self) -> None:
        FakeAdmin.answers["/admin/admin-keys/ann"] = (200, b"{}")
        FakeAdmin.answers["/admin/admin-keys/ann/rotate"] = (200, b'{"secret": "oga_y"}')
        self.run_cli("admin-keys", "change", "ann", "--disable", "--unset", "expires-at")
        self.run_cli("admin-keys", "change", "ann", "--enable", "--scope", "full")
        self.assertEqual(self.run_cli("admin-keys", "rotate", "ann", "--grace", "1h")[1], "oga_y\n")
        self.assertEqual(self.run_cli("admin-keys", "delete", "ann")[0], 0)
        self.assertEqual(
            [
                (method, json.loads(body) if body else None)
                for method, _, _, body in FakeAdmin.asked
            ],
            [
                ("PATCH", {"disabled": True, "expires_at": None}),
                ("PATCH", {"disabled": False, "scope": "full"}),
                ("POST", {"grace_s": 3600}),
                ("DELETE", None),
            ],
        )
        self.assertEqual(self.run_cli("admin-keys", "change", "ann")[0], 2)
        self.assertEqual(self.run_cli("admin-keys", "change", "ann", "--enable", "--disable")[0], 2)

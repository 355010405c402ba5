"""Admin keys: what opens, until when, and that the file always says the same."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.control.admin_key import AdminKey
from omnigate.control.admin_key_file import ADMIN_KEYS_FILE, AdminKeysFileError
from omnigate.control.admin_key_members import changed
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.key_secret import is_well_formed, new_secret, sha256_hex
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339
from omnigate.testing.writer import SynchronousWriter

NOW_MS = 1_795_982_400_000
HERE = "192.0.2.7"


def to(body: object) -> Callable[[AdminKey], AdminKey]:
    """Return what makes a change of a body."""
    return lambda key: changed(key, body)


class StoreCase(SynchronousTestCase):
    """A store in a folder of the test, at a time of the test."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.path = os.path.join(self.folder, "admin_keys.json")
        self.writer = SynchronousWriter()
        self.now_ms = NOW_MS
        self.witnessed: list[AdminKey] = []
        self.store = self.load()

    def load(self) -> AdminKeyStore:
        store = AdminKeyStore(self.path, self.writer, lambda: self.now_ms)
        self.successResultOf(Deferred.fromCoroutine(store.open()))
        return store

    async def witness(self, key: AdminKey) -> None:
        self.witnessed.append(key)

    def create(self, **body: Any) -> tuple[AdminKey, str]:
        body = {"scope": "full", **body}
        return self.successResultOf(Deferred.fromCoroutine(self.store.create(body, self.witness)))

    def refused(self, coroutine: Any) -> str:
        failure = self.failureResultOf(Deferred.fromCoroutine(coroutine), GatewayError)
        code: str = failure.value.kind.code
        return code

    def opens(self, secret: str, address: str = HERE) -> str | None:
        """What a secret leads to: None, or why it does not open its key, or ''."""
        found = self.store.find(secret, address)
        return None if found is None else found[1]


class FindTests(StoreCase):
    """What opens a key, and what does not."""

    def test_form(self) -> None:
        """The prefix tells the kind, the check tells a mistyped secret."""
        key, secret = self.create(name="ops")
        self.assertRegex(secret, r"^oga_[0-9A-Za-z]{49}$")
        self.assertEqual(self.store.find(secret, HERE), (key, ""))
        for wrong in (
            "",
            "oga_",
            secret[:-1],
            secret + "0",
            secret[:-1] + ("0" if secret[-1] != "0" else "1"),
            "ogk_" + secret[4:],
            new_secret(),
            new_secret(prefix="oga_"),
            secret.replace(secret[10], "é", 1),
        ):
            self.assertIsNone(self.store.find(wrong, HERE), wrong)

    @settings(max_examples=100, deadline=None)
    @given(st.integers(4, 52), st.sampled_from("09azAZ_-. é"))
    def test_one_changed_character_is_seen(self, place: int, char: str) -> None:
        """Without a look-up."""
        secret = new_secret(lambda size: b"\x17" * size, prefix="oga_")
        changed = secret[:place] + char + secret[place + 1 :]
        self.assertEqual(is_well_formed(changed, "oga_"), changed == secret)

    def test_why_it_is_closed(self) -> None:
        """Disabled, expired at the millisecond, from another network."""
        _, secret = self.create(
            name="ops",
            expires_at=rfc3339(NOW_MS + 1000),
            allowed_ips=["192.0.2.0/24", "2001:db8::/32"],
        )
        self.assertEqual(self.opens(secret), "")
        self.assertEqual(self.opens(secret, "::ffff:192.0.2.9"), "")
        self.assertEqual(self.opens(secret, "2001:db8::1%eth0"), "")
        for address in ("192.0.3.1", "2001:db9::1", "", "unix", "x"):
            self.assertEqual(self.opens(secret, address), "address", address)
        self.now_ms += 999
        self.assertEqual(self.opens(secret), "")
        self.now_ms += 1
        self.assertEqual(self.opens(secret), "expired")
        self.successResultOf(
            Deferred.fromCoroutine(self.store.change("ops", to({"disabled": True})))
        )
        self.assertEqual(self.opens(secret), "disabled")

    def test_not_loaded(self) -> None:
        """Before they are read nobody is told that his key is wrong."""
        store = AdminKeyStore(self.path, self.writer, lambda: self.now_ms)
        error = self.assertRaises(GatewayError, store.find, new_secret(prefix="oga_"), HERE)
        self.assertEqual(error.kind.code, "not_ready")
        self.assertIsNone(store.find("anything", HERE))


class ChangeTests(StoreCase):
    """Changes, and those that fail."""

    def test_members(self) -> None:
        """Every fault is told with its member."""
        for body, param in (
            ({}, "name"),
            ({"name": "a"}, "scope"),
            ({"name": "a", "scope": "root"}, "scope"),
            ({"name": "a", "scope": None}, "scope"),
            ({"name": "a/b", "scope": "full"}, "name"),
            ({"name": "a", "scope": "full", "disabled": 1}, "disabled"),
            ({"name": "a", "scope": "full", "expires_at": "tomorrow"}, "expires_at"),
            ({"name": "a", "scope": "full", "expires_at": "2027-01-01T00:00:00"}, "expires_at"),
            ({"name": "a", "scope": "full", "allowed_ips": []}, "allowed_ips"),
            ({"name": "a", "scope": "full", "allowed_ips": ["10.0.0.1/8"]}, "allowed_ips"),
            ({"name": "a", "scope": "full", "allowed_ips": ["10.0.0.1"] * 65}, "allowed_ips"),
            ({"name": "a", "scope": "full", "rpm": 1}, "rpm"),
            ([], None),
        ):
            failure = self.failureResultOf(
                Deferred.fromCoroutine(self.store.create(body, self.witness)), GatewayError
            )
            self.assertEqual(
                (failure.value.kind.code, failure.value.param), ("invalid_request", param), body
            )
        self.assertEqual((self.witnessed, os.listdir(self.folder)), ([], []))

    def test_change(self) -> None:
        """What is given is replaced, null takes it away, what is not given stays."""
        self.create(name="ops", allowed_ips=["10.0.0.0/8"], expires_at=rfc3339(NOW_MS + 1))
        for body, then in (
            ({"scope": "read_only"}, {"scope": "read_only"}),
            ({"allowed_ips": None}, {"allowed_ips": None}),
            ({"disabled": True}, {"disabled": True}),
            ({"disabled": None, "expires_at": None}, {"disabled": False, "expires_ms": 0}),
        ):
            before = self.store.get("ops")
            assert before is not None
            after = self.successResultOf(Deferred.fromCoroutine(self.store.change("ops", to(body))))
            self.assertEqual(after, attrs.evolve(before, **then))
            self.assertEqual(self.load().get("ops"), after)
        for body, param in (
            ({"scope": None}, "scope"),
            ({"name": "x"}, "name"),
            ({"colour": None}, "colour"),
        ):
            failure = self.failureResultOf(
                Deferred.fromCoroutine(self.store.change("ops", to(body))),
                GatewayError,
            )
            self.assertEqual(failure.value.param, param)

    def test_a_change_of_nothing_is_nothing(self) -> None:
        """It is neither witnessed nor written."""
        self.create(name="ops")
        written = os.stat(self.path).st_ino
        self.successResultOf(
            Deferred.fromCoroutine(self.store.change("ops", to({"scope": "full"}), self.witness))
        )
        self.assertEqual((len(self.witnessed), os.stat(self.path).st_ino), (1, written))

    def test_refused_changes(self) -> None:
        """Codes of what cannot be."""
        self.create(name="ops")
        self.create(name="old", expires_at=rfc3339(NOW_MS - 1))
        self.create(name="off", disabled=True)
        witnessed = len(self.witnessed)
        body = {"name": "ops", "scope": "full"}
        store, witness = self.store, self.witness
        self.assertEqual(self.refused(store.create(body, witness)), "already_exists")
        self.assertEqual(self.refused(store.change("x", to({}), witness)), "not_found")
        self.assertEqual(self.refused(store.delete("x", witness)), "not_found")
        self.assertEqual(self.refused(store.rotate("x", 0, witness)), "not_found")
        self.assertEqual(self.refused(store.rotate("old", 0, witness)), "conflict")
        self.assertEqual(self.refused(store.rotate("off", 0, witness)), "conflict")
        self.patch(AdminKeyStore, "most", 3)
        body = {"name": "new", "scope": "full"}
        self.assertEqual(self.refused(store.create(body, witness)), "conflict")
        self.assertEqual(len(self.witnessed), witnessed)

    def test_a_bound_of_secrets(self) -> None:
        """So many in their grace and no more; a grace of nothing ends them all."""
        _, secret = self.create(name="ops")
        secrets = [secret]
        for _ in range(MAX_EARLIER_SECRETS):
            _, secret = self.successResultOf(Deferred.fromCoroutine(self.store.rotate("ops", 3600)))
            secrets.append(secret)
        self.assertEqual([self.opens(secret) for secret in secrets], [""] * len(secrets))
        self.assertEqual(self.refused(self.store.rotate("ops", 3600)), "conflict")
        _, last = self.successResultOf(Deferred.fromCoroutine(self.store.rotate("ops", 0)))
        self.assertEqual({self.opens(secret) for secret in secrets}, {None})
        self.assertEqual(self.opens(last), "")

    def test_a_later_rotation_gives_no_secret_more_time(self) -> None:
        """A shorter grace shortens those of before, a longer one does not lengthen them."""
        _, first = self.create(name="ops")
        for grace, until in ((3600, 3600), (60, 60), (7200, 60)):
            self.successResultOf(Deferred.fromCoroutine(self.store.rotate("ops", grace)))
            self.now_ms = NOW_MS + until * 1000 - 1
            self.assertEqual(self.opens(first), "", grace)
            self.now_ms = NOW_MS
        self.now_ms = NOW_MS + 60_000
        self.assertIsNone(self.opens(first))

    def test_a_witness_that_raises(self) -> None:
        """What cannot be told is not done."""

        async def mute(key: AdminKey) -> None:
            raise GatewayError("storage_unavailable", "no line")

        _, secret = self.create(name="ops")
        before = self.bytes()
        for coroutine in (
            self.store.create({"name": "b", "scope": "full"}, mute),
            self.store.change("ops", to({"disabled": True}), mute),
            self.store.rotate("ops", 0, mute),
            self.store.delete("ops", mute),
        ):
            self.assertEqual(self.refused(coroutine), "storage_unavailable")
        self.assertEqual((self.bytes(), self.opens(secret)), (before, ""))

    def bytes(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read()

    def test_a_disk_that_refuses(self) -> None:
        """Nothing changes, in memory or on the disk, and the next change works."""
        _, secret = self.create(name="ops")
        submit = self.writer.submit
        self.writer.submit = lambda job: fail(OSError(28, "No space left"))  # type: ignore[method-assign]
        self.assertEqual(self.refused(self.store.delete("ops")), "storage_unavailable")
        self.assertEqual(self.opens(secret), "")
        self.writer.submit = submit  # type: ignore[method-assign]
        self.successResultOf(Deferred.fromCoroutine(self.store.delete("ops")))
        self.assertIsNone(self.opens(secret))
        self.assertEqual(len(self.load()), 0)

    def test_what_no_disk_says(self) -> None:
        """The store says that it has crashed."""
        told: list[str] = []
        store = AdminKeyStore(
            self.path,
            self.writer,
            lambda: self.now_ms,
            crashed=lambda name, failure: told.append(name),
        )
        store.load()
        self.writer.submit = lambda job: fail(ZeroDivisionError())  # type: ignore[method-assign]
        body = {"name": "a", "scope": "full"}
        self.failureResultOf(Deferred.fromCoroutine(store.create(body)), ZeroDivisionError)
        self.assertEqual((told, len(store)), (["admin keys"], 0))

    def test_closed(self) -> None:
        """A store that was let go of writes nothing more."""
        self.store.abandon()
        body = {"name": "a", "scope": "full"}
        self.assertEqual(self.refused(self.store.create(body)), "storage_unavailable")
        self.assertEqual(os.listdir(self.folder), [])


class StoryTests(StoreCase):
    """Whatever happens, exactly the right secrets open, also after a start."""

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 2**32))
    def test_stories(self, seed: int) -> None:
        """Thirty steps each, against a plain list of secrets."""
        self.setUp()
        dice = random.Random(seed)
        #: secret → name, and the moment from which on it opens nothing.
        secrets: dict[str, tuple[str, float]] = {}
        for _ in range(30):
            name = dice.choice("abc")
            step = dice.choice(["create", "rotate", "rotate", "delete", "wait", "restart"])
            grace = dice.choice([0, 0, 60, 3600])
            exists = self.store.get(name) is not None
            if step == "create" and not exists:
                secrets[self.create(name=name)[1]] = name, float("inf")
            elif step == "rotate" and exists:
                live = [
                    s for s, (of, until) in secrets.items() if of == name and until > self.now_ms
                ]
                if grace and len(live) > MAX_EARLIER_SECRETS:
                    self.assertEqual(self.refused(self.store.rotate(name, grace)), "conflict")
                    continue
                until = self.now_ms + grace * 1000
                for secret in live:
                    secrets[secret] = name, min(secrets[secret][1], until)
                _, made = self.successResultOf(
                    Deferred.fromCoroutine(self.store.rotate(name, grace))
                )
                secrets[made] = name, float("inf")
            elif step == "delete" and exists:
                self.successResultOf(Deferred.fromCoroutine(self.store.delete(name)))
                secrets = {s: told for s, told in secrets.items() if told[0] != name}
            elif step == "wait":
                self.now_ms += dice.choice([1, 59_999, 60_000, 3_600_000])
            elif step == "restart":
                self.store = self.load()
            for secret, (_, ends) in secrets.items():
                self.assertEqual(self.opens(secret), "" if self.now_ms < ends else None)
        self.assertEqual(set(self.load()), set(self.store))


class FileTests(SynchronousTestCase):
    """The bytes of the file."""

    ROW: dict[str, Any] = {
        "name": "ops",
        "sha256": "ab" * 32,
        "scope": "full",
        "created_ms": 1,
        "earlier": [{"sha256": "cd" * 32, "until_ms": 5}],
    }

    def decode(self, document: object) -> dict[str, AdminKey]:
        return ADMIN_KEYS_FILE.decode("/state/admin_keys.json", json.dumps(document).encode())

    def test_there_and_back(self) -> None:
        """What is written is what was read; what has no effect is left out."""
        keys = self.decode({"version": 1, "keys": [self.ROW]})
        data = ADMIN_KEYS_FILE.encode(keys.values())
        self.assertEqual(json.loads(data), {"version": 1, "keys": [self.ROW]})
        self.assertEqual(ADMIN_KEYS_FILE.decode("x", data), keys)

    def test_what_is_refused(self) -> None:
        """Each with the path and a remedy; nothing is guessed."""
        row = self.ROW
        documents: tuple[Any, ...] = (
            [],
            {},
            {"version": 2, "keys": []},
            {"version": True, "keys": []},
            {"version": 0, "keys": []},
            {"version": "1", "keys": []},
            {"version": 1, "keys": {}},
            {"version": 1, "keys": [], "more": 1},
            {"version": 1, "keys": [1]},
            {"version": 1, "keys": [row, {**row, "sha256": "ef" * 32, "earlier": row["earlier"]}]},
            {"version": 1, "keys": [row, {**row, "name": "b"}]},
            {"version": 1, "keys": [{**row, "sha256": sha256_hex("x")[:-1]}]},
            {"version": 1, "keys": [{**row, "scope": "root"}]},
            {"version": 1, "keys": [{**row, "expires_at": "2027-01-01T00:00:00Z"}]},
            {"version": 1, "keys": [{**row, "earlier": []}]},
            {"version": 1, "keys": [{**row, "earlier": [{"sha256": "cd" * 32}]}]},
            {"version": 1, "keys": [{**row, "earlier": row["earlier"] * 2}]},
        )
        for document in documents:
            error = self.assertRaises(AdminKeysFileError, self.decode, document)
            self.assertIn("/state/admin_keys.json: ", str(error))
            self.assertIn("; ", str(error))

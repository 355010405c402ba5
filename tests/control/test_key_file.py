"""The versions of the key file, and files that are not what was written."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from omnigate.control.key_change import changed
from omnigate.control.key_file import KeysFileError
from tests.control.test_keys import StoreCase

RECIPIENT = "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"


class VersionTests(StoreCase):
    """What the file says of itself."""

    def document(self) -> Any:
        with open(self.path, "rb") as file:
            return json.loads(file.read())

    def version(self) -> int:
        return int(self.document()["version"])

    def test_older_programs_read_what_they_can_hold(self) -> None:
        """A file is of version 1 again as soon as nothing in it needs more."""
        self.successResultOf(self.create(name="plain", rpm=1))
        self.assertEqual(self.version(), 1)
        newer: tuple[tuple[int, dict[str, Any]], ...] = (
            (2, {"tpm": 1}),
            (2, {"allowed_ips": ["10.0.0.0/8"]}),
            (2, {"endpoints": ["chat"]}),
            (2, {"expires_at": "2027-01-31T00:00:00Z"}),
            (2, {"disabled": True}),
            (3, {"max_open_jobs": 5}),
            (3, {"max_jobs_per_day": 7}),
            (3, {"age_recipients": [RECIPIENT]}),
        )
        for version, body in newer:
            self.successResultOf(self.create(name="more", **body))
            self.assertEqual(self.version(), version)
            self.assertEqual(list(self.load()), list(self.store))
            (member,) = body
            bare = partial(changed, body={member: None})
            changing = self.store.change("more", bare)
            self.successResultOf(Deferred.fromCoroutine(changing))
            self.assertEqual(self.version(), 1)
            self.successResultOf(Deferred.fromCoroutine(self.store.delete("more")))
        self.successResultOf(Deferred.fromCoroutine(self.store.rotate("plain", 60)))
        self.assertEqual(self.version(), 2)
        self.assertEqual(list(self.load()), list(self.store))

    def test_webhook_secrets(self) -> None:
        """They stand in the file as they are, with when the earlier ones stop; an end takes all."""
        self.successResultOf(self.create(name="plain"))
        made = []
        for _ in range(2):
            renewing = self.store.renew_webhook_secret("plain", 60)
            made.append(self.successResultOf(Deferred.fromCoroutine(renewing))[1])
        self.assertEqual(self.version(), 3)
        (row,) = self.document()["keys"]
        until_ms = self.store.now_ms() + 60_000
        self.assertEqual(
            row["webhook_secrets"],
            [{"secret": made[1]}, {"secret": made[0], "until_ms": until_ms}],
        )
        self.assertEqual(list(self.load()), list(self.store))
        dropping = self.store.delete_webhook_secret("plain")
        self.successResultOf(Deferred.fromCoroutine(dropping))
        self.assertEqual(self.version(), 1)

    def test_webhook_secrets_that_never_were(self) -> None:
        good, other = f"whsec_{'QUJD' * 11}", f"whsec_{'REVG' * 11}"
        for secrets in (
            [],
            [{"secret": "whsec_QUJD"}],
            [{"secret": good, "until_ms": 5}],
            [{"secret": good}, {"secret": other}],
            [{"secret": good}, *[{"secret": other, "until_ms": 5}] * 3],
            [{"until_ms": 5}],
            [{"secret": good, "more": 1}],
        ):
            row = {"name": "a", "sha256": "0" * 64, "created_ms": 1, "webhook_secrets": secrets}
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump({"version": 3, "keys": [row]}, file)
            words = str(self.assertRaises(KeysFileError, self.load))
            self.assertIn("keys[0]: ", words)
            self.assertNotIn(good, words)

    def test_members_that_a_version_does_not_have(self) -> None:
        """They are refused: another program wrote them, or a person."""
        row = b'{"name":"a","sha256":"%s","created_ms":1,"tpm":1}' % (b"0" * 64)
        with open(self.path, "wb") as file:
            file.write(b'{"version":1,"keys":[%s]}' % row)
        words = str(self.assertRaises(KeysFileError, self.load))
        self.assertIn('keys[0]: "', words)
        self.assertIn("no such member", words)


class DamageTests(StoreCase):
    """A file that is not what was written."""

    def refused(self, data: bytes) -> str:
        with open(self.path, "wb") as file:
            file.write(data)
        error = self.assertRaises(KeysFileError, self.load)
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), data)
        return str(error)

    def test_every_cut(self) -> None:
        """A file cut anywhere is refused with its name, and left as it is."""
        self.successResultOf(self.create(name="a", budget_usd=1))
        self.successResultOf(self.create(name="b"))
        with open(self.path, "rb") as file:
            whole = file.read()
        for length in range(len(whole) - 1):
            self.assertIn(self.path, self.refused(whole[:length]))

    def test_newer_format(self) -> None:
        """A file of a later version is told apart from a damaged one."""
        self.assertIn("start the newer version", self.refused(b'{"version":4,"keys":{}}'))

    def test_other_contents(self) -> None:
        """JSON that is no key file is refused."""
        row = b'{"name":"a","sha256":"%s","created_ms":1}' % (b"0" * 64)
        for data in (
            b"[]",
            b"{}",
            b'{"version":1}',
            b'{"version":1,"keys":{}}',
            b'{"version":1,"keys":[],"more":1}',
            b'{"version":1,"keys":[1]}',
            b'{"version":1,"keys":[{"name":"a"}]}',
            b'{"version":1,"keys":[%s,%s]}' % (row, row),
            b'{"version":1,"keys":[%s,%s]}' % (row, row.replace(b'"a"', b'"b"')),
            b'{"version":1,"keys":[%s]}' % row.replace(b"created_ms", b"webhook_secret"),
        ):
            self.refused(data)

    def test_rotations_that_never_were(self) -> None:
        """Secrets that do not belong together are refused, and two keys with one secret."""
        first, other, third = (b'"%b"' % (digit * 64) for digit in (b"1", b"2", b"3"))
        row = b'{"name":"a","sha256":%b,"created_ms":1' % first
        twin = b'{"name":"b","sha256":%b,"created_ms":1}' % other
        rotated = b'%b,"secret_sha256":%b,"rotated_ms":5' % (row, other)
        earlier = b'"earlier":[{"sha256":%b,"until_ms":9}]'
        for rows in (
            b'%b,"secret_sha256":%b}' % (row, other),
            b'%b,"rotated_ms":5}' % row,
            b"%b,%b}" % (row, earlier % other),
            b"%b,%b}" % (rotated, earlier % other),
            b'%b,"earlier":[]}' % rotated,
            b'%b,"earlier":[{"sha256":%b}]}' % (rotated, first),
            b'%b,"earlier":[{"sha256":%b,"until_ms":0}]}' % (rotated, first),
            b'%b,"earlier":[%b]}' % (rotated, b",".join([b'{"sha256":"x"}'] * 9)),
            b"%b},%b" % (rotated, twin),
            b"%b,%b},%b" % (rotated.replace(other, third), earlier % other, twin),
            b'%b,"expires_ms":0}' % row,
            b'%b,"expires_at":"2027-01-31T00:00:00Z"}' % row,
            b'%b,"allowed_ips":["10.0.0.1/8"]}' % row,
        ):
            self.refused(b'{"version":2,"keys":[%b]}' % rows)
        with open(self.path, "wb") as file:
            file.write(b'{"version":2,"keys":[%b,%b}]}' % (rotated, earlier % first))
        (key,) = self.load()
        self.assertEqual((key.earlier[0].until_ms, key.rotated_ms), (9, 5))

    def test_unreadable(self) -> None:
        """A path that is no file names itself."""
        os.mkdir(self.path)
        self.assertIn(self.path, str(self.assertRaises(KeysFileError, self.load)))

"""Whole lives of managed keys: any changes, on a disk that tears, fills and refuses.

At every moment of a clock the secrets that were ever made open what a plain model says they do, as
data planes read it out of the snapshot.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.config.schema import Config
from omnigate.config.snapshot import decode_snapshot
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import changed
from omnigate.control.key_secret import sha256_hex
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.snapshots import Snapshots
from omnigate.control.whole_file import FileInDoubtError
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.control.test_snapshots import Spent

T = TypeVar("T")

FOLDER = "/state"
START_MS = 1_795_982_400_000
NAMES = ("a", "b", "c")
GRACES = (0, 1, 60, 3600)

#: What may befall the disk in the middle of a change: nothing, one refusal, or the end of all.
mishaps = st.sampled_from(
    ["", "", "", "open", "write", "fsync", "replace", "folder", "full", "end"]
)


places = st.integers(0, 2)


@attrs.frozen
class Facts:
    """What the model knows of a key.

    :ivar secrets: those that were told to somebody or not, each with when it stops; None for never.
    """

    secrets: dict[str, int | None]
    first: str
    disabled: bool = False
    expires_ms: int = 0
    tpm: int = 0


Model = dict[str, Facts]


class RefusedError(Exception):
    """A line of the audit log could not be written."""


def outcome(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what came of a coroutine that waits for nothing."""
    results: list[T | Failure] = []
    Deferred.fromCoroutine(coroutine).addBoth(results.append)
    (result,) = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


class Disk(MemoryDisk):
    """A disk whose folder may not be synced, once.

    :ivar refuses_folder: whether the next sync of the folder fails.
    """

    refuses_folder = False

    def fsync(self, fd: int) -> None:
        """Sync a file, or the names of a folder."""
        if self.refuses_folder and not self._any(fd).number:
            self.refuses_folder = False
            raise OSError(errno.EIO, "the folder could not be synced")
        super().fsync(fd)


class Lives(RuleBasedStateMachine):
    """Keys, their disk and a clock."""

    install: Callable[[MemoryDisk], None]

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.disk = Disk(FOLDER)
        self.install(self.disk)
        self.issued: list[str] = []
        self.model: Model = {}
        # What a start may find: the model, and what was refused but may stand there all the same.
        self.found: list[Model] = [{}]
        self.witnessed: list[GatewayKey] = []
        self.start()

    def start(self) -> None:
        """Start a control plane."""
        self.writer = SynchronousWriter()
        self.store = KeyStore(
            f"{FOLDER}/keys.json", self.writer, lambda: self.now_ms, self.make_secret, self.crashed
        )
        outcome(self.store.open())
        book = KeyBook(self.store)
        watch = BudgetWatch(book, Spent(), lambda: self.now_ms)
        self.snapshots = Snapshots(Config, watch, self.writer, self.pause)

    def crashed(self, name: str, failure: Failure) -> None:
        """No disk makes the store give up but one that leaves it in doubt."""
        assert isinstance(failure.value, FileInDoubtError), f"{name}: {failure}"

    async def pause(self) -> None:
        """Let the reactor go on, which there is none of here."""

    def make_secret(self) -> str:
        """Make secrets that are told apart when a test fails."""
        secret = f"secret-{len(self.issued)}"
        self.issued.append(secret)
        return secret

    # -- the model ----------------------------------------------------------------------------

    def shown(self, store: KeyStore) -> Model:
        """Return what a store holds in the model's words; graces that are over are no matter."""
        by_hash = {sha256_hex(secret): secret for secret in self.issued}
        return {
            key.name: Facts(
                secrets={
                    **{by_hash[e.sha256]: e.until_ms for e in key.in_grace(self.now_ms)},
                    by_hash[key.secret_sha256]: None,
                },
                first=by_hash[key.sha256],
                disabled=key.disabled,
                expires_ms=key.expires_ms,
                tpm=key.tpm,
            )
            for key in store
        }

    def living(self, model: Model) -> Model:
        """Return a model without the secrets that have stopped."""
        return {
            name: attrs.evolve(
                facts,
                secrets={
                    s: end for s, end in facts.secrets.items() if end is None or end > self.now_ms
                },
            )
            for name, facts in model.items()
        }

    def attempt(
        self,
        change: Callable[[Any], Coroutine[Any, Any, T]],
        expected: Callable[[T], Model],
        mishap: str,
        refuse: bool,
    ) -> None:
        """Have a change made that the model permits, whatever becomes of it."""
        files_before = self.disk.contents()
        before = list(self.store)
        told: list[GatewayKey] = []

        async def witness(key: GatewayKey) -> None:
            # What is told of is not yet done.
            assert list(self.store) == before and self.disk.contents() == files_before
            if refuse:
                raise RefusedError
            told.append(key)
            self.hurt(mishap)

        count = len(self.issued)
        try:
            result = outcome(change(witness))
        except RefusedError:
            assert list(self.store) == before and self.disk.contents() == files_before
        except GatewayError as error:
            assert error.kind.code == "storage_unavailable" and mishap, error
            assert list(self.store) == before
            # The file is as it was, unless the disk would not have even that.
            if mishap != "end":
                assert self.reread() == self.living(self.model)
            self.found.append(self.wanted(told[0], count))
        except FileInDoubtError:
            # Such a store is thrown away, as after the end that the disk has come to.
            assert mishap == "end" and list(self.store) == before
            self.found.append(self.wanted(told[0], count))
        else:
            self.model = expected(result)
            # Where there was nothing to change, nothing was written, and older files may come back.
            self.found = [self.model] if told else [self.model, *self.found]
            assert self.shown(self.store) == self.living(self.model)
        if mishap == "end":
            self.disk.kill()
            self.restart()
        self.disk.heal()
        self.disk.refuses_folder = False

    def hurt(self, mishap: str) -> None:
        """Let something befall the disk."""
        if mishap == "full":
            self.disk.free_bytes[FOLDER] = 40
        elif mishap == "end":
            self.disk.calls_left[FOLDER] = self.random.randrange(6)
        elif mishap == "folder":
            self.disk.refuses_folder = True
        elif mishap:
            self.disk.fail(mishap, 1)

    def wanted(self, key: GatewayKey, count: int) -> Model:
        """Return the model as a change would have left it that was refused."""
        twin = KeyStore("unused", self.writer, lambda: self.now_ms)
        gone = key in list(self.store) and len(self.issued) == count
        rows = {k.name: k for k in self.store}
        rows[key.name] = key
        if gone:
            del rows[key.name]
        twin._begin_with(rows, {}, 0)
        return self.shown(twin)

    def reread(self) -> Model:
        """Return what a start would find now."""
        store = KeyStore(f"{FOLDER}/keys.json", self.writer, lambda: self.now_ms)
        store.load()
        return self.shown(store)

    def restart(self) -> None:
        """Start anew on what is there; it is one of the states that may be."""
        self.start()
        shown = self.shown(self.store)
        self.model = next(model for model in self.found if self.living(model) == shown)

    # -- what may happen ----------------------------------------------------------------------

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        """Take one of all disks."""
        self.random = Random(seed)

    @precondition(lambda self: len(self.model) < len(NAMES))
    @rule(tpm=st.sampled_from([0, 60]), mishap=mishaps)
    def create(self, tpm: int, mishap: str) -> None:
        """Make a key whose name is free."""
        name = next(name for name in NAMES if name not in self.model)
        body = {"name": name} | ({"tpm": tpm} if tpm else {})
        self.attempt(
            lambda witness: self.store.create(body, lambda _: False, witness),
            lambda made: {**self.model, name: Facts({made[1]: None}, made[1], tpm=tpm)},
            mishap,
            False,
        )

    @precondition(lambda self: self.model)
    @rule(
        which=places,
        grace_s=st.sampled_from(GRACES),
        mishap=mishaps,
        refuse=st.sampled_from([False, False, False, True]),
    )
    def rotate(self, which: int, grace_s: int, mishap: str, refuse: bool) -> None:
        """Rotate a key, or find that it cannot be."""
        name, facts = self.picked(which)
        expired = 0 < facts.expires_ms <= self.now_ms
        if facts.disabled or expired or (grace_s and len(facts.secrets) > 8):
            self.refused(self.store.rotate(name, grace_s), "conflict")
            return
        until_ms = self.now_ms + grace_s * 1000
        ends = {
            secret: until_ms if end is None else min(end, until_ms)
            for secret, end in facts.secrets.items()
        }
        self.attempt(
            lambda witness: self.store.rotate(name, grace_s, witness),
            lambda made: {
                **self.model,
                name: attrs.evolve(facts, secrets={**ends, made[1]: None}),
            },
            mishap,
            refuse,
        )

    @precondition(lambda self: self.model)
    @rule(
        which=places,
        disabled=st.sampled_from([None, False, False, True]),
        left_s=st.sampled_from([None, -1, 30, 86_400]),
        mishap=mishaps,
        refuse=st.sampled_from([False, False, False, True]),
    )
    def change(
        self, which: int, disabled: bool | None, left_s: int | None, mishap: str, refuse: bool
    ) -> None:
        """Disable or enable a key, and let it expire at another moment or never."""
        expires_ms = 0 if left_s is None else self.now_ms + left_s * 1000
        body = {
            "disabled": disabled,
            "expires_at": rfc3339(expires_ms) if expires_ms else None,
        }
        name, facts = self.picked(which)
        wanted = attrs.evolve(facts, disabled=bool(disabled), expires_ms=expires_ms)
        self.attempt(
            lambda witness: self.store.change(name, lambda key: changed(key, body), witness),
            lambda _: {**self.model, name: wanted},
            "" if wanted == facts else mishap,
            refuse and wanted != facts,
        )

    @precondition(lambda self: len(self.model) > 1)
    @rule(which=places, mishap=mishaps, refuse=st.sampled_from([False, False, True]))
    def delete(self, which: int, mishap: str, refuse: bool) -> None:
        """Take a key away."""
        name, _ = self.picked(which)
        self.attempt(
            lambda witness: self.store.delete(name, witness),
            lambda _: {n: facts for n, facts in self.model.items() if n != name},
            mishap,
            refuse,
        )

    def picked(self, which: int) -> tuple[str, Facts]:
        """Return the name of one of the keys there are, and what is known of it now."""
        return sorted(self.living(self.model).items())[which % len(self.model)]

    @rule(which=places)
    def be_refused(self, which: int) -> None:
        """Ask for what cannot be."""
        missing = f"none-{which}"
        self.refused(self.store.rotate(missing, 0), "not_found")
        self.refused(self.store.delete(missing), "not_found")
        self.refused(self.store.change(missing, lambda key: key), "not_found")
        for name in self.model:
            self.refused(self.store.create({"name": name}, lambda _: False), "already_exists")

    def refused(self, change: Coroutine[Any, Any, object], code: str) -> None:
        """Have something refused that changes nothing."""
        before = self.disk.contents()
        try:
            outcome(change)
        except GatewayError as error:
            assert error.kind.code == code, error
        else:
            raise AssertionError(code)
        assert self.disk.contents() == before

    @rule(seconds=st.sampled_from([0.001, 0.999, 1, 29, 30, 59, 60, 3599, 86_400]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += int(seconds * 1000)

    @precondition(lambda self: self.model or len(self.found) > 1)
    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        """Kill the control plane, or take its power."""
        if power:
            self.disk.crash(rng=self.random)
        else:
            self.disk.kill()
        self.restart()
        # What was found is there for good only once it is written again.
        self.found = [self.model, *self.found]

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def every_hash_has_its_owner(self) -> None:
        """What the store knows by hash is what its keys have."""
        owners = {digest: key for key in self.store for digest in key.own_hashes}
        for secret in self.issued:
            digest = sha256_hex(secret)
            assert self.store.owner(digest) is owners.get(digest)

    @invariant()
    def secrets_open_what_they_should(self) -> None:
        """Read the snapshot as a data plane does, now and at the moments at which anything ends."""
        snapshot = decode_snapshot(outcome(self.snapshots.current()).data)
        ends = {
            end
            for facts in self.model.values()
            for end in (*facts.secrets.values(), facts.expires_ms)
            if end and end > self.now_ms
        }
        for moment in sorted({self.now_ms, *ends, *(end - 1 for end in ends)}):
            opened: dict[str, tuple[str, str]] = {}
            for key in snapshot.keys:
                if 0 < key.expires_ms <= moment:
                    continue
                secrets = [(key.sha256, 0)]
                if key.secrets is not None:
                    secrets = [(secret.sha256, secret.until_ms) for secret in key.secrets]
                for sha256, until_ms in secrets:
                    if not 0 < until_ms <= moment:
                        opened[sha256] = key.name, key.sha256
            expected = {
                sha256_hex(secret): (name, sha256_hex(facts.first))
                for name, facts in self.model.items()
                if not facts.disabled and not 0 < facts.expires_ms <= moment
                for secret, end in facts.secrets.items()
                if end is None or end > moment
            }
            assert opened == expected, (moment, opened, expected)


class LifeTests(SynchronousTestCase):
    """Lives."""

    def test_any_life(self) -> None:
        """Whatever is done and whatever befalls the disk, each secret opens its key and no more."""

        def install(disk: MemoryDisk) -> None:
            self.patch(files, "os", disk)
            self.patch(files, "fcntl", disk)

        class Here(Lives):
            pass

        Here.install = staticmethod(install)
        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=100,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

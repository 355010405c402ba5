"""Tests for the keys of the file made ready for use."""

from __future__ import annotations

import hashlib

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import resolve_file_keys
from omnigate.config.schema import Config, load_config
from omnigate.control.keys import made_keys
from omnigate.settings import SettingsError

SECRET = "a-key-of-the-file-0123"


def config_with(*keys: str) -> Config:
    return load_config("keys = [" + ",".join(f"{{{key}}}" for key in keys) + "]")


class ResolveTests(SynchronousTestCase):
    """Hashes pass through, variables are looked up, and no secret is kept."""

    def test_hashes_and_variables(self) -> None:
        config = config_with(
            f'name = "a", key_sha256 = "{"AB" * 32}"', 'name = "b", key_env = "B", rpm = 3'
        )
        keys, faults = resolve_file_keys(config, {"B": SECRET}.get)
        self.assertEqual(faults, [])
        self.assertEqual(
            [(key.sha256, key.config.name, key.config.rpm) for key in keys],
            [("ab" * 32, "a", 0), (hashlib.sha256(SECRET.encode()).hexdigest(), "b", 3)],
        )
        self.assertNotIn(SECRET, repr(keys))

    def test_every_fault_at_once_and_no_secret_in_it(self) -> None:
        environ = {"C": "too-short", "D": "with a space in it", "E": "é" * 20, "F": "x" * 257}
        config = config_with(*(f'name = "{name}", key_env = "{name}"' for name in "BCDEF"))
        keys, faults = resolve_file_keys(config, environ.get)
        self.assertEqual(keys, [])
        self.assertEqual(
            [fault.path for fault in faults], [f"keys[{index}].key_env" for index in range(5)]
        )
        self.assertIn("B is not set", faults[0].message)
        for fault in faults:
            for secret in environ.values():
                self.assertNotIn(secret, str(fault))

    def test_webhook_secrets(self) -> None:
        """They are looked up and judged with the keys; none stands in a fault or in a record."""
        good = "whsec_" + "QUJD" * 8
        environ = {
            "GOOD": good,
            "BARE": "QUJD" * 8,
            "SHORT": "whsec_" + "QUJD" * 7,
            "LONG": "whsec_" + "QUJD" * 22,
            "NONE": "whsec_!" + "QUJD" * 8,
        }
        row = 'name = "{0}", key_sha256 = "{1}", webhook_secret_env = "{0}"'
        names = (*environ, "UNSET")
        config = config_with(
            *(row.format(name, f"{number:064x}") for number, name in enumerate(names))
        )
        keys, faults = resolve_file_keys(config, environ.get)
        self.assertEqual([(key.config.name, key.webhook_secret) for key in keys], [("GOOD", good)])
        self.assertNotIn(good, repr(keys))
        self.assertEqual(
            [str(fault).partition(":")[0] for fault in faults],
            [f'keys[{n}].webhook_secret_env ("{names[n]}")' for n in range(1, len(names))],
        )
        self.assertIn("UNSET is not set", faults[-1].message)
        self.assertIn("stands for 21 bytes; it must be 24 to 64", faults[1].message)
        for fault in faults:
            self.assertNotIn("QUJDQUJD", str(fault))
        (made,) = made_keys(keys, ())
        self.assertEqual(made.webhook_secrets(0), (good,))

    def test_the_bounds_of_a_key(self) -> None:
        config = config_with('name = "a", key_env = "A"', 'name = "b", key_env = "B"')
        keys, faults = resolve_file_keys(config, {"A": "!" * 16, "B": "~" * 256}.get)
        self.assertEqual((len(keys), faults), (2, []))

    def test_two_keys_with_one_secret(self) -> None:
        sha256 = hashlib.sha256(SECRET.encode()).hexdigest()
        config = config_with(
            'name = "a", key_env = "A"',
            'name = "b", key_env = "B"',
            f'name = "c", key_sha256 = "{sha256}"',
        )
        keys, faults = resolve_file_keys(config, {"A": SECRET, "B": SECRET}.get)
        self.assertEqual([key.config.name for key in keys], ["a"])
        self.assertEqual(
            [str(fault) for fault in faults],
            [
                'keys[1].key_env ("b"): is the same secret as that of keys[0]',
                'keys[2].key_sha256 ("c"): is the same secret as that of keys[0]',
            ],
        )

    def test_a_file_that_cannot_be_read_is_a_fault_of_its_key(self) -> None:
        def lookup(name: str) -> str | None:
            raise SettingsError([f"{name}_FILE: cannot be read"])

        keys, faults = resolve_file_keys(config_with('name = "a", key_env = "A"'), lookup)
        self.assertEqual(keys, [])
        self.assertEqual(str(faults[0]), 'keys[0].key_env ("a"): A_FILE: cannot be read')

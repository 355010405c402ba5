"""Settings out of environment and options, with every fault at once."""

import os
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.client_address import TrustedProxies
from omnigate.settings import (
    MAX_SECRET_BYTES,
    ControlSettings,
    DataSettings,
    SettingsError,
    provider_key,
    read_control_settings,
    read_data_settings,
)
from omnigate.settings_table import SETTINGS

INTERNAL = "internal-token-0123456789"
ADMIN = "admin-token-0123456789"
DATA_ENV = {"OMNIGATE_INTERNAL_TOKEN": INTERNAL}
CONTROL_ENV = {"OMNIGATE_INTERNAL_TOKEN": INTERNAL, "OMNIGATE_ADMIN_TOKEN": ADMIN}


def data(options: dict[str, str | None] | None = None, **environ: str) -> DataSettings:
    """Return the data plane's settings for variables beside the token."""
    return read_data_settings({**DATA_ENV, **environ}, options)[0]


class DefaultTests(SynchronousTestCase):
    def test_data_plane(self) -> None:
        """With a token alone the data plane has the documented defaults."""
        values, warnings = read_data_settings(DATA_ENV, {})
        self.assertEqual(
            attrs.asdict(values, recurse=False),
            {
                "listen": "tcp:8080",
                "metrics_listen": "",
                "workers": 1,
                "control_url": "http://127.0.0.1:8081",
                "state_dir": "/var/lib/omnigate",
                "trusted_proxies": TrustedProxies(),
                "internal_token": INTERNAL,
                "spool": "/var/lib/omnigate/omnigate-usage.spool",
                "config_cache": "/var/lib/omnigate/omnigate-config.cache.json",
                "poll_ms": 2000,
                "flush_ms": 1000,
                "max_connections": 10000,
                "client_timeout_ms": 30000,
                "client_stall_timeout_ms": 30000,
                "stream_idle_timeout_ms": 300000,
                "abort_drain_ms": 120000,
                "abort_drain_max_mb": 64,
                "max_concurrent_per_key": 512,
                "request_memory_mb": 1024,
                "parse_memory_mb": 1024,
                "max_request_mb": 8,
                "heartbeat_ms": 15000,
                "debug_headers": True,
                "shutdown_grace_ms": 30000,
                "access_log": "-",
            },
        )
        self.assertEqual(warnings, [])

    def test_control_plane(self) -> None:
        """With two tokens the control plane has the documented defaults."""
        values, warnings = read_control_settings(CONTROL_ENV, {})
        self.assertEqual(
            attrs.asdict(values, recurse=False),
            {
                "listen": "tcp:8081:interface=127.0.0.1",
                "data_url": "http://127.0.0.1:8080",
                "config": "/etc/omnigate/omnigate.toml",
                "state_dir": "/var/lib/omnigate",
                "trusted_proxies": TrustedProxies(),
                "internal_token": INTERNAL,
                "admin_token": ADMIN,
                "ledger": "/var/lib/omnigate/ledger.jsonl",
                "keys": "/var/lib/omnigate/keys.json",
                "admin_keys": "/var/lib/omnigate/admin_keys.json",
                "config_history": "/var/lib/omnigate/config_history.json",
                "audit": "/var/lib/omnigate/audit.jsonl",
                "audit_max_mb": 50,
                "jobs": "/var/lib/omnigate/jobs.jsonl",
                "media_dir": "/var/lib/omnigate/media",
                "receipts": "/var/lib/omnigate/receipts.json",
            },
        )
        self.assertEqual(warnings, [])


class TableTests(SynchronousTestCase):
    def test_every_row_is_a_field_and_every_field_a_row(self) -> None:
        """The table and the records cannot drift apart."""
        for plane, record in (("data", DataSettings), ("control", ControlSettings)):
            rows = [setting.field for setting in SETTINGS if plane in setting.planes]
            self.assertEqual(sorted(rows), sorted(field.name for field in attrs.fields(record)))

    def test_defaults_pass_their_own_checks(self) -> None:
        """A default that is written out changes nothing."""
        environ = {s.name: s.default for s in SETTINGS if s.default is not None}
        self.assertEqual(
            read_data_settings({**environ, **DATA_ENV})[0], read_data_settings(DATA_ENV)[0]
        )
        self.assertEqual(
            read_control_settings({**environ, **CONTROL_ENV})[0],
            read_control_settings(CONTROL_ENV)[0],
        )

    def test_secrets_are_not_shown(self) -> None:
        """The repr of a record, which may end up in a log, holds no token."""
        for record in (read_data_settings(DATA_ENV)[0], read_control_settings(CONTROL_ENV)[0]):
            self.assertNotIn(INTERNAL, repr(record))
            self.assertNotIn(ADMIN, repr(record))


class PrecedenceTests(SynchronousTestCase):
    def test_an_option_wins_over_the_variable(self) -> None:
        """What is written on the command line is nearer than the environment."""
        values = data(
            {"listen": "tcp:9000", "control-url": "http://c:1/", "state_dir": "/s"},
            OMNIGATE_DATA_LISTEN="tcp:9001",
            OMNIGATE_CONTROL_URL="http://d:1",
            OMNIGATE_STATE_DIR="/t",
        )
        self.assertEqual(values.listen, "tcp:9000")
        self.assertEqual(values.control_url, "http://c:1")
        self.assertEqual(values.spool, "/s/omnigate-usage.spool")

    def test_options_not_given_and_foreign_ones_are_passed_over(self) -> None:
        """An option without a value leaves the variable in force."""
        options = {"listen": None, "version": "x", "internal-token": "y" * 20}
        values = data(options, OMNIGATE_DATA_LISTEN="tcp:9001")
        self.assertEqual(values.listen, "tcp:9001")
        self.assertEqual(values.internal_token, INTERNAL)

    def test_the_config_option(self) -> None:
        """The control plane's file can be named on the command line."""
        values, _ = read_control_settings(CONTROL_ENV, {"config": "here.toml", "listen": "unix:/x"})
        self.assertEqual((values.config, values.listen), (os.path.abspath("here.toml"), "unix:/x"))

    def test_paths_are_absolute(self) -> None:
        """What was found where the daemon was started is found there after it moved, too."""
        values = data(OMNIGATE_STATE_DIR="run/data", OMNIGATE_SPOOL="s", OMNIGATE_ACCESS_LOG="log")
        self.assertEqual(values.state_dir, os.path.abspath("run/data"))
        self.assertEqual(values.spool, os.path.abspath("s"))
        self.assertEqual(
            values.config_cache, os.path.abspath("run/data/omnigate-config.cache.json")
        )
        self.assertEqual(values.access_log, os.path.abspath("log"))
        for word in ("-", "off"):
            self.assertEqual(data(OMNIGATE_ACCESS_LOG=word).access_log, word)

    def test_the_state_folder_of_systemd(self) -> None:
        """STATE_DIRECTORY serves where nothing nearer is set; of a list, its first."""
        values = data(STATE_DIRECTORY="/var/lib/one:/var/lib/two")
        self.assertEqual(values.state_dir, "/var/lib/one")
        self.assertEqual(data(STATE_DIRECTORY="/x", OMNIGATE_STATE_DIR="/y").state_dir, "/y")

    def test_a_file_of_its_own_name_wins_over_the_folder(self) -> None:
        """Each file can be moved away from the state folder."""
        values = data(OMNIGATE_SPOOL="/fast/spool", OMNIGATE_STATE_DIR="/s")
        self.assertEqual(values.spool, "/fast/spool")
        self.assertEqual(values.config_cache, "/s/omnigate-config.cache.json")

    def test_empty_variables_count_as_absent(self) -> None:
        """A line without a value in an environment file leaves the default in force."""
        self.assertEqual(data(OMNIGATE_POLL_MS="", OMNIGATE_INTERNAL_TOKEN_FILE="").poll_ms, 2000)


class FaultTests(SynchronousTestCase):
    def faults(self, *, control: bool = False, **environ: str) -> list[str]:
        """Return the faults of a plane's environment, sound tokens given."""
        if control:
            error = self.assertRaises(
                SettingsError, read_control_settings, {**CONTROL_ENV, **environ}
            )
        else:
            error = self.assertRaises(SettingsError, read_data_settings, {**DATA_ENV, **environ})
        self.assertEqual(str(error), "\n".join(error.faults))
        for fault in error.faults:
            self.assertEqual(len(fault.splitlines()), 1)
        faults: list[str] = error.faults
        return faults

    def test_all_faults_come_at_once(self) -> None:
        """Seven mistakes are seven lines, each with its variable, the value and the remedy."""
        faults = self.faults(
            OMNIGATE_INTERNAL_TOKEN="",
            OMNIGATE_DATA_LISTEN="8080",
            OMNIGATE_CONTROL_URL="localhost:8081",
            OMNIGATE_POLL_MS="2s",
            OMNIGATE_MAX_REQUEST_MB="65",
            OMNIGATE_DEBUG_HEADERS="yes",
            OMNIGATE_CLIENT_TIMEOUT_MS="0",
        )
        self.assertEqual(
            faults,
            [
                'OMNIGATE_DATA_LISTEN: "8080" is no Twisted endpoint string; '
                "write it like tcp:8080 or tcp:8080:interface=127.0.0.1",
                'OMNIGATE_CONTROL_URL: "localhost:8081" is no http or https URL; '
                "give an address like http://127.0.0.1:8081",
                "OMNIGATE_INTERNAL_TOKEN: is not set; give it a secret of at least 16 characters, "
                "or OMNIGATE_INTERNAL_TOKEN_FILE the path of one",
                'OMNIGATE_POLL_MS: "2s" is no whole number; give milliseconds from 50 to 3600000',
                'OMNIGATE_CLIENT_TIMEOUT_MS: "0" is out of range; '
                "give milliseconds from 100 to 3600000",
                'OMNIGATE_MAX_REQUEST_MB: "65" is out of range; give megabytes from 1 to 64',
                'OMNIGATE_DEBUG_HEADERS: "yes" is neither 0 nor 1; '
                "give 1 to switch it on, 0 to switch it off",
            ],
        )

    def test_a_fault_of_an_option_names_the_option(self) -> None:
        """The line points at what was typed."""
        error = self.assertRaises(
            SettingsError, read_data_settings, DATA_ENV, {"listen": "tcp:70000"}
        )
        self.assertEqual(
            error.faults,
            ['--listen: "tcp:70000" has no port from 0 to 65535; write it like tcp:8080'],
        )

    def test_numbers_are_plain_digits(self) -> None:
        """Signs, spaces and foreign digits are refused; zero is off where it may be."""
        for bad in ("+5", " 5000", "5_000", "-1", "1e3", "٣٠٠٠", "9" * 40, "5000\n"):
            self.assertEqual(len(self.faults(OMNIGATE_HEARTBEAT_MS=bad)), 1, bad)
        self.assertEqual(data(OMNIGATE_HEARTBEAT_MS="0").heartbeat_ms, 0)
        self.assertIn("or 0 to switch it off", self.faults(OMNIGATE_HEARTBEAT_MS="5")[0])

    def test_listeners(self) -> None:
        """Endpoint strings of every kind pass; ports that are none do not."""
        for good in (
            "tcp:0",
            "tcp:port=80:interface=::1",
            "unix:/run/x",
            "systemd:domain=INET:name=public",
        ):
            self.assertEqual(data(OMNIGATE_DATA_LISTEN=good).listen, good)
        for bad in ("tcp:", "tcp:http", "tcp:65536", "tcp", ":8080", "0.0.0.0:8080"):
            self.assertEqual(len(self.faults(OMNIGATE_DATA_LISTEN=bad)), 1, bad)

    def test_addresses_of_the_control_plane(self) -> None:
        """A scheme, a host, a port and a path; nothing that would go into a request by accident."""
        for good in (
            "http://10.0.0.5:8081",
            "https://control.example.net/omnigate",
            "http://[::1]:8081",
        ):
            self.assertEqual(data(OMNIGATE_CONTROL_URL=good).control_url, good)
        for bad in (
            "ftp://x",
            "http://",
            "http://u:p@h",
            "http://h?x=1",
            "http://h#x",
            "http://h:99999",
            "http://h:x",
            "http://h/a b",
            "http://h/ä",
            "http://[::1",
            "http://h\r\nx: y",
        ):
            self.assertEqual(len(self.faults(OMNIGATE_CONTROL_URL=bad)), 1, bad)

    def test_bad_tokens_are_refused_and_never_quoted(self) -> None:
        """A short token, or one that no header can carry, is a fault; its text is not told."""
        for bad in (
            "short-tok",
            "with a space in it 12345",
            "line-end-0123456789\n",
            "ünicode-0123456789",
        ):
            faults = self.faults(control=True, OMNIGATE_ADMIN_TOKEN=bad)
            self.assertEqual(len(faults), 1)
            self.assertTrue(faults[0].startswith("OMNIGATE_ADMIN_TOKEN: "))
            self.assertNotIn(bad.strip(), faults[0])

    def test_operators_and_planes_do_not_share_a_secret(self) -> None:
        """One token for both would make every data plane an operator."""
        faults = self.faults(control=True, OMNIGATE_ADMIN_TOKEN=INTERNAL)
        self.assertEqual(len(faults), 1)
        self.assertNotIn(INTERNAL, faults[0])

    @settings(max_examples=100, deadline=None)
    @given(
        st.dictionaries(
            st.sampled_from(
                [s.name for s in SETTINGS] + ["OMNIGATE_X", "OMNIGATE_ADMIN_TOKEN_FILE"]
            ),
            st.text(st.characters(exclude_characters="\0"), max_size=30),
        )
    )
    def test_any_environment_is_settings_or_faults(self, environ: dict[str, str]) -> None:
        """No value makes anything else of it, and every line stays one line."""
        readers: list[Any] = [read_data_settings, read_control_settings]
        for read in readers:
            try:
                _, lines = read(environ, {})
            except SettingsError as error:
                lines = error.faults
                self.assertTrue(lines)
            for line in lines:
                self.assertEqual(len(line.splitlines()), 1)


class WarningTests(SynchronousTestCase):
    def test_unknown_names_are_warnings_with_a_suggestion(self) -> None:
        """A misspelt variable is told, with the one that was probably meant."""
        environ = {
            **DATA_ENV,
            "OMNIGATE_POLLMS": "1",
            "OMNIGATE_INTERNAL_TOKEN_FIL": "",
            "OMNIGATE_ZZZZ": "1",
            "PATH": "/bin",
        }
        _, warnings = read_data_settings(environ)
        self.assertEqual(
            warnings,
            [
                "OMNIGATE_INTERNAL_TOKEN_FIL: there is no such setting; "
                "did you mean OMNIGATE_INTERNAL_TOKEN_FILE?",
                "OMNIGATE_POLLMS: there is no such setting; did you mean OMNIGATE_POLL_MS?",
                "OMNIGATE_ZZZZ: there is no such setting; it changes nothing",
            ],
        )

    def test_names_of_the_other_plane_are_known(self) -> None:
        """Both planes may share one environment file."""
        environ = {**CONTROL_ENV, "OMNIGATE_POLL_MS": "junk", "OMNIGATE_KEY_APP": "x"}
        self.assertEqual(read_control_settings(environ)[1], [])

    def test_too_little_memory_for_one_request(self) -> None:
        """A limit under which the largest body can never be admitted is told."""
        environ = {**DATA_ENV, "OMNIGATE_REQUEST_MEMORY_MB": "63"}
        _, warnings = read_data_settings(environ)
        self.assertEqual(len(warnings), 1)
        self.assertIn("give at least 64", warnings[0])
        environ["OMNIGATE_REQUEST_MEMORY_MB"] = "64"
        self.assertEqual(read_data_settings(environ)[1], [])


class SecretFileTests(SynchronousTestCase):
    def written(self, content: bytes, name: str = "secret") -> str:
        """Return the path of a file that holds ``content``."""
        folder = self.mktemp()
        os.makedirs(folder)
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_a_file_gives_the_secret(self) -> None:
        """One closing line end is not part of the secret."""
        for content in (INTERNAL.encode(), INTERNAL.encode() + b"\n", INTERNAL.encode() + b"\r\n"):
            environ = {"OMNIGATE_INTERNAL_TOKEN_FILE": self.written(content)}
            self.assertEqual(read_data_settings(environ)[0].internal_token, INTERNAL)

    def test_two_line_ends_are_a_fault(self) -> None:
        """A secret with a line end in it could not be sent."""
        environ = {"OMNIGATE_INTERNAL_TOKEN_FILE": self.written(INTERNAL.encode() + b"\n\n")}
        error = self.assertRaises(SettingsError, read_data_settings, environ)
        self.assertIn("OMNIGATE_INTERNAL_TOKEN_FILE: holds a space", error.faults[0])

    def test_both_at_once_are_a_fault(self) -> None:
        """Which of two secrets holds is not guessed."""
        environ = {**DATA_ENV, "OMNIGATE_INTERNAL_TOKEN_FILE": self.written(b"x" * 20)}
        error = self.assertRaises(SettingsError, read_data_settings, environ)
        self.assertIn("not both", error.faults[0])

    def test_a_file_that_cannot_be_read_is_named(self) -> None:
        """The line holds the path and the reason."""
        missing = os.path.join(self.mktemp(), "nowhere")
        for path in (missing, "bad\0name", os.getcwd()):
            environ = {"OMNIGATE_INTERNAL_TOKEN_FILE": path}
            error = self.assertRaises(SettingsError, read_data_settings, environ)
            self.assertIn("OMNIGATE_INTERNAL_TOKEN_FILE: ", error.faults[0])
            self.assertIn("cannot be read", error.faults[0])

    def test_a_file_of_any_size_is_read_in_part_only(self) -> None:
        """A path that leads to a log by mistake fills no memory, and its content is not told."""
        path = self.written(b"x" * (MAX_SECRET_BYTES + 1))
        error = self.assertRaises(
            SettingsError, read_data_settings, {"OMNIGATE_INTERNAL_TOKEN_FILE": path}
        )
        self.assertIn("holds more than", error.faults[0])
        self.assertNotIn("xxxx", error.faults[0])

    def test_the_folder_of_credentials(self) -> None:
        """systemd's LoadCredential= serves where nothing nearer is set."""
        path = self.written(INTERNAL.encode(), "omnigate_internal_token")
        folder = os.path.dirname(path)
        values, _ = read_data_settings({"CREDENTIALS_DIRECTORY": folder})
        self.assertEqual(values.internal_token, INTERNAL)
        nearer = {"CREDENTIALS_DIRECTORY": folder, "OMNIGATE_INTERNAL_TOKEN": "y" * 20}
        self.assertEqual(read_data_settings(nearer)[0].internal_token, "y" * 20)

    def test_provider_keys(self) -> None:
        """A provider's key comes from its variable, its file or the folder of credentials."""
        path = self.written(b"sk-1\n", "openai_api_key")
        self.assertEqual(provider_key({"OPENAI_API_KEY": "sk-2"}, "OPENAI_API_KEY"), "sk-2")
        self.assertEqual(provider_key({"OPENAI_API_KEY_FILE": path}, "OPENAI_API_KEY"), "sk-1")
        folder = {"CREDENTIALS_DIRECTORY": os.path.dirname(path)}
        self.assertEqual(provider_key(folder, "OPENAI_API_KEY"), "sk-1")
        self.assertIsNone(provider_key(folder, "OTHER_KEY"))
        self.assertIsNone(provider_key({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY"))

    def test_a_provider_key_that_no_header_can_carry(self) -> None:
        """A key with a line end in it would write a header of its own; it is refused unseen."""
        error = self.assertRaises(SettingsError, provider_key, {"K": "sk-1\r\nx-evil: 1"}, "K")
        self.assertTrue(error.faults[0].startswith("K: holds a space"))
        self.assertNotIn("sk-1", str(error))

    def test_a_name_does_not_lead_out_of_the_folder(self) -> None:
        """A name in a config is a variable's, not a path."""
        path = self.written(b"sk-1", "secret")
        folder = os.path.join(os.path.dirname(path), "sub")
        os.makedirs(folder)
        self.assertIsNone(provider_key({"CREDENTIALS_DIRECTORY": folder}, "../SECRET"))

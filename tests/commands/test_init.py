"""Tests for omnigate init: what is found, what is written, and what is never overwritten."""

import contextlib
import errno
import io
import json
import os
import re
import socket
import stat
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import cli
from omnigate.commands import init_files
from omnigate.commands.first_config import config_text, env_value, models_of
from omnigate.commands.media_providers import (
    MEDIA_MODELS,
    find_media,
    media_credentials,
    media_text,
)
from omnigate.commands.plane_environ import read_env
from omnigate.commands.providers import PROVIDERS, AskError, find_upstreams, ollama_url
from omnigate.config.prices import built_in_price
from omnigate.config.schema import load_config
from omnigate.control.key_secret import sha256_hex
from omnigate.demo_children import free_ports
from omnigate.files import replace_file
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.settings import read_control_settings, read_data_settings

OPENAI, ANTHROPIC = "sk-of-the-tests-000000", "sk-ant-of-the-tests-000"


#: An input that each adapter takes for the model that is written.
INPUTS = {
    "replicate": {"prompt": "waves"},
    "fal": {"prompt": "waves"},
    "elevenlabs": {"text": "waves", "voice_id": "v1"},
    "xai_video": {"prompt": "waves"},
    "gemini": {"prompt": "waves"},
}


def no_server(url: str, protocol: str, secret: str | None) -> list[str]:
    """Nobody answers."""
    raise AskError(f"{url} is silent")


class ModelList(BaseHTTPRequestHandler):
    """A server that tells its models, or something else."""

    content: ClassVar[bytes] = b""
    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        """One answer."""
        self.asked.append((self.path, self.headers.get("authorization")))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class ProviderTests(SynchronousTestCase):
    """What the environment has."""

    def test_every_model_has_a_price(self) -> None:
        """A first bill of $0 would be a lie."""
        for provider in PROVIDERS:
            for model in (provider.fast, provider.smart, *provider.others):
                self.assertIsNotNone(built_in_price(model), model)

    def test_every_provider_makes_a_good_config(self) -> None:
        """Each alone and all together, with nothing to be asked."""
        every = {provider.variables[0]: f"{OPENAI}-{provider.name}" for provider in PROVIDERS}
        for environ in (*({name: text} for name, text in every.items()), every, {}):
            found, notes = find_upstreams(environ, no_server)
            self.assertEqual((len(found), notes), (len(environ), []))
            config = load_config(config_text(found, sha256_hex("x")))
            self.assertEqual([key.name for key in config.keys], ["app"])
            self.assertEqual({upstream.api_key_env for upstream in config.upstreams}, set(environ))
            fast = [route for route in config.routes if route.model in ("fast", "smart")]
            self.assertEqual([len(route.targets) for route in fast], [len(environ)] * len(fast))
            self.assertEqual(bool(fast), bool(environ))

    def test_media(self) -> None:
        """Each credential of a media provider alone and all together, with text and without."""
        every = {media.variable: f"{OPENAI}-{media.adapter}" for media in MEDIA_MODELS}
        text, _ = find_upstreams({**every, "OPENAI_API_KEY": OPENAI}, no_server)
        for environ in (*({name: secret} for name, secret in every.items()), every, {}):
            found, notes = find_media(environ)
            self.assertEqual((len(found), notes), (len(environ), []))
            self.assertEqual(media_credentials(found), environ)
            for upstreams in ([], text):
                written = config_text(upstreams, sha256_hex("x")) + media_text(found)
                config = load_config(written)
                targets = [route.targets[0] for route in config.media.routes]
                self.assertEqual({target.api_key_env for target in targets}, set(environ))
                self.assertEqual(models_of(written), list(config.routes_by_model))
                for target in targets:
                    ADAPTERS[target.adapter].check(target.model, {**INPUTS[target.adapter]})

    def test_a_credential_of_media_in_a_file(self) -> None:
        """The control plane is told the file; one that cannot be read is told, and left out."""
        Path("media").write_text("id:secret\n")
        self.addCleanup(os.unlink, "media")
        (found,), _ = find_media({"FAL_KEY_FILE": "media"})
        self.assertEqual(media_credentials([found]), {"FAL_KEY_FILE": os.path.abspath("media")})
        none, notes = find_media({"FAL_KEY_FILE": "/no/such"})
        self.assertEqual(none, [])
        self.assertIn("flux-dev is left out: FAL_KEY_FILE", notes[0])

    def test_a_credential_in_a_file(self) -> None:
        """The data plane is told the file, and nobody the credential."""
        Path("credential").write_text(OPENAI + "\n")
        self.addCleanup(os.unlink, "credential")
        (found,), notes = find_upstreams({"OPENAI_API_KEY_FILE": "credential"}, no_server)
        self.assertEqual((found.file, found.credential), (os.path.abspath("credential"), None))
        found_none, notes = find_upstreams({"OPENAI_API_KEY_FILE": "/no/such"}, no_server)
        self.assertEqual(found_none, [])
        self.assertIn("openai is left out: OPENAI_API_KEY_FILE", notes[0])

    def test_a_server_of_ones_own(self) -> None:
        """It is asked for its models; one that does not answer is left out, and that is told."""
        asked = []

        def ask(url: str, protocol: str, secret: str | None) -> list[str]:
            asked.append((url, protocol, secret))
            return ["llama-4", "not a model", "qwen3:8b"]

        environ = {
            "OPENAI_API_KEY": OPENAI,
            "OPENAI_BASE_URL": "http://10.0.0.1:8000/v1/",
            "ANTHROPIC_API_KEY": ANTHROPIC,
            "ANTHROPIC_BASE_URL": "http://10.0.0.2/proxy",
            "OLLAMA_HOST": "0.0.0.0",
        }
        found, notes = find_upstreams(environ, ask)
        self.assertEqual(notes, [])
        self.assertEqual(
            asked,
            [
                ("http://10.0.0.1:8000/v1", "openai", OPENAI),
                ("http://10.0.0.2/proxy/v1", "anthropic", ANTHROPIC),
                ("http://127.0.0.1:11434/v1", "openai", None),
            ],
        )
        config = load_config(config_text(found, sha256_hex("x")))
        self.assertEqual([len(route.targets) for route in config.routes], [3, 3, 3, 3])
        none, notes = find_upstreams(environ, no_server)
        self.assertEqual((none, len(notes)), ([], 3))
        self.assertIn("OPENAI_BASE_URL: http://10.0.0.1:8000/v1 is silent", notes[0])

    def test_a_providers_own_address(self) -> None:
        """A variable that leads where all go changes nothing."""
        environ = {"OPENAI_API_KEY": OPENAI, "OPENAI_BASE_URL": "https://api.openai.com/v1/"}
        self.assertEqual(len(find_upstreams(environ, no_server)[0]), 1)

    def test_passwords_of_an_address(self) -> None:
        """None is repeated, whatever is wrong with the address."""
        for text in ("https://user:secret@a.example/v1", "https://user:secret@", "user:secret@"):
            environ = {
                "OPENAI_API_KEY": OPENAI,
                "ANTHROPIC_API_KEY": ANTHROPIC,
                **dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"), text),
            }
            found, notes = find_upstreams(environ, no_server)
            self.assertEqual((found, len(notes)), ([], 3))
            self.assertNotIn("secret", str(notes))
            self.assertIn("[redacted]@", notes[0])

    def test_no_address(self) -> None:
        """What is none is told, with what to write."""
        for text in ("http://", "[::1", ":99999"):
            self.assertRaises(AskError, ollama_url, text)
        self.assertEqual(ollama_url("[::1]:9"), "http://[::1]:9/v1")
        self.assertEqual(ollama_url("https://a.example"), "https://a.example:11434/v1")


class InitTests(SynchronousTestCase):
    """omnigate init."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()

    def run_init(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """Run it; its status and both outputs."""
        self.patch(os, "environ", environ)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(("init", "--dir", str(self.folder), *arguments))
        return status, out.getvalue(), err.getvalue()

    def text(self, name: str) -> str:
        """A file that was written."""
        return (self.folder / name).read_text()

    def settings_of(self, plane: str) -> dict[str, str]:
        """What a shell makes of an environment file, and that we read it alike."""
        path = self.folder / f"{plane}.env"
        run = subprocess.run(
            ["/bin/sh", "-c", f"set -a; . '{path}'; env -0"], env={}, capture_output=True, text=True
        )
        pairs = (pair.split("=", 1) for pair in run.stdout.split("\0") if pair)
        told = {name: value for name, value in pairs if name not in ("PWD", "_", "SHLVL")}
        self.assertEqual(read_env(path.read_text()), told)
        return told

    def test_files(self) -> None:
        """Both planes take their settings from them; nobody else may read them."""
        status, out, err = self.run_init(OPENAI_API_KEY=OPENAI, ANTHROPIC_API_KEY="a $b'c" * 3)
        self.assertEqual((status, err.count("\n")), (0, 1), err)
        self.assertIn("anthropic is left out: ANTHROPIC_API_KEY: holds a space", err)
        control, _ = read_control_settings(self.settings_of("control"))
        data, _ = read_data_settings(self.settings_of("data"))
        self.assertEqual(control.internal_token, data.internal_token)
        self.assertIn(control.admin_token, out)
        self.assertEqual(control.config, str(self.folder / "omnigate.toml"))
        self.assertEqual(data.metrics_listen, "tcp:9464:interface=127.0.0.1")
        self.assertEqual(self.settings_of("data")["OPENAI_API_KEY"], OPENAI)
        (key,) = load_config(self.text("omnigate.toml")).keys
        secret = re.search(r"ogk_\w+", out)
        assert secret is not None
        self.assertEqual(key.key_sha256, sha256_hex(secret[0]))
        for path in self.folder.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            self.assertEqual(mode, 0o700 if path.is_dir() else 0o600, path)
            if path.is_file():
                self.assertNotIn(secret[0], path.read_text())

    def test_nothing_is_overwritten(self) -> None:
        """Without --force nothing changes, be it one file that is there; with it each is kept."""
        self.run_init(OPENAI_API_KEY=OPENAI)
        before = {path.name: path.read_text() for path in self.folder.iterdir()}
        os.unlink(self.folder / "control.env")
        del before["control.env"]
        status, out, err = self.run_init()
        self.assertEqual((status, out), (1, ""))
        self.assertIn("has omnigate.toml, data.env already; nothing was written", err)
        self.assertIn("--force", err)
        self.assertEqual({p.name: p.read_text() for p in self.folder.iterdir()}, before)
        self.assertEqual(self.run_init("--force")[0], 0)
        self.assertEqual(self.text("data.env.old"), before["data.env"])
        self.assertEqual(self.text("omnigate.toml.old"), before["omnigate.toml"])
        self.assertFalse((self.folder / "control.env.old").exists())
        self.assertEqual(self.run_init("--force")[0], 0)
        self.assertEqual(self.text("data.env.old"), before["data.env"])
        self.assertTrue((self.folder / "data.env.old2").exists())

    def test_a_disk_that_fills_up(self) -> None:
        """All is as it was before, and it is said which file it was."""
        self.run_init("--force")
        before = {path.name: path.read_text() for path in self.folder.iterdir()}

        def full(path: str, data: bytes, *, spare: str | None = None) -> None:
            if late or not path.endswith("data.env"):
                replace_file(path, data, spare=spare)
            if path.endswith("data.env"):
                raise OSError(errno.ENOSPC, "No space left on device")

        self.patch(init_files, "replace_file", full)
        cases = [(late, force) for late in (False, True) for force in (True, False)]
        first = self.folder
        for late, force in cases:
            # At the last sync, it is the new file that stands there.
            self.folder = first if force else first.with_name(f"{first.name}-new-{late}")
            left = before if force else {}
            status, out, err = self.run_init(*(("--force",) if force else ()))
            self.assertEqual((status, out), (1, ""))
            self.assertIn("data.env: No space left on device; nothing was changed", err)
            self.assertEqual({p.name: p.read_text() for p in self.folder.iterdir()}, left)

    def test_without_a_credential(self) -> None:
        """The config starts all the same, has an example, and it is said what to do."""
        status, out, _ = self.run_init()
        self.assertEqual(status, 0)
        self.assertIn("No credential of a provider is in the environment", out)
        self.assertNotIn("curl ", out)
        self.assertIn("dashboard: http://127.0.0.1:8081/", out)
        text = self.text("omnigate.toml")
        self.assertEqual(load_config(text).routes, ())
        head, mark, example = text.partition("# [[upstreams]]")
        wanted = (head + mark + example).replace("# [[", "[[").replace("#   ", "  ")
        wanted = re.sub(r"(?m)^# (\w+ = )", r"\1", wanted)
        (route,) = load_config(wanted).routes
        self.assertEqual(route.model, "fast")

    def test_media_alone(self) -> None:
        """It is said that no text is routed, and how a job is asked for."""
        status, out, _ = self.run_init(FAL_KEY="id:secret", ELEVENLABS_API_KEY=OPENAI)
        self.assertEqual(status, 0)
        self.assertIn("No credential of a provider of text is in the environment", out)
        self.assertIn("media job: flux-dev (FAL_KEY)", out)
        self.assertIn("/v1/jobs ", out)
        self.assertIn('{"model": "flux-dev", "input": {"prompt": "a lake"}}', out)
        self.assertNotIn("/v1/chat/completions", out)

    def test_for_systemd(self) -> None:
        """Tokens are credentials of their own; state is the units'."""
        status, out, _ = self.run_init("--systemd", OPENAI_API_KEY=OPENAI)
        self.assertEqual(status, 0)
        token = self.text("credentials/omnigate_internal_token").strip()
        self.assertIn(token, out)
        self.assertNotIn(token, self.text("control.env") + self.text("data.env"))
        self.assertNotIn("OMNIGATE_STATE_DIR", self.text("control.env") + self.text("data.env"))
        for line in ("systemd-sysusers", "systemctl enable --now omnigate-data.socket"):
            self.assertIn(line, out)
        environ = {
            **self.settings_of("control"),
            "CREDENTIALS_DIRECTORY": str(self.folder / "credentials"),
        }
        self.assertEqual(read_control_settings(environ)[0].internal_token, token)

    def test_ports_that_are_taken(self) -> None:
        """It is told which, and what to write where; the files are written all the same."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
            taken = server.getsockname()[1]
            free, other = free_ports(2)
            for plane in ("data", "control"):
                name = f"OMNIGATE_{plane.upper()}_LISTEN"
                ports = {"OMNIGATE_DATA_LISTEN": free, "OMNIGATE_CONTROL_LISTEN": other}
                ports[name] = taken
                self.patch(init_files, "_PORTS", ports)
                self.patch(init_files, "_METRICS_PORT", free)
                status, out, _ = self.run_init("--force")
                self.assertEqual(status, 0)
                (line,) = [line for line in out.splitlines() if "already" in line]
                self.assertIn(f"port {taken} already: write {name}=tcp:", line)
                self.assertIn(f"{plane}.env", line)
                status, out, _ = self.run_init("--force", "--systemd")
                (line,) = [line for line in out.splitlines() if "already" in line]
                # The units have systemd open the public port.
                moved = "ListenStream= of omnigate-data.socket" if plane == "data" else f"{name}="
                self.assertIn(moved, line)

    def test_folders_that_cannot_be(self) -> None:
        """Each is told in one line with what to do, and nothing is left behind."""
        Path(self.folder).write_text("a file")
        status, _, err = self.run_init()
        self.assertEqual((status, err.count("\n")), (1, 1))
        self.assertIn(f"{self.folder}: this is no folder", err)
        self.assertIn("--dir", err)
        self.folder = Path(f"{self.folder}'s")
        status, _, err = self.run_init()
        self.assertEqual((status, err.count("\n")), (1, 1))
        self.assertIn("--dir", err)
        self.assertFalse(self.folder.exists())

    def test_a_server_that_tells_its_models(self) -> None:
        """It is asked with the credential; one that tells something else is left out."""
        server = HTTPServer(("127.0.0.1", 0), ModelList)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        environ = {
            "OPENAI_API_KEY": OPENAI,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
        }
        for content in (b"<html>", b"[]", b'{"data":[1]}', b'{"data":{}}', b'{"data":[]}'):
            ModelList.content = content
            err = self.run_init("--force", **environ)[2]
            self.assertIn("openai is left out: OPENAI_BASE_URL: http://127.0.0.1", err)
        ModelList.content = json.dumps({"data": [{"id": f"m{n}"} for n in range(99)]}).encode()
        status, out, err = self.run_init("--force", **environ)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("models: fast, smart, m0, m1, ", out)
        self.assertEqual(ModelList.asked[-1], ("/v1/models", f"Bearer {OPENAI}"))
        self.assertEqual(len(load_config(self.text("omnigate.toml")).routes), 22)

    @given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
    @settings(max_examples=50, deadline=None)
    def test_any_value(self, value: str) -> None:
        """A shell and we read each line as it was meant, or it is refused."""
        try:
            line = env_value(value)
        except ValueError:
            self.assertIn("'", value)
            return
        run = subprocess.run(
            ["/bin/sh", "-c", f'X={line}\nprintf %s "$X"'], capture_output=True, text=True
        )
        self.assertEqual(run.stdout, value)
        self.assertEqual(read_env(f"X={line}\n"), {"X": value})

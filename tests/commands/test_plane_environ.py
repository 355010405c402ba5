"""Tests for omnigate.commands.plane_environ."""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.commands.plane_environ import control_url, plane_environs, read_env, url_of


class ListenerTests(SynchronousTestCase):
    """Where a listener is found."""

    def test_urls(self) -> None:
        """Each kind of endpoint string, by who is on the same machine."""
        for listen, url in {
            "tcp:8080": "http://127.0.0.1:8080",
            "tcp:8081:interface=10.0.0.5": "http://10.0.0.5:8081",
            "tcp:port=80:interface=0.0.0.0": "http://127.0.0.1:80",
            r"tcp:8080:interface=\:\:1": "http://[::1]:8080",
            r"tcp6:8080:interface=\:\:": "http://127.0.0.1:8080",
            "ssl:8443:privateKey=key.pem:certKey=cert.pem": "https://127.0.0.1:8443",
            "tls:8443:cert=/a/b.pem:key=/a/c.pem:interface=10.1.1.1": "https://10.1.1.1:8443",
            "https:8443:cert=/a/b.pem:key=/a/c.pem": "https://127.0.0.1:8443",
            "https:443:interface=10.0.0.5:cert=/a/b.pem": "https://10.0.0.5:443",
            "https:systemd:domain=INET:name=public:cert=/a/b.pem": None,
            "systemd:domain=INET:name=public": None,
            "unix:/run/omnigate.sock": None,
            "off": None,
            "": None,
            "tcp": None,
            "tcp:http": None,
        }.items():
            self.assertEqual(url_of(listen), url, listen)

    @given(st.text(":\\=1a", max_size=30))
    @settings(max_examples=200, deadline=None)
    def test_any_listener(self, text: str) -> None:
        """Whatever stands there, it is a URL or nothing."""
        for listen in (text, "tcp:" + text):
            self.assertTrue((url_of(listen) or "http://").startswith("http"))


class EnvironTests(SynchronousTestCase):
    """Environment files."""

    def test_lines(self) -> None:
        """As systemd and a shell read them; what is no line of theirs is passed over."""
        text = (
            "# a=b\n\nA=1\n B=x y\nC='$a b'\nD=\"q\"\nE=\nno line\n1F=2\nG=a#b\nH='open\nI=a\0b\n"
        )
        self.assertEqual(
            read_env(text),
            {"A": "1", "B": "x y", "C": "$a b", "D": "q", "E": "", "G": "a#b", "H": "'open"},
        )

    def test_a_folder(self) -> None:
        """Each plane has its own file, which wins; what cannot be read is told."""
        folder = Path(self.mktemp())
        (folder / "credentials").mkdir(parents=True)
        (folder / "control.env").write_text("OMNIGATE_CONTROL_LISTEN=tcp:9000\nX=1\n")
        (folder / "data.env").mkdir()
        found = plane_environs({"X": "0", "Y": "2"}, str(folder))
        self.assertEqual((found.control["X"], found.control["Y"], found.data["X"]), ("1", "2", "0"))
        self.assertIn("data.env", found.faults[0])
        self.assertEqual(found.data["STATE_DIRECTORY"], "/var/lib/omnigate/data")
        self.assertEqual(
            found.data["CREDENTIALS_DIRECTORY"], os.path.abspath(folder / "credentials")
        )
        self.assertEqual(control_url(found, "default"), "http://127.0.0.1:9000")

    def test_a_folder_of_something_else(self) -> None:
        """One without environment files, or that is not there, is no silence."""
        for folder in (self.mktemp(), "/no/such\n"):
            (fault,) = plane_environs({}, folder).faults
            self.assertIn("holds neither control.env nor data.env", fault)
            self.assertNotIn("\n", fault)

    def test_the_environment(self) -> None:
        """Without a folder it is that of both planes."""
        environ = {"OMNIGATE_CONTROL_URL": "http://a:1"}
        found = plane_environs(environ, None)
        self.assertEqual((found.control, found.data, found.folder), (environ, environ, None))
        self.assertEqual(control_url(found, "default"), "http://a:1")
        self.assertEqual(
            control_url(plane_environs({"OMNIGATE_X": ""}, None), "default"), "default"
        )

"""What is done before a block of the page on operations is run, and what has to be true after it.

Before: what the page leaves to the operator (routes, a certificate, a version to come from). After:
what the block was for, seen from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from tests.install.machine import CHECKOUT, Machine, MachineError

#: The version that is rolled back to: that before managed keys could end or be rotated.
OLDER: Final = "930cb0f"
OLDER_CHECKOUT: Final = "/root/older"

#: What the page promises of a certificate that is replaced without a signal, in seconds.
RENEWAL_SECONDS: Final = 60
#: What a delivery of usage or a poll may take on a loaded machine.
_SECONDS: Final = 30

_ASK: Final = (
    "curl --silent --show-error --fail-with-body {url}/v1/chat/completions -H 'authorization: "
    'Bearer {key}\' -d \'{{"model": "fast", "messages": [{{"role": "user", "content": "Hi"}}]}}\''
)
_PLAIN: Final = "http://127.0.0.1:8080"
_SECURE: Final = "https://gateway.example.com"
_APP_KEY: Final = "key-of-the-application-0123456789"
_TOKEN: Final = "OMNIGATE_ADMIN_TOKEN_FILE=/etc/omnigate/credentials/omnigate_admin_token"
_READ_LOG: Final = "cat /var/log/omnigate/access.log || true"
_DROP_INS: Final = "/etc/systemd/system/omnigate-data"


@attrs.define
class Trial:
    """One run of the page.

    :ivar source: the checkout that it belongs to.
    :ivar shown: figures worth telling at the end.
    """

    machine: Machine
    source: Path
    shown: dict[str, str] = attrs.Factory(dict)
    kept: dict[str, str] = attrs.Factory(dict)

    # -- asking

    def ask(self, url: str) -> None:
        """One request through to the provider."""
        answer = self.machine.call(_ASK.format(url=url, key=_APP_KEY))
        if '"choices"' not in answer:
            raise MachineError(f"no answer of a model: {answer}")

    def requests(self) -> int:
        """How many requests the ledger has."""
        text = self.machine.call(
            f'{_TOKEN} curl --silent --fail -H "authorization: Bearer $(cat '
            '/etc/omnigate/credentials/omnigate_admin_token)" '
            "'http://127.0.0.1:8081/admin/usage?by=key' -H 'accept: text/csv'"
        )
        head, *rows = (line.split(",") for line in text.splitlines())
        return sum(int(row[head.index("requests")]) for row in rows)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = _SECONDS) -> float:
        """Wait for something, and return how long it took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if condition():
                return time.monotonic() - began
            time.sleep(0.5)
        raise MachineError(f"waited {seconds:.0f} s for {what}")

    def counted(self, wanted: int) -> None:
        """Wait until the ledger has so many requests."""
        self.wait(f"{wanted} requests in the ledger", lambda: self.requests() == wanted)

    def holds(self, commands: str, words: str) -> None:
        """What commands print has to have these words in it."""
        said = self.machine.call(commands)
        if words not in said:
            raise MachineError(f"{commands}\nsays nothing of {words}:\n{said}")

    # -- certificates

    def issue(self, name: str, folder: str) -> None:
        """Have the authority of the machine issue a certificate."""
        self.machine.call(
            f"mkdir -p {folder}; cd {folder}; "
            "openssl req -newkey rsa:2048 -nodes -keyout privkey.pem "
            f"-out request -subj '/CN={name}' 2>/dev/null; printf 'subjectAltName=DNS:"
            "gateway.example.com' > names; openssl x509 -req -in request -CA /root/ca.pem -CAkey "
            "/root/ca.key -CAcreateserial -days 30 -extfile names -out fullchain.pem 2>/dev/null; "
            "cat /root/ca.pem >> fullchain.pem"
        )

    def served(self) -> str:
        """Whose certificate the public port shows."""
        return self.machine.call(
            "openssl s_client -connect 127.0.0.1:443 -servername gateway.example.com </dev/null "
            "2>/dev/null | openssl x509 -noout -subject"
        ).strip()


@attrs.frozen
class Check:
    """What belongs to one block."""

    before: Callable[[Trial], None] = lambda trial: None
    after: Callable[[Trial], None] = lambda trial: None


def configure(trial: Trial) -> None:
    """Write routes to a provider of this machine, and the key of an application."""
    machine = trial.machine
    machine.call(
        "systemd-run --quiet --unit=provider /opt/omnigate/bin/python -m omnigate.testing.provider "
        "--port 9000"
    )
    path = machine.inside("/etc/omnigate/omnigate.toml")
    text = path.read_text()
    for host in ("https://api.openai.com/v1", "https://api.anthropic.com/v1"):
        if host not in text:
            raise MachineError(f"the template has no {host}")
        text = text.replace(host, "http://127.0.0.1:9000/v1")
    path.write_text(text.replace('model = "gpt-4o-mini"', 'model = "fake-small"'))
    for name, variable, value in (
        ("data", "OPENAI_API_KEY", "sk-openai"),
        ("data", "ANTHROPIC_API_KEY", "sk-anthropic"),
        ("control", "OMNIGATE_KEY_APP", _APP_KEY),
    ):
        path = machine.inside(f"/etc/omnigate/{name}.env")
        text = path.read_text()
        if f"\n{variable}=\n" not in text:
            raise MachineError(f"{name}.env has no line for {variable}")
        path.write_text(text.replace(f"\n{variable}=\n", f"\n{variable}={value}\n"))


def started(trial: Trial) -> None:
    """Units, users, modes, what is in reach of them, and how exposed they are."""
    machine = trial.machine
    trial.ask(_PLAIN)
    for plane in ("data", "control"):
        unit = f"omnigate-{plane}.service"
        pid = machine.call(f"systemctl show --value -p MainPID {unit}").strip()
        trial.holds(f"ps -o user:20= -p {pid}", f"omnigate-{plane}")
        environ = machine.inside("/etc/omnigate/credentials/omnigate_internal_token").read_text()
        if environ.strip() in machine.call(f"tr '\\0' '\\n' < /proc/{pid}/environ"):
            raise MachineError(f"the token stands in the environment of {unit}")
        # A machine in a folder may be given fewer than it asks for.
        trial.holds(f"systemctl show -p LimitNOFILE {unit}", "65536")
        trial.holds(f"systemctl show -p WatchdogUSec {unit}", "30s")
        said = machine.call(f"systemd-analyze security --no-pager --threshold=20 {unit} | tail -1")
        trial.shown[f"exposure of {unit}"] = said.rpartition(f"{unit}: ")[2].split()[0]
    processes = machine.call(
        'curl --silent --fail -H "authorization: Bearer $(cat /etc/omnigate/credentials/'
        'omnigate_admin_token)" http://127.0.0.1:8081/metrics | grep ^process_ | cut -d" " -f1'
    )
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        if f"process_{name}" not in processes:
            raise MachineError(f"process_{name} is not among the metrics: {processes}")
    machine.call(
        "systemd-analyze verify /etc/systemd/system/omnigate*; ! systemctl is-failed --quiet "
        "'omnigate*'"
    )
    for path, told in (
        ("/etc/omnigate/omnigate.toml", "640 root omnigate-control"),
        ("/etc/omnigate/data.env", "600 root root"),
        ("/etc/omnigate/credentials", "700 root root"),
        ("/etc/omnigate/credentials/omnigate_admin_token", "600 root root"),
        ("/etc/omnigate/tls", "750 root omnigate-data"),
        ("/var/lib/omnigate/control/ledger.jsonl", "600 omnigate-control omnigate-control"),
        ("/var/lib/omnigate/data/omnigate-usage.spool", "600 omnigate-data omnigate-data"),
    ):
        trial.holds(f"stat -c '%a %U %G' {path}", told)


def reloaded(trial: Trial) -> None:
    """Both units take a SIGHUP, and go on."""
    trial.machine.call("systemctl reload omnigate-control omnigate-data; sleep 1")
    trial.ask(_PLAIN)
    trial.counted(3)


def certificate(trial: Trial) -> None:
    """What the operator's authority issues, and a name for this machine."""
    machine = trial.machine
    machine.call(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout /root/ca.key -out /root/ca.pem -subj "
        "/CN=authority -days 30 2>/dev/null; cp /root/ca.pem /usr/local/share/ca-certificates/"
        "own.crt; update-ca-certificates >/dev/null; "
        "echo 127.0.0.1 gateway.example.com >> /etc/hosts"
    )
    trial.issue("first", CHECKOUT)


def secured(trial: Trial) -> None:
    """Requests over TLS; a new certificate by itself; one that is none."""
    machine = trial.machine
    trial.ask(_SECURE)
    trial.issue("second", "/root/second")
    machine.call("install -m 640 -g omnigate-data /root/second/*.pem /etc/omnigate/tls/")
    took = trial.wait("the new certificate", lambda: "second" in trial.served(), RENEWAL_SECONDS)
    trial.shown["a new certificate in force by itself, seconds"] = f"{took:.0f}"
    machine.call(
        "install -m 640 -g omnigate-data /root/omnigate/privkey.pem /etc/omnigate/tls/; "
        "systemctl reload omnigate-data; sleep 1"
    )
    trial.holds("journalctl -u omnigate-data --no-pager", "is not the key of the certificate")
    if "second" not in trial.served():
        raise MachineError("a pair that is none got in")
    trial.ask(_SECURE)


def renewed(trial: Trial) -> None:
    """The hook puts a new one in force; the other drop-in serves as well."""
    machine = trial.machine
    trial.issue("third", "/root/third")
    hook = "/etc/letsencrypt/renewal-hooks/deploy/omnigate"
    machine.call(f"RENEWED_LINEAGE=/root/third {hook}")
    trial.wait("the third certificate", lambda: "third" in trial.served())
    machine.call(
        "install -m 600 /root/second/fullchain.pem /etc/omnigate/credentials/tls_certificate; "
        "install -m 600 /root/second/privkey.pem /etc/omnigate/credentials/tls_key; "
        f"mv {_DROP_INS}.service.d/tls.conf /root/tls.conf; "
        f"install -m 644 -t {_DROP_INS}.service.d "
        "/opt/omnigate/share/omnigate/systemd/drop-ins/tls-credentials.conf; "
        "systemctl daemon-reload; systemctl restart omnigate-data"
    )
    if "second" not in trial.served():
        raise MachineError("the certificate does not come as a credential")
    trial.ask(_SECURE)
    machine.call(
        f"rm {_DROP_INS}.service.d/tls-credentials.conf; mv /root/tls.conf {_DROP_INS}.service.d/; "
        "systemctl daemon-reload; systemctl restart omnigate-data"
    )


def rotated(trial: Trial) -> None:
    """The old file is whole, the new one is written to."""
    trial.ask(_SECURE)
    trial.wait(
        "a line in the new log",
        lambda: "request_id" in trial.machine.call(_READ_LOG),
    )
    trial.holds("cat /var/log/omnigate/access.log.1", "request_id")
    trial.holds("stat -c '%a %U' /var/log/omnigate/access.log", " omnigate-data")


def backed_up(trial: Trial) -> None:
    """Note what the sums were; what comes after it is not in the backup."""
    trial.kept["requests"] = str(trial.requests())
    trial.ask(_SECURE)
    trial.counted(int(trial.kept["requests"]) + 1)


def restored(trial: Trial) -> None:
    """The sums are those of the backup, the keys are there, requests are served and billed."""
    before = int(trial.kept["requests"])
    trial.counted(before)
    trial.holds(f"{_TOKEN} omnigate keys list", "my-app")
    trial.ask(_SECURE)
    trial.counted(before + 1)


def older_version(trial: Trial) -> None:
    """Put an older version in use, which has the state that is there, and adds to it."""
    machine = trial.machine
    machine.copy_checkout(trial.source, OLDER_CHECKOUT, OLDER)
    before = trial.requests()
    machine.call(
        f"cd {OLDER_CHECKOUT}; "
        "/tmp/omnigate-build/bin/pip wheel --quiet --no-deps --wheel-dir dist .; "
        "python3 -m venv /opt/omnigate-older; "
        "/opt/omnigate-older/bin/pip install --quiet dist/*.whl; "
        "/opt/omnigate-older/bin/twistd --help >/dev/null; "
        "ln -sfn /opt/omnigate-older /opt/omnigate; "
        # It has no https:, and has never heard of that.
        f"rm {_DROP_INS}.service.d/tls.conf {_DROP_INS}.socket.d/port-443.conf;"
        "systemctl daemon-reload; systemctl restart omnigate-data.socket omnigate-control "
        "omnigate-data"
    )
    trial.ask(_PLAIN)
    trial.counted(before + 1)
    trial.kept["requests"] = str(before + 1)


def upgraded(trial: Trial) -> None:
    """The newer one has the older one's state, and serves."""
    before = int(trial.kept["requests"])
    trial.counted(before)
    trial.ask(_PLAIN)
    trial.counted(before + 1)
    trial.kept["requests"] = str(before + 1)
    trial.holds("cat /opt/omnigate-before", "/opt/omnigate-older")


def refused_rollback(trial: Trial) -> None:
    """A key with an end keeps the older version from starting, until it is gone again."""
    machine = trial.machine
    key = "authorization: Bearer $(cat /etc/omnigate/credentials/omnigate_admin_token)"
    machine.call(
        f'curl --silent --fail-with-body -H "{key}" http://127.0.0.1:8081/admin/keys '
        '-d \'{"name": "short", "expires_at": "2099-01-01T00:00:00Z"}\''
    )
    new = machine.call("readlink /opt/omnigate").strip()
    machine.call(
        "ln -sfn $(cat /opt/omnigate-before) /opt/omnigate; "
        "! systemctl restart omnigate-control 2>/dev/null"
    )
    trial.holds("journalctl -u omnigate-control --no-pager", "keys.json")
    said = machine.call(
        "journalctl -u omnigate-control --no-pager -o cat | grep keys.json | tail -1"
    )
    trial.shown["the older version says"] = said.strip()
    machine.call(
        f"ln -sfn {new} /opt/omnigate; systemctl reset-failed; systemctl restart omnigate-control; "
        f"{_TOKEN} omnigate keys delete short"
    )


def rolled_back(trial: Trial) -> None:
    """The older version has the newer one's state, and serves."""
    before = int(trial.kept["requests"])
    trial.holds("readlink /opt/omnigate", "/opt/omnigate-older")
    trial.counted(before)
    trial.ask(_PLAIN)
    trial.counted(before + 1)


def uninstalled(trial: Trial) -> None:
    """Nothing of it runs or listens, and the state is still there."""
    trial.machine.call(
        "! pgrep -f omnigate-; ! ls /opt/omnigate* /etc/systemd/system/omnigate* 2>/dev/null; "
        "! curl --silent http://127.0.0.1:8080/; ! curl --silent http://127.0.0.1:8081/; "
        "test -s /var/lib/omnigate/control/ledger.jsonl"
    )


def logged_in_a_file(trial: Trial) -> None:
    """A line of a request."""
    trial.ask(_SECURE)
    trial.wait("a line in the log", lambda: "request_id" in trial.machine.call(_READ_LOG))


CHECKS: Final[Mapping[str, Check]] = {
    "start": Check(configure, started),
    "first request": Check(after=reloaded),
    "tls": Check(certificate, secured),
    "renewal hook": Check(after=renewed),
    "rotation": Check(logged_in_a_file, rotated),
    "backup": Check(after=backed_up),
    "restore": Check(after=restored),
    "upgrade": Check(older_version, upgraded),
    "rollback": Check(refused_rollback, rolled_back),
    "uninstall": Check(after=uninstalled),
}
"""By the names of blocks."""

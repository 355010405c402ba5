"""The config file changed in every way that there is, under daemons at work."""

import os
import re
import shutil
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    ADMIN_TOKEN,
    Answer,
    Gateway,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)

#: A stream that lasts as long as all the changes.
STREAMED = "fake-paced-20-words-400"


def config(provider_port: int, *models: str) -> str:
    """One key, one provider, and these models beside the one that is streamed."""
    routes = [route_table("streamed", ("openai", STREAMED))]
    routes += [route_table(model, ("openai", "fake-small")) for model in models]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


class WatchTests(SynchronousTestCase):
    """One story: a stream goes on while the file is changed."""

    def setUp(self) -> None:
        self.gateway = Gateway(lambda port: config(port, "m0"))
        self.addCleanup(self.gateway.stop)
        # As container platforms and some deployments do it: the folder is a link.
        folder = self.gateway.folder
        os.mkdir(folder / "one")
        os.rename(folder / "omnigate.toml", folder / "one" / "omnigate.toml")
        os.symlink("one", folder / "live")
        self.path = self.gateway.config_path = folder / "live" / "omnigate.toml"
        self.gateway.start()
        self.model = "m0"
        self.count = 0
        self.seconds: list[float] = []

    def text(self) -> str:
        """A config with a model that none before it had."""
        self.count += 1
        self.model = f"m{self.count}"
        self.written = config(self.gateway.provider_port, self.model)
        return self.written

    def counted(self, name: str) -> int:
        """What a counter of the control plane shows."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.gateway.control_port}/metrics",
            headers={"authorization": f"Bearer {ADMIN_TOKEN}"},
        )
        with urllib.request.urlopen(request) as answer:
            found = re.search(rf"(?m)^omnigate_config_{name}_total (\S+)$", answer.read().decode())
        assert found is not None
        return int(float(found[1]))

    def changes(self, what: str, counter: str, change: Callable[[], object]) -> None:
        """Make a change, and see that it is read once, soon, and with this outcome."""
        before = self.counted("reloads"), self.counted("reload_failures")
        change()
        began = time.monotonic()
        wait_for(what, lambda: (self.counted("reloads"), self.counted("reload_failures")) != before)
        self.seconds.append(time.monotonic() - began)
        time.sleep(0.3)  # in which it would be read again, if it were
        after = self.counted("reloads"), self.counted("reload_failures")
        expected = {"reloads": (1, 0), "reload_failures": (0, 1)}[counter]
        self.assertEqual((after[0] - before[0], after[1] - before[1]), expected, what)
        if counter == "reloads":
            # The file is its operator's alone.
            self.assertEqual(self.path.read_text(), self.written)
            wait_for(
                f"{what} at the data plane", lambda: self.gateway.ask(self.model).status == 200
            )
        else:
            self.assertEqual(self.gateway.ask(self.model).status, 200, what)

    def good(self, what: str, change: Callable[[], object]) -> None:
        self.changes(what, "reloads", change)

    def bad(self, what: str, change: Callable[[], object]) -> None:
        self.changes(what, "reload_failures", change)

    def rename(self, text: str) -> None:
        """Replace it as editors do."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        os.rename(new, self.path)

    def in_pieces(self, text: str) -> None:
        """Write it in place and slowly, each piece a good config or half of one."""
        with open(self.path, "w", encoding="utf-8") as file:
            for begin in range(0, len(text), len(text) // 4):
                file.write(text[begin : begin + len(text) // 4])
                file.flush()
                time.sleep(0.25)

    def swap_folder(self, text: str) -> None:
        """Have the link on the way lead to another folder."""
        folder = self.gateway.folder / f"swapped{self.count}"
        os.mkdir(folder)
        (folder / "omnigate.toml").write_text(text)
        link = self.gateway.folder / "live.new"
        os.symlink(folder.name, link)
        os.rename(link, self.gateway.folder / "live")

    def replace_by(self, make: Callable[[Path], object]) -> None:
        """Put something else in its place."""
        os.unlink(self.path)
        make(self.path)

    def test_every_way(self) -> None:
        """Each good state comes into force once and soon, no bad one does, and nobody is hurt."""
        answers: list[Answer] = []
        client = threading.Thread(
            target=lambda: answers.append(self.gateway.ask("streamed", stream=True))
        )
        client.start()
        self.good("a rename", lambda: self.rename(self.text()))
        self.good("a write in pieces", lambda: self.in_pieces(self.text()))
        self.good("another folder", lambda: self.swap_folder(self.text()))
        self.good("a write through the link", lambda: self.path.write_text(self.text()))
        faulty = config(self.gateway.provider_port, "bad") + "[[keys]]\nnmae = 1\n"
        self.bad("a fault", lambda: self.rename(faulty))
        self.bad("no file", lambda: os.unlink(self.path))
        self.good("the file back", lambda: self.path.write_text(self.text()))
        self.bad("a folder in its place", lambda: self.replace_by(os.mkdir))
        os.rmdir(self.path)
        self.good("a file again", lambda: self.rename(self.text()))
        self.bad("a pipe in its place", lambda: self.replace_by(os.mkfifo))
        self.good("a file for the pipe", lambda: self.rename(self.text()))
        if os.getuid():
            self.bad("a file that may not be read", lambda: os.chmod(self.path, 0))
        whole = self.gateway.folder / "live"
        self.bad("no folder", lambda: os.unlink(whole))
        self.good("a folder again", lambda: self.swap_folder(self.text()))
        self.assertLess(statistics.median(self.seconds), 1.0, self.seconds)
        client.join()
        (answer,) = answers
        self.assertEqual((answer.status, answer.whole), (200, True))
        self.assertIn(b"[DONE]", answer.body)
        self.assertEqual(self.gateway.event(answer.id)["output_tokens"], 400)
        ids = [event["id"] for event in self.gateway.ledger()]
        self.assertEqual(len(ids), len(set(ids)))
        self.check_record()
        shutil.rmtree(self.gateway.folder / "one")

    def check_record(self) -> None:
        """Everything is written down: each config once, each refusal once, by the file itself."""
        lines = self.gateway.admin().call("GET", "/admin/audit")["entries"][::-1]
        told = [(line["action"], line["actor"], line["outcome"]) for line in lines]
        good, bad = self.counted("reloads") - 1, self.counted("reload_failures")
        self.assertEqual(told[0], ("config.install", "start", "done"))
        self.assertEqual(told.count(("config.install", "file", "done")), good)
        self.assertEqual(told.count(("config.reload", "file", "failed")), bad)
        self.assertEqual(len(told), 1 + good + bad)
        history = self.gateway.admin().call("GET", "/admin/config/history")["entries"]
        self.assertEqual(len(history), good + 1)
        self.assertEqual(history[0]["changes"]["routes"]["added"], [self.model])

"""The page of a try: a whole control plane in memory, and a data plane that a test plays."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.data_plane import MAX_TRIES
from omnigate.control.dashboard.try_answer import MAX_ANSWER_BYTES
from omnigate.control.dashboard.try_exchange import MAX_SECONDS
from omnigate.control.dashboard.try_form import MAX_FORM_BYTES
from omnigate.control.dashboard.try_key import LEAST_LIFE_MS, LIFE_MS, NAME
from omnigate.control.dashboard.try_run import BILL_PAUSE, BILL_SECONDS, KEY_PAUSES
from omnigate.control.key_secret import sha256_hex
from tests.control.conversation import Reply, request_bytes
from tests.control.dashboard.test_try_answer import STREAMS, WHOLES, chat, events
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.data_client import Asked
from tests.control.plane import Plane, event

SECRET = "og-secret-of-somebody"
FORM = {
    "model": "fast",
    "style": "chat",
    "source": "pasted",
    "secret": SECRET,
    "message": "Hello",
    "max_tokens": "20",
    "stream": "1",
}
SSE = "text/event-stream; charset=utf-8"


class Onlooker:
    """Somebody who has sent the form, and watches what comes of it."""

    def __init__(self, plane: Plane, visitor: Visitor, target: str, **fields: str) -> None:
        self._plane = plane
        self.channel, self.wire = plane.talk.connect()
        body = urlencode({"form_token": visitor.form_token, **FORM, **fields}).encode()
        headers = (
            *visitor.headers(),
            (b"content-type", b"application/x-www-form-urlencoded"),
        )
        self.channel.dataReceived(request_bytes("POST", target, headers, body))

    @property
    def status(self) -> int:
        return int(self.wire.value().split(b" ", 2)[1])

    @property
    def has_ended(self) -> bool:
        """Whether the last chunk has come."""
        return bool(self.wire.value().endswith(b"0\r\n\r\n"))

    @property
    def body(self) -> str:
        """What has come so far, out of its chunks."""
        data: bytes = self.wire.value()
        head, _, rest = data.partition(b"\r\n\r\n")
        if b"chunked" not in head.lower():
            return rest.decode()
        parts = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            parts.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return b"".join(parts).decode()

    @property
    def told(self) -> list[tuple[str, str]]:
        """The events as the script reads them."""
        found: list[tuple[str, str]] = []
        for part in self.body.split("\n\n"):
            if part.startswith("event: "):
                name, _, data = part.partition("\n")
                found.append((name[7:], json.loads(data.removeprefix("data: "))))
        return found

    def html(self, name: str) -> str:
        """The only event of this name."""
        (html,) = [text for kind, text in self.told if kind == name]
        return html

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(text for kind, text in self.told if kind == "text")

    def leave(self) -> None:
        self.wire.loseConnection()
        self._plane.clock.advance(0)


class TryCase(SynchronousTestCase):
    """Somebody who has opened the page."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.addCleanup(self.plane.close)
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()
        self.visitor.page("/try")

    def send(self, target: str = "/try/stream", **fields: str) -> Onlooker:
        return Onlooker(self.plane, self.visitor, target, **fields)

    @property
    def asked(self) -> Asked:
        """The newest request to the data plane."""
        return self.plane.data_client.asked[-1]

    def stream(self, *data: bytes, **headers: str) -> None:
        """Have the data plane answer with a stream, which does not end here."""
        told = {"x_omnigate_request_id": "request-1", "x_omnigate_attempts": "1", **headers}
        self.asked.answer(200, SSE, *data, **told)

    def refuse(self, status: int, code: str, words: str = "no") -> None:
        """Have the data plane refuse."""
        body = json.dumps({"error": {"message": words, "code": code}}).encode()
        self.asked.answer(status, "application/json", body, x_omnigate_request_id="request-1")
        self.asked.listener.end()

    def record(self, **members: Any) -> None:
        """Have the data plane deliver the usage event."""
        body = json.dumps({"events": [event(id="request-1", **members)]}).encode()
        reply = self.plane.internal("POST", "/internal/usage/batch", body)
        self.assertEqual(reply.status, 200, reply.body)


class AnswerTests(TryCase):
    """What is seen of an answer."""

    def test_whole(self) -> None:
        """Text as it comes, how it ended, then attempts and price out of the ledger."""
        looker = self.send()
        self.assertEqual(self.asked.request.secret, SECRET)
        self.assertEqual(json.loads(self.asked.request.body)["model"], "fast")
        self.plane.clock.advance(0.25)
        self.stream(events(chat("Grü")))
        self.assertEqual(looker.text, "Grü")
        self.plane.clock.advance(1)
        self.asked.listener.data(events(chat("ße <b>")))
        self.asked.listener.data(events(chat(None, "stop"), b"[DONE]"))
        self.asked.listener.end()
        self.assertEqual(looker.text, "Grüße <b>")
        html = looker.html("outcome")
        self.assertIn("The answer is whole.", html)
        self.assertIn("250\N{NARROW NO-BREAK SPACE}ms", html)
        self.assertIn("/requests/one?id=request-1", html)
        self.assertFalse(looker.has_ended)
        attempt = {"upstream": "openai", "model": "gpt-4o-mini", "outcome": "ok"}
        self.record(attempts=[{**attempt, "status": 200, "duration_ms": 700}])
        self.plane.clock.advance(BILL_PAUSE)
        self.assertIn("gpt-4o-mini", looker.html("bill"))
        self.assertIn("$0.0001635", looker.html("bill"))
        self.assertTrue(looker.has_ended)

    def test_nothing_of_a_model_is_markup(self) -> None:
        """What a data plane says is text wherever it is shown."""
        looker = self.send("/try")
        self.stream(events(chat("<script>x</script>")), x_omnigate_upstream="<i>")
        self.asked.listener.lost("<b>gone")
        self.plane.clock.pump([1] * int(BILL_SECONDS + 2))
        self.assertTrue(looker.has_ended)
        for tag in ("<script>x", "<i>", "<b>"):
            self.assertNotIn(tag, looker.body)
        self.assertIn("&lt;script&gt;x&lt;/script&gt;", looker.body)

    def test_without_script(self) -> None:
        """The page itself is written as the answer comes, whole and well-formed at the end."""
        looker = self.send("/try")
        self.assertIn('value="fast"', looker.body)
        before = len(looker.body)
        self.stream(events(chat("a <b>")))
        self.assertEqual(looker.body[before:], "a &lt;b&gt;")
        self.asked.listener.data(events(chat(None, "stop")))
        self.asked.listener.end()
        self.record()
        self.plane.clock.advance(BILL_PAUSE)
        self.assertTrue(looker.has_ended)
        page = Page(Reply(200, "", {}, looker.body.encode()))
        self.assertEqual(page.one("pre", id="try-text").text, "a <b>")
        self.assertIn("The answer is whole. ", page.text)
        self.assertIn("$0.0001635", page.text)
        self.assertNotIn(SECRET, looker.body)

    def test_not_streamed(self) -> None:
        looker = self.send(stream="")
        self.assertFalse(json.loads(self.asked.request.body)["stream"])
        self.asked.answer(200, "application/json", json.dumps(WHOLES["chat"]).encode())
        self.asked.listener.end()
        self.assertEqual(looker.text, "Grüße")
        self.assertIn("The answer is whole.", looker.html("outcome"))

    def test_cut(self) -> None:
        """A broken connection and a stream without its end are both told as what they are."""
        for end in ("lost", "end"):
            looker = self.send()
            self.stream(events(chat("Half of")))
            listener = self.asked.listener
            listener.lost("reset by peer") if end == "lost" else listener.end()
            self.assertEqual(looker.text, "Half of")
            self.assertIn("The answer is cut.", looker.html("outcome"))
            self.assertNotIn("whole", looker.html("outcome"))

    def test_the_event_does_not_come(self) -> None:
        """It is waited for, but not for ever, and its absence is told."""
        looker = self.send()
        self.stream(STREAMS["chat"])
        self.asked.listener.end()
        self.plane.clock.pump([BILL_PAUSE] * int(BILL_SECONDS / BILL_PAUSE + 1))
        self.assertIn("not in the ledger yet", looker.html("bill"))
        self.assertTrue(looker.has_ended)

    def test_refused(self) -> None:
        """Status, code and words, and what to do; nothing was paid, and nothing is waited for."""
        for status, code, remedy in (
            (401, "invalid_api_key", "Give the application a key that is valid"),
            (402, "budget_exceeded", "Raise its budget"),
            (429, "rate_limit_exceeded", "Raise the key"),
        ):
            looker = self.send()
            self.refuse(status, code, "the words of it")
            html = looker.html("outcome")
            for part in (f"Refused with {status} {code}", "the words of it", remedy):
                self.assertIn(part, html)
            self.assertIn("nothing to pay", looker.html("bill"))
            self.assertTrue(looker.has_ended)

    def test_away(self) -> None:
        """Which address was tried, and what to look at."""
        looker = self.send()
        self.asked.listener.unreachable("connection refused")
        html = looker.html("outcome")
        for part in ("http://data.test:8080", "connection refused", "OMNIGATE_DATA_URL"):
            self.assertIn(part, html)
        self.assertTrue(looker.has_ended)

    def test_an_answer_without_end(self) -> None:
        """It is left after some minutes, and told as cut."""
        looker = self.send()
        self.stream(events(chat("and")))
        self.plane.clock.advance(MAX_SECONDS)
        self.assertTrue(self.asked.left)
        self.assertIn("The answer is cut.", looker.html("outcome"))

    def test_too_long(self) -> None:
        """It is left at the bound, and told as cut."""
        looker = self.send()
        self.stream(b": \n\n" * (MAX_ANSWER_BYTES // 4), b": \n\n")
        self.assertTrue(self.asked.left)
        self.assertIn("longer than 4,096 KiB", looker.html("outcome"))


class PeopleTests(TryCase):
    """Whoever looks on."""

    def test_leaves(self) -> None:
        """The data plane sees that they have left, and nothing is left behind."""
        calls = len(self.plane.clock.getDelayedCalls())
        looker = self.send()
        self.stream(events(chat("and")))
        looker.leave()
        self.assertTrue(self.asked.left)
        self.assertEqual(len(self.plane.clock.getDelayedCalls()), calls)

    def test_leaves_while_the_ledger_is_waited_for(self) -> None:
        calls = len(self.plane.clock.getDelayedCalls())
        looker = self.send()
        self.stream(STREAMS["chat"])
        self.asked.listener.end()
        looker.leave()
        self.assertEqual(len(self.plane.clock.getDelayedCalls()), calls)

    def test_slow(self) -> None:
        """Nothing more is read of the data plane until what came has been taken."""
        looker = self.send()
        self.stream(events(chat("a")))
        taker: Any = looker.wire.producer
        taker.pauseProducing()
        self.assertEqual(self.asked.room[-1], False)
        taker.resumeProducing()
        self.assertEqual(self.asked.room[-1], True)

    def test_signs_out_meanwhile(self) -> None:
        """The answer ends with the session, and the data plane is left."""
        looker = self.send()
        self.stream(events(chat("a")))
        self.visitor.send("/sign-out", {})
        self.asked.listener.data(events(chat("b")))
        self.plane.clock.advance(0)
        self.assertTrue(self.asked.left)
        self.assertNotIn("b", looker.text)

    def test_signs_out_before(self) -> None:
        """Nothing is asked for somebody who has signed out while the key was made."""
        self.plane.writer.holding = True
        looker = self.send(source="made")
        self.visitor.send("/sign-out", {})
        self.plane.writer.run()
        self.assertTrue(looker.has_ended)
        self.assertEqual(self.plane.data_client.asked, [])

    def test_so_many_at_once(self) -> None:
        """One more than there is room for is refused, until somebody leaves."""
        lookers = [self.send() for _ in range(MAX_TRIES)]
        refused = self.send(source="made")
        self.assertEqual(refused.status, 503)
        self.assertIn(f"{MAX_TRIES} requests are being tried", refused.body)
        self.assertIsNone(self.plane.store.get(NAME))
        lookers[0].leave()
        self.assertEqual(self.send().status, 200)

    def test_may_look_only(self) -> None:
        """Nobody who may change nothing spends money."""
        body = b'{"name":"looker","scope":"read_only"}'
        secret = self.plane.admin("POST", "/admin/admin-keys", body).json()["secret"]
        visitor = Visitor(self.plane.talk)
        visitor.sign_in(secret)
        page = visitor.page("/try")
        self.assertEqual(page.all("form", id="try-form"), [])
        self.assertIn("may look only", page.text)
        for target in ("/try", "/try/stream"):
            self.assertEqual(visitor.send(target, FORM).status, 403)
        self.assertEqual(self.plane.data_client.asked, [])

    def test_faults(self) -> None:
        """The form comes back as it was filled in, but for the secret; nothing was sent."""
        looker = self.send("/try", message="", system="Be brief.")
        self.assertEqual(looker.status, 400)
        page = Page(Reply(400, "", {}, looker.body.encode()))
        self.assertIn("Write something", page.one("p", id="message-fault").text)
        self.assertEqual(page.one("textarea", id="system").text.strip(), "Be brief.")
        self.assertEqual(page.one("input", id="secret").attributes["value"], "")
        self.assertNotIn(SECRET, looker.body)
        self.assertEqual(self.plane.data_client.asked, [])

    def test_a_long_form(self) -> None:
        self.assertEqual(self.send(message="m" * MAX_FORM_BYTES).status, 413)


class KeyTests(TryCase):
    """The key that is made for tries."""

    def audited(self) -> list[tuple[str, str]]:
        rows = self.plane.admin("GET", "/admin/audit").json()["entries"]
        return [(row["action"], row["target"]) for row in rows if row["action"].startswith("key.")]

    def test_made(self) -> None:
        """It has a small budget and an end, and its secret is seen by the data plane alone."""
        looker = self.send(source="made", secret="")
        key = self.plane.store.get(NAME)
        assert key is not None
        secret = self.asked.request.secret
        self.assertEqual(sha256_hex(secret), key.sha256)
        self.assertEqual(key.budget_nano, 100_000_000)
        self.assertEqual(key.expires_ms, self.plane.now_ms() + LIFE_MS)
        self.assertEqual(self.audited(), [("key.create", NAME)])
        self.stream(STREAMS["chat"])
        self.asked.listener.end()
        self.assertNotIn(secret, looker.body)

    def test_made_again(self) -> None:
        """There is one key for all tries; its old end does not matter, nor its limits change."""
        self.send(source="made")
        first = self.asked.request.secret
        self.plane.admin("PATCH", f"/admin/keys/{NAME}", b'{"budget_usd":0.5}')
        self.plane.clock.advance(LIFE_MS / 1000 + 1)
        self.send(source="made")
        key = self.plane.store.get(NAME)
        assert key is not None
        self.assertNotEqual(self.asked.request.secret, first)
        self.assertEqual(sha256_hex(self.asked.request.secret), key.current_sha256)
        self.assertEqual(key.budget_nano, 500_000_000)
        self.assertEqual(key.expires_ms, self.plane.now_ms() + LIFE_MS)
        changes = [("key.rotate", NAME), ("key.change", NAME)]
        self.assertEqual(self.audited()[:2], changes)

    def test_one_after_the_other(self) -> None:
        """The same person goes on with the same secret, as long as it opens the key for a while."""
        self.send(source="made")
        first = self.asked.request.secret
        self.plane.clock.advance((LIFE_MS - LEAST_LIFE_MS) / 1000)
        self.send(source="made")
        self.assertEqual(self.asked.request.secret, first)
        self.assertEqual(self.audited(), [("key.create", NAME)])
        self.plane.clock.advance(1)
        self.send(source="made")
        self.assertNotEqual(self.asked.request.secret, first)

    def test_two_at_once(self) -> None:
        """Of two who come while there is no key yet, the second finds what the first has made."""
        self.plane.writer.holding = True
        lookers = [self.send(source="made"), self.send(source="made")]
        self.plane.writer.holding = False
        self.plane.writer.run()
        self.assertEqual([looker.status for looker in lookers], [200, 200])
        first, second = self.plane.data_client.asked
        self.assertEqual(first.request.secret, second.request.secret)
        self.assertEqual(self.audited(), [("key.create", NAME)])

    def test_another_person(self) -> None:
        """Each has a secret of their own, so that the audit log knows who it was."""
        self.send(source="made")
        first = self.asked.request.secret
        body = b'{"name":"other","scope":"full"}'
        secret = self.plane.admin("POST", "/admin/admin-keys", body).json()["secret"]
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in(secret)
        self.visitor.page("/try")
        self.send(source="made")
        self.assertNotEqual(self.asked.request.secret, first)
        rows = self.plane.admin("GET", "/admin/audit").json()["entries"]
        self.assertEqual((rows[0]["action"], rows[0]["actor"]), ("key.rotate", "admin-key:other"))

    def test_rotated_by_somebody(self) -> None:
        """A secret that was taken away is not used."""
        self.send(source="made")
        self.plane.admin("POST", f"/admin/keys/{NAME}/rotate", b'{"grace_s":0}')
        self.send(source="made")
        key = self.plane.store.get(NAME)
        assert key is not None
        self.assertEqual(sha256_hex(self.asked.request.secret), key.current_sha256)

    def test_the_data_plane_has_not_heard(self) -> None:
        """It is asked again for some seconds, and its refusal counts only then."""
        looker = self.send(source="made")
        for pause in KEY_PAUSES:
            self.refuse(401, "invalid_api_key")
            self.assertNotIn("outcome", dict(looker.told))
            self.plane.clock.advance(pause)
        self.assertEqual(len(self.plane.data_client.asked), len(KEY_PAUSES) + 1)
        self.refuse(401, "invalid_api_key")
        self.assertIn("Refused with 401", looker.html("outcome"))

    def test_a_pasted_one_is_not_asked_for_again(self) -> None:
        looker = self.send()
        self.refuse(401, "invalid_api_key")
        self.assertIn("Refused with 401", looker.html("outcome"))

    def test_disabled(self) -> None:
        """Who has disabled it meant that."""
        self.send(source="made")
        self.plane.admin("PATCH", f"/admin/keys/{NAME}", b'{"disabled":true}')
        looker = self.send(source="made")
        self.assertEqual(looker.status, 409)
        self.assertIn("is disabled", looker.body)

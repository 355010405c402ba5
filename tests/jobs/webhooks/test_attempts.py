"""One attempt: what is sent, and what is not."""

import datetime
import json

from standardwebhooks import Webhook as Receiver
from twisted.internet import defer
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import WebhooksConfig
from omnigate.jobs.job import DELIVERED, PENDING
from omnigate.jobs.webhooks.attempts import BACKSTOP_SECONDS
from omnigate.outbound.messages import REFUSED, Answer
from tests.jobs.webhooks.fakes import SECRET, START_MS, Sent, World

OTHER = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7"


class RequestTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def sent(self) -> Sent:
        self.world.job()
        self.world.pass_time(0)
        return self.world.outbound.sent[-1]

    def test_the_request(self) -> None:
        """A POST of the job, signed, with bounds on time and answer, and no credential."""
        sent = self.sent()
        self.assertEqual(
            ("POST", "https://hooks.example/x"), (sent.request.method, sent.request.url)
        )
        self.assertEqual(
            ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"],
            [name for name, _ in sent.request.headers],
        )
        headers = dict(sent.request.headers)
        self.assertEqual("msg_job_1", headers["webhook-id"])
        self.assertEqual(str(START_MS // 1_000), headers["webhook-timestamp"])
        self.assertEqual(
            (15.0, 16_384, False), (sent.request.head_seconds, sent.max_bytes, sent.allow_http)
        )
        self.assertEqual("job.succeeded", sent.body["type"])
        self.assertEqual(
            {
                "url": "https://hooks.example/x",
                "state": PENDING,
                "attempts": 1,
                "last_status": None,
                "last_error": None,
            },
            sent.body["data"]["webhook"],
        )

    def test_each_attempt_is_signed_anew(self) -> None:
        """The id stays, the timestamp is the attempt's, and the secrets are those of now."""
        first = self.sent()
        self.world.outbound.reply(500)
        self.world.secrets = (OTHER, SECRET)
        self.world.pass_time(5)
        second = self.world.outbound.sent[1]
        self.assertEqual(500, second.body["data"]["webhook"]["last_status"])
        headers = [dict(sent.request.headers) for sent in (first, second)]
        self.assertEqual(headers[0]["webhook-id"], headers[1]["webhook-id"])
        self.assertEqual(
            5, int(headers[1]["webhook-timestamp"]) - int(headers[0]["webhook-timestamp"])
        )
        signed = datetime.datetime.fromtimestamp(START_MS // 1_000 + 5, datetime.UTC)
        expected = [
            Receiver(secret).sign("msg_job_1", signed, second.request.body.decode())
            for secret in (OTHER, SECRET)
        ]
        self.assertEqual(" ".join(expected), headers[1]["webhook-signature"])

    def test_http(self) -> None:
        """Whether plain http is allowed is up to the config."""
        self.world.settings = WebhooksConfig(allow_http=True)
        self.assertTrue(self.sent().allow_http)

    def test_without_a_secret(self) -> None:
        """A key without a secret is sent nothing for, but the attempt counts and is tried again."""
        self.world.secrets = ()
        self.world.job()
        self.world.pass_time(0)
        hook = self.world.hook()
        self.assertEqual(([], PENDING, 1), (self.world.outbound.sent, hook.state, hook.attempts))
        self.assertEqual("the key has no webhook secret", hook.last_error)
        self.assertEqual(1, self.world.hooks.counters.refused)
        self.world.secrets = (SECRET,)
        self.world.pass_time(5)
        self.assertEqual(1, len(self.world.outbound.sent))

    def test_unsigned(self) -> None:
        """It is sent unsigned where the config allows that."""
        self.world.secrets = ()
        self.world.settings = WebhooksConfig(allow_unsigned=True)
        self.assertNotIn("webhook-signature", dict(self.sent().request.headers))

    def test_a_malformed_secret(self) -> None:
        """Nothing is sent, and the reason does not repeat it."""
        self.world.secrets = ("whsec_tooshort",)
        self.world.job()
        self.world.pass_time(0)
        self.assertEqual([], self.world.outbound.sent)
        self.assertIn("24 to 64 bytes", self.world.hook().last_error)

    def test_a_private_address(self) -> None:
        """What the guard lets nowhere is a failed delivery with its reason."""
        self.world.outbound.answer = Answer(0, fault=REFUSED, detail="address not allowed")
        self.world.job()
        self.world.pass_time(0)
        hook = self.world.hook()
        self.assertEqual(
            (PENDING, 0, "address not allowed"), (hook.state, hook.last_status, hook.last_error)
        )
        self.assertEqual(
            (1, 0), (self.world.hooks.counters.refused, self.world.hooks.counters.failed)
        )

    def test_an_answer_that_never_comes(self) -> None:
        """Should the outbound side forget it, the attempt ends nevertheless."""
        self.sent()
        self.world.pass_time(BACKSTOP_SECONDS)
        hook = self.world.hook()
        self.assertEqual(
            (PENDING, 1, "no answer within 15 s"), (hook.state, hook.attempts, hook.last_error)
        )

    def test_an_outbound_side_that_closes(self) -> None:
        """What is canceled there is as good as cut off: the next attempt comes."""
        self.sent().answer.errback(defer.CancelledError())
        self.assertEqual((PENDING, 1), (self.world.hook().state, self.world.hook().attempts))
        self.world.pass_time(30)
        self.world.outbound.reply(200)
        self.assertEqual((DELIVERED, 2), (self.world.hook().state, self.world.hook().attempts))

    def test_the_body_is_json(self) -> None:
        """As it is sent it is the bytes that were signed."""
        request = self.sent().request
        self.assertEqual("job_1", json.loads(request.body)["data"]["id"])

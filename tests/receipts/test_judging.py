"""What a signature and a report are worth, by golden cases and by all that is out of joint."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.attested import Evidence, Exchanged, Signature, Told
from omnigate.receipts import receipt as words
from omnigate.receipts.judging import judge
from omnigate.receipts.quotes import QuoteError, read_quote, replayed_rtmr3
from omnigate.receipts.signatures import extra_is_there, judge_signature, keccak

CASES = json.loads((Path(__file__).parent.parent / "jobs/vectors/receipts.json").read_text())
NONCE = CASES["report_data"][0]["nonce"]
ADDRESS = CASES["report_data"][0]["signing_address"]


#: An event of the fourth register, whose digest is not taken on trust.
RUNTIME = {"event_type": 134217729, "imr": 3, "event": "a", "event_payload": "00"}
FORGED_LOG = words.EVENT_LOG_MISMATCH


def exchanged(**changes: Any) -> Exchanged:
    """What the data plane tells of the golden answer."""
    exchange = CASES["exchange"]
    facts: dict[str, Any] = {
        "id": "r1",
        "ts_ms": 1,
        "key_sha256": "a" * 64,
        "route_model": "deep",
        "upstream": "near",
        "target_model": exchange["target_model"],
        "stream": True,
        "completion_id": "chatcmpl-1",
        "request_sha256": exchange["request_sha256"],
        "response_sha256": exchange["response_sha256"],
    }
    return Exchanged(**{**facts, **changes})


def signature(index: int = 0, **changes: Any) -> Signature:
    """One of the golden signatures."""
    return Signature(**{**CASES["signatures"][index]["signature"], **changes})


def node(quote: str, **changes: Any) -> dict[str, Any]:
    """A report of one node."""
    return {"signing_address": ADDRESS, "intel_quote": quote, "request_nonce": NONCE, **changes}


def evidence(report: object, nonce: str = NONCE) -> Evidence:
    """What was fetched."""
    return Evidence(nonce=nonce, fetched_at_ms=5, report=msgspec.Raw(json.dumps(report).encode()))


class SignatureTests(SynchronousTestCase):
    """Golden signatures."""

    if not extra_is_there():
        skip = "the extra attest is not installed"

    def test_golden(self) -> None:
        """Each is judged as it should be."""
        for index, case in enumerate(CASES["signatures"]):
            found = judge_signature(exchanged(), signature(index))
            self.assertEqual(case["check"], found or "ok", case["about"])

    def test_keccak_is_not_sha3(self) -> None:
        """The empty message tells them apart."""
        digest = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
        self.assertEqual(digest, keccak(b"").hex())

    @given(st.text(max_size=80), st.text(max_size=140), st.text(max_size=60), st.text(max_size=9))
    @settings(max_examples=60, deadline=None)
    def test_nonsense(self, text: str, signed: str, address: str, algo: str) -> None:
        """Whatever a server sends is judged, and is no signature."""
        odd = Signature(text=text, signature=signed, signing_address=address, signing_algo=algo)
        self.assertTrue(judge_signature(exchanged(), odd))
        self.assertTrue(judge_signature(exchanged(), signature(signature=signed)))

    @given(st.integers(0, 64), st.integers(0, 7))
    @settings(max_examples=40, deadline=None)
    def test_one_bit(self, place: int, bit: int) -> None:
        """A signature with one bit changed is none."""
        signed = bytearray.fromhex(signature().signature[2:])
        signed[place] ^= 1 << bit
        changed = signature(signature=signed.hex())
        self.assertTrue(judge_signature(exchanged(), changed))


class QuoteTests(SynchronousTestCase):
    """Quotes and event logs."""

    def test_golden_quotes(self) -> None:
        """Each field stands where it should."""
        for case in CASES["quotes"]:
            quote, fields = read_quote(case["quote"]), case["fields"]
            self.assertEqual(fields["version"], quote.version)
            self.assertEqual(fields["debug"], quote.debug)
            self.assertEqual(fields["report_data"], quote.report_data.hex())

    def test_golden_log(self) -> None:
        """A log leads to its register, and one with an event missing to another."""
        log = CASES["event_log"]
        self.assertEqual(log["rtmr3"], (replayed_rtmr3(log["events"]) or b"").hex())
        self.assertEqual(log["rtmr3"], (replayed_rtmr3(json.dumps(log["events"])) or b"").hex())
        self.assertNotEqual(log["rtmr3"], (replayed_rtmr3(log["events"][1:]) or b"").hex())

    @given(st.one_of(st.none(), st.binary(max_size=700).map(bytes.hex), st.text(max_size=50)))
    def test_no_quotes(self, text: str | None) -> None:
        """What is none is said to be none."""
        try:
            read_quote(text)
        except QuoteError:
            return
        self.assertTrue(str(text).startswith(("0400", "0500", "BA", "BQ")))


class JudgingTests(SynchronousTestCase):
    """Verdicts."""

    if not extra_is_there():
        skip = "the extra attest is not installed"

    def verdict(self, told: Told) -> tuple[str, str]:
        """The verdict and its reason."""
        receipt = judge(told, 9)
        return receipt.verdict, receipt.reason

    def test_without_a_signature(self) -> None:
        """It is waited for, until it is given up."""
        self.assertEqual((words.PENDING, ""), self.verdict(Told(exchanged=exchanged())))
        told = Told(exchanged=exchanged(), settled=True)
        self.assertEqual((words.UNAVAILABLE, words.NO_SIGNATURE), self.verdict(told))
        told = Told(exchanged=exchanged(response_sha256=""), signature=signature())
        self.assertEqual((words.UNAVAILABLE, words.ANSWER_CUT_SHORT), self.verdict(told))
        told = Told(exchanged=exchanged(completion_id=""))
        self.assertEqual((words.UNAVAILABLE, words.NO_COMPLETION_ID), self.verdict(told))

    def test_a_tampered_answer(self) -> None:
        """It fails."""
        told = Told(exchanged=exchanged(response_sha256="0" * 64), signature=signature())
        self.assertEqual((words.FAILED, words.HASH_MISMATCH), self.verdict(told))

    def test_evidence(self) -> None:
        """What can be checked is; that the quote is genuine cannot."""
        quote = CASES["quotes"][0]["quote"]
        for report, reason in (
            (node(quote), words.NO_VERIFIER),
            ({"model_attestations": [{"signing_address": "0x00"}, node(quote)]}, words.NO_VERIFIER),
            ({"gateway_attestation": node(quote)}, words.NO_VERIFIER),
            (node(quote, signing_address="0x" + "11" * 20), words.SIGNER_UNKNOWN),
            (node("00"), words.QUOTE_INVALID),
            (node(CASES["quotes"][2]["quote"]), words.DEBUG_ENABLED),
            (node(quote, request_nonce="ab"), words.NONCE_MISMATCH),
            (node(quote, event_log=[]), words.EVENT_LOG_MISMATCH),
            (node(quote, info={"tcb_info": {"app_compose": "x"}}), words.COMPOSE_MISMATCH),
            ([], words.SIGNER_UNKNOWN),
            (node(quote, signing_address=[[]]), words.SIGNER_UNKNOWN),
            (node(quote, request_nonce=10**4299), words.NONCE_MISMATCH),
            (node(quote, event_log=[{**RUNTIME, "event_type": 134217729.0}]), FORGED_LOG),
            (node(quote, event_log=[{**RUNTIME, "event_type": 1e308}]), FORGED_LOG),
        ):
            told = Told(exchanged=exchanged(), signature=signature(), evidence=evidence(report))
            verdict = words.SIGNED if reason == words.NO_VERIFIER else words.FAILED
            self.assertEqual((verdict, reason), self.verdict(told), report)
        told = Told(exchanged=exchanged(), signature=signature())
        self.assertEqual((words.SIGNED, words.NO_EVIDENCE), self.verdict(told))
        old = evidence(node(quote), "0" * 64)
        told = Told(exchanged=exchanged(), signature=signature(), evidence=old)
        self.assertEqual((words.FAILED, words.NONCE_MISMATCH), self.verdict(told))

    def test_a_whole_report(self) -> None:
        """Log and compose that fit the registers, and a pin that does, or does not."""
        log = CASES["event_log"]
        quote = bytearray.fromhex(CASES["quotes"][0]["quote"])
        quote[48 + 184 : 48 + 232] = bytes.fromhex(log["mr_config_id"])
        quote[48 + 472 : 48 + 520] = bytes.fromhex(log["rtmr3"])
        info = {"tcb_info": json.dumps({"app_compose": log["app_compose"]})}
        report = node(quote.hex(), event_log=log["events"], info=info)
        digest = hashlib.sha256(log["app_compose"].encode()).hexdigest()
        for pinned, verdict in (((digest,), words.SIGNED), (("0" * 64,), words.FAILED)):
            told = Told(
                exchanged=exchanged(compose_hashes=pinned),
                signature=signature(),
                evidence=evidence(report),
            )
            receipt = judge(told, 9)
            self.assertEqual(verdict, receipt.verdict)
            self.assertEqual(words.OK, receipt.checks["event_log"])
            self.assertEqual(words.OK, receipt.checks["compose"])
            self.assertEqual(digest, receipt.evidence["compose_hash"])
        self.assertEqual(words.NOT_OK, receipt.checks["pinned_compose"])
        self.assertNotIn(quote.hex(), json.dumps(msgspec.to_builtins(receipt)))

    def test_reports_that_take_long(self) -> None:
        """One that nests deep or holds very many values is none, wherever these stand."""
        deep: object = []
        for _ in range(80):
            deep = [deep]
        many = [1e308] * 20_000
        began = time.thread_time()
        for report, reason in (
            (node("00", other=deep), words.NO_EVIDENCE),
            (node("00", other=many), words.NO_EVIDENCE),
            (node(CASES["quotes"][0]["quote"], event_log=json.dumps(many)), FORGED_LOG),
        ):
            told = Told(exchanged=exchanged(), signature=signature(), evidence=evidence(report))
            self.assertEqual(reason, judge(told, 9).reason)
        self.assertLess(time.thread_time() - began, 0.5)

    @given(
        st.recursive(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.floats(allow_nan=False, allow_infinity=False),
                st.text(max_size=8),
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4),
                st.dictionaries(
                    st.sampled_from(
                        (
                            "signing_address",
                            "intel_quote",
                            "event_log",
                            "info",
                            "tcb_info",
                            "model_attestations",
                            "gateway_attestation",
                            "request_nonce",
                        )
                    ),
                    inner,
                    max_size=4,
                ),
            ),
            max_leaves=12,
        )
    )
    @settings(max_examples=60, deadline=None)
    def test_any_report(self, report: object) -> None:
        """Nothing that a server sends breaks it, and nothing odd is believed."""
        told = Told(exchanged=exchanged(), signature=signature(), evidence=evidence(report))
        self.assertEqual(words.FAILED, judge(told, 9).verdict)

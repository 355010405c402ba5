"""What the tests of translation with the official packages share: a gateway, the play, the faults.

Every route leads to one upstream that speaks one protocol, so that each package meets all three.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from omnigate.testing.provider import Served
from omnigate.testing.provider_loop import ANSWER, thought_of
from tests.process.daemons import Gateway, key_table, route_table, shared, upstream_table
from tests.process.sdk import SdkCase
from tests.process.sdk_loops import PLAYS, Said, Turn

#: What a route's name ends with: its upstream, and what its model can do.
KINDS: Mapping[str, tuple[str, str]] = {
    "chat": ("openai", 'upstream_api = "chat", reasoning = true'),
    "responses": ("openai", 'upstream_api = "responses", reasoning = true'),
    "messages": ("anthropic", 'thinking = "adaptive", mid_system = true'),
    "budget": ("anthropic", 'thinking = "budget", mid_system = false'),
    # What this one thinks, only its provider can read.
    "redacted": ("anthropic", 'thinking = "adaptive"'),
}
#: Of each kind a name of its own, so that the provider counts it apart.
LOOPS = {
    kind: f"fake-loop-cached-100-cache-write-20-input-{500 + number}"
    + ("-redacted" if kind == "redacted" else "")
    for number, kind in enumerate(KINDS)
}
#: Uncached input, from the cache, into the cache.
INPUTS = {kind: (380 + number, 100, 20) for number, kind in enumerate(KINDS)}
#: What the fake model counts of "Hello, gateway": four bytes a token, the role's and, of an item of
#: Responses, the type's too.
HELLO_TOKENS = {"chat": 5, "messages": 5, "responses": 7}
#: How a provider fails, by what its routes begin with.
FAULTS = (
    "400",
    "401",
    "404",
    "413",
    "429-retry-after-7",
    "503",
    "html",
    "no-credit",
    "too-long",
    "cut-after-5",
    "error-event-after-5",
    "small",
    "tools",
)


def _config(provider_port: int) -> str:
    tables = [key_table("app")]
    tables += [upstream_table(name, name, provider_port) for name in ("openai", "anthropic")]
    for kind, (upstream, caps) in KINDS.items():
        targets = {"loop": LOOPS[kind]} | {fault: f"fake-{fault}" for fault in FAULTS}
        for name, target in targets.items():
            tables.append(route_table(f"{name}-{kind}", (upstream, target)))
            tables.append(f"  caps = {{ {caps} }}\n")
    return "".join(tables)


class TranslatedCase(SdkCase):
    """With a gateway whose every route is of one protocol."""

    def find_gateway(self) -> Gateway:
        """The gateway of all these tests."""
        return shared("translated", lambda: Gateway(_config).start())

    async def play_loop(
        self,
        client: Any,
        protocol: str,
        kind: str,
        streamed: bool,
        shown: bool = True,
        turn: Turn | None = None,
    ) -> None:
        """Play the three turns, and look at what each of them told and cost.

        :param kind: of the upstream; a key of :data:`KINDS`.
        :param shown: whether the client is to see what the model thinks.
        :param turn: takes a turn otherwise than this protocol's usual client.
        """
        opening, usual, (calling, stopped) = PLAYS[protocol]
        turn = turn or usual
        request = opening()
        upstream = KINDS[kind][0]
        before = self.served(LOOPS[kind])
        spent = 0
        for number, calls in enumerate((["get_weather", "get_time"], [], [])):
            self.answers.clear()
            said = await turn(client, f"loop-{kind}", request, streamed)
            where = f"{protocol} at {kind}, streamed {streamed}, turn {number + 1}"
            self.assertEqual(said.thought, thought_of(number) if shown else "", where)
            self.assertEqual(said.stop, calling if said.calls else stopped, where)
            if calls:
                self.assertEqual(said.calls, calls, where)
            self.assertEqual(bool(said.calls), number < 2, where)
            self.check_figures(said, kind, number, where)
            self.assert_billed(protocol, said.tokens, stream=streamed, upstream=upstream)
            spent += said.tokens[3]
        self.check_answer(said.text, where)
        # The provider's own books say the same.
        after = self.served(LOOPS[kind])
        made = {name: after[name] - before[name] for name in after}
        uncached, cached, written = INPUTS[kind]
        billed = {
            "requests": 3,
            "input_tokens": 3 * uncached,
            "cached_input_tokens": 3 * cached,
            "cache_write_input_tokens": 3 * written,
            "output_tokens": spent,
        }
        self.assertEqual(made, billed, where)

    def check_figures(self, said: Said, kind: str, number: int, where: str) -> None:
        """The client is told the provider's own figures."""
        self.assertEqual(said.tokens[:3], INPUTS[kind], where)
        self.assertEqual(said.thinking, -(-len(thought_of(number)) // 4), where)

    def check_answer(self, text: str, where: str) -> None:
        """The last turn is the answer in its form, character for character."""
        self.assertEqual(json.loads(text), ANSWER, where)

    def served(self, model: str) -> dict[str, int]:
        """What the provider says that it served of a model."""
        row = self.gateway.served()["models"].get(model)
        return row or attrs.asdict(Served())

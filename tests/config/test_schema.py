"""Tests for reading the text of a config file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import MediaConfig, OutboundConfig, WebhooksConfig
from omnigate.config.schema import (
    MAX_CONFIG_BYTES,
    MAX_FAULTS,
    MAX_KEY_PARTS,
    Config,
    ConfigError,
    CooldownConfig,
    load_config,
)
from omnigate.config.structure import Fault

WHOLE = """
[[keys]]
name = "app"
key_sha256 = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"
rpm = 600
models = ["fast", "claude-*"]
max_concurrent = 64
budget_usd = 50.10
budget_period = "weekly"
budget_timezone = "Europe/Stockholm"
soft_budget_usd = 40
max_open_jobs = 20
max_jobs_per_day = 1000
webhook_secret_env = "APP_WEBHOOK_SECRET"
age_recipients = ["age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"]

[[upstreams]]
name = "openai"
protocol = "openai"
base_url = "https://api.openai.com/v1"
api_key_env = "OPENAI_API_KEY"
connect_timeout_ms = 5000
head_timeout_ms = 120000
cooldown = { failures = 2, window_s = 20, seconds = 10 }
abandon = "cancel"
proxy = "http://proxy.example.net:3128"
ca_file = "/etc/ca.pem"

[[upstreams]]
name = "anthropic"
protocol = "anthropic"
base_url = "https://api.anthropic.com/v1"
anthropic_version = "2026-10-21"
drop_betas = ["context-1m-2025-08-07"]

[[routes]]
model = "fast"
strategy = "weighted"
cache_ttl_s = 0
  [[routes.targets]]
  upstream = "openai"
  model = "gpt-4o-mini"
  weight = 3
  price = { input = 0.15, cached_input = 0.075, cache_write = 0.0, output = 0.60 }
  caps = { sampling = true, thinking = "adaptive", efforts = ["low", "high"] }
  default_max_tokens = 4096
  [[routes.targets]]
  upstream = "anthropic"
  model = "claude-haiku-5-5"

[media]
max_input_bytes = 1000000
max_output_bytes = 536870912
max_outputs_per_job = 8
max_job_output_bytes = 1073741824
poll_interval_ms = 1500
max_jobs_per_day = 5000
max_running_per_provider = 32
signed_url_ttl_s = 3600
public_url = "https://ai.example.net"
storage = "s3"
age_recipients = ["age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"]
  [media.webhooks]
  max_attempts = 5
  max_concurrent = 8
  max_concurrent_per_key = 2
  allow_http = false
  allow_unsigned = true
  [media.s3]
  endpoint = "https://s3.example.net"
  bucket = "outputs"
  region = "eu-north-1"
  addressing = "virtual"
  access_key_env = "S3_ACCESS_KEY"
  secret_key_env = "S3_SECRET_KEY"
  session_token_env = "S3_SESSION_TOKEN"
  [[media.routes]]
  model = "film"
  timeout_s = 900
  cache_ttl_s = 60
  allowed_input = ["prompt", "duration", "resolution"]
  price_multipliers = { resolution = { "480p" = 0.5, "720p" = 1 } }
    [[media.routes.targets]]
    adapter = "xai_video"
    model = "grok-imagine-video"
    api_key_env = "XAI_API_KEY"
    price = { per_job = 0.01, per_output = 0, per_second = 0.05, per_million_characters = 3 }
    default_seconds = 5
    min_seconds = 1
    max_seconds = 10
    [[media.routes.targets]]
    adapter = "gemini_interactions"
    model = "omni"
    base_url = "http://127.0.0.1:9000/gemini/"
    background = false

[outbound]
allow = ["10.1.2.0/24"]
refuse = ["203.0.113.9"]

[retention]
ledger_days = 0
ledger_ids_days = 3
jobs_days = 30
receipts_days = 90
"""

BAD = """
colour = 1
[[keys]]
name = "app"
key_env = "A"
rmp = 3
[[keys]]
name = "app"
key_sha256 = "short"
[[upstreams]]
name = "openai"
protocol = "openai"
base_url = "https://api.openai.com"
[[routes]]
model = "fast"
cache_ttl_s = -1
[[routes.targets]]
upstream = "opnai"
model = "gpt-4o-mini"
price = { input = -1 }
[media]
max_outputs_per_job = 0
public_url = "https://ai.example.net/v1/"
age_recipients = ["AGE-SECRET-KEY-1"]
s3 = { endpoint = "https://s3.example.net/x", bucket = "B", access_key_env = "A B" }
[[media.routes]]
model = "film"
price_multipliers = { size = {} }
targets = [{ adapter = "repliate", model = "m", base_url = "ftp://h" }]
[outbound]
allow = ["10.1.2.1/24"]
"""


class LoadTests(SynchronousTestCase):
    """What a good file becomes, and how much of a bad one is told."""

    def raised(self, text: str) -> tuple[Fault, ...]:
        with self.assertRaises(ConfigError) as caught:
            load_config(text)
        self.assertEqual(
            str(caught.exception), "\n".join(str(fault) for fault in caught.exception.faults)
        )
        faults: tuple[Fault, ...] = caught.exception.faults
        return faults

    def faults(self, text: str) -> list[str]:
        return [str(fault) for fault in self.raised(text)]

    def test_the_whole_text_part(self) -> None:
        config = load_config(WHOLE)
        (key,) = config.keys
        self.assertEqual(key.key_sha256, key.key_sha256 and key.key_sha256.lower())
        self.assertEqual((key.budget_usd, key.budget_period), (Decimal("50.10"), "weekly"))
        self.assertEqual((key.budget_nano, key.soft_budget_nano), (50_100_000_000, 40 * 10**9))
        self.assertEqual(key.budget_timezone, "Europe/Stockholm")
        openai, anthropic = config.upstreams
        self.assertEqual(openai.cooldown, CooldownConfig(2, 20, 10))
        self.assertEqual(
            (openai.proxy, openai.abandon), ("http://proxy.example.net:3128", "cancel")
        )
        self.assertEqual(anthropic.cooldown, CooldownConfig(3, 30, 30))
        self.assertEqual(anthropic.drop_betas, ("context-1m-2025-08-07",))
        route = config.routes_by_model["fast"]
        first, second = route.targets
        assert first.price is not None
        self.assertEqual(first.price.cached_input, Decimal("0.075"))
        self.assertEqual((first.caps.efforts, first.default_max_tokens), (("low", "high"), 4096))
        self.assertEqual((second.price, second.weight, second.caps.sampling), (None, 1, None))

    def test_an_empty_file_is_a_config(self) -> None:
        self.assertEqual(load_config(""), Config())
        self.assertEqual(load_config("\ufeff# nothing\r\n"), Config())

    def test_the_defaults_of_a_key(self) -> None:
        (key,) = load_config('keys = [{name = "a", key_env = "A"}]').keys
        self.assertEqual((key.rpm, key.models, key.max_concurrent), (0, None, 0))
        self.assertEqual((key.budget_nano, key.budget_period), (None, "total"))
        self.assertEqual((key.soft_budget_nano, key.budget_timezone), (None, "UTC"))

    def test_every_fault_is_told_at_once(self) -> None:
        faults = self.raised(BAD)
        self.assertEqual(
            [fault.path for fault in faults],
            [
                "colour",
                "keys[0].rmp",
                "keys[1].key_sha256",
                "keys[1].name",
                "media.age_recipients[0]",
                "media.max_outputs_per_job",
                "media.public_url",
                "media.routes[0].price_multipliers",
                "media.routes[0].targets[0].adapter",
                "media.routes[0].targets[0].base_url",
                "media.s3.access_key_env",
                "media.s3.bucket",
                "media.s3.endpoint",
                "media.s3.secret_key_env",
                "outbound.allow[0]",
                "routes[0].cache_ttl_s",
                "routes[0].targets[0].price.input",
                "routes[0].targets[0].price.output",
                "routes[0].targets[0].upstream",
                "upstreams[0].base_url",
            ],
        )
        self.assertIn(
            Fault(
                "routes[0].targets[0].upstream",
                'no upstream named "opnai" (did you mean "openai"?)',
            ),
            faults,
        )
        self.assertIn(Fault("keys[0].rmp", 'unknown key (did you mean "rpm"?)'), faults)

    def test_faults_name_their_table(self) -> None:
        """A key, an upstream or a route is told by its name too, if it has one that can be."""
        for text, told in (
            ('[[keys]]\nname = "app"\nkey_env = "A"\nrmp = 1', 'keys[0].rmp ("app"): '),
            ('[[keys]]\nname = "app"', 'keys[0] ("app"): '),
            ('[[routes]]\nmodel = "a/b"', 'routes[0].targets ("a/b"): '),
            ('[[keys]]\nkey_env = "A"', "keys[0].name: "),
            ('[[keys]]\nname = "a b"\nkey_env = "A"\nrmp = 1', "keys[0].rmp: "),
            ('[[keys]]\nname = 3\nkey_env = "A"\nrmp = 1', "keys[0].rmp: "),
            ('[[media.routes]]\nmodel = "film"', 'media.routes[0].targets ("film"): '),
            ("[media]\nroutes = [3]", "media.routes[0]: "),
            ("media = [3]", "media: "),
            ("keys = [3]", "keys[0]: "),
            ('keys = {name = "a"}', "keys: "),
            ("[[keyz]]\nname = 'a'", "keyz: "),
        ):
            faults = self.faults(text)
            self.assertTrue(any(fault.startswith(told) for fault in faults), (told, faults))

    def test_the_media_part(self) -> None:
        """Each of its tables becomes its class, and prices nano-dollars."""
        config = load_config(WHOLE)
        (key,), media = config.keys, config.media
        self.assertEqual((key.max_open_jobs, key.max_jobs_per_day), (20, 1000))
        self.assertEqual(key.webhook_secret_env, "APP_WEBHOOK_SECRET")
        self.assertEqual(key.age_recipients, media.age_recipients)
        self.assertEqual((media.storage, media.public_url), ("s3", "https://ai.example.net"))
        self.assertEqual(media.webhooks, WebhooksConfig(5, 8, 2, False, True))
        assert media.s3 is not None
        self.assertEqual((media.s3.addressing, media.s3.region), ("virtual", "eu-north-1"))
        film = config.media_by_model["film"]
        factors = {"480p": Decimal("0.5"), "720p": Decimal(1)}
        self.assertEqual(film.price_multipliers, {"resolution": factors})
        first, second = film.targets
        assert first.price is not None
        self.assertEqual(first.price.nano, (10**7, 0, 5 * 10**7, 3 * 10**9))
        self.assertEqual((first.base_url, first.background), (None, None))
        self.assertEqual(second.base_url, "http://127.0.0.1:9000/gemini")
        self.assertEqual((second.price, second.background, second.min_seconds), (None, False, 0))
        self.assertEqual(config.outbound, OutboundConfig(("10.1.2.0/24",), ("203.0.113.9",)))
        plain = load_config("")
        self.assertEqual((plain.media, plain.outbound), (MediaConfig(), OutboundConfig()))
        self.assertEqual(plain.media.webhooks, WebhooksConfig(8, 16, 4, False, False))

    def test_syntax_faults_have_their_line(self) -> None:
        (fault,) = self.faults('[[keys]]\nname = "a\nrpm = 1\n')
        self.assertTrue(fault.startswith("line 2, column 10: "), fault)
        (fault,) = self.faults("a = 1\nb = [\n")
        self.assertTrue(fault.startswith("end of document: "), fault)

    def test_hostile_texts(self) -> None:
        """Deep nesting, giant numbers and a file without end are faults, not crashes."""
        self.assertEqual(
            self.faults("a = " + "[" * 20_000), ["arrays or tables are nested too deep"]
        )
        self.assertEqual(
            self.faults("b = 12\na = " + "9_9" * 2_500),
            ["line 2: a number has thousands of digits"],
        )
        for key in ("a", '"b.\\".\'"', "'c.\"'", " d "):
            longest = ".".join([key] * MAX_KEY_PARTS)
            for text in ("{}.x = 1", "[{}.x]", " [[ {}.x]]", "e = {{f = 1, {}.x = 2}}"):
                found = self.faults("# a.b\n" + text.format(longest) + "\n")
                self.assertEqual(found, [f"line 2: a key has more than {MAX_KEY_PARTS} parts"])
                found = self.faults(text.replace(".x", "").format(longest))
                self.assertIn("unknown key", found[0])
            self.assertIn("parts", self.faults("\ufeff" + ".".join([key] * 100_000) + " = 1")[0])
        dots = "a." * 1000
        for text in (f"# {dots}", f"#{dots}"):
            self.assertEqual(load_config(text), Config())
        self.assertIn("unknown key", self.faults(f"e = '{dots}'")[0])
        self.assertIn("unknown key", self.faults(f'e = {{f = ["{dots}", "x"]}}')[0])
        self.faults("[retention]\nledger_days = 1e99999999999999999999")
        self.faults("keys = [{name='a', key_env='A', budget_usd = inf}]")
        self.faults("keys = [{name='a', key_env='A', budget_usd = nan}]")
        self.assertIn("longer than", self.faults("#" * (MAX_CONFIG_BYTES + 1))[0])

    def test_the_list_of_faults_is_bounded(self) -> None:
        text = "".join(f"k{number} = 1\n" for number in range(MAX_FAULTS + 7))
        faults = self.faults(text)
        self.assertEqual((len(faults), faults[-1]), (MAX_FAULTS + 1, "and 7 more faults"))

    def test_suggestions_are_bounded(self) -> None:
        """A known key is looked for beside the first unknown ones of a table, not beside all."""
        text = "".join(f"route{number:04} = 1\n" for number in range(MAX_FAULTS))
        faults = self.faults(text)
        self.assertEqual(sum("did you mean" in fault for fault in faults), 50)

    def test_paths_are_in_the_order_of_the_file(self) -> None:
        keys = ",".join(f'{{name = "k{n}", key_env = "K{n}", q = 1}}' for n in range(12))
        paths = [fault.path for fault in self.raised(f"keys = [{keys}]")]
        self.assertEqual(paths, [f"keys[{number}].q" for number in range(12)])

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.text(max_size=8))
    def test_any_edit_of_a_good_file_is_a_config_or_faults(
        self, start: int, length: int, put: str
    ) -> None:
        """A file torn anywhere never raises anything but ConfigError."""
        try:
            load_config(WHOLE[:start] + put + WHOLE[start + length :])
        except ConfigError as error:
            self.assertTrue(error.faults)


class ShippedFileTests(SynchronousTestCase):
    """The annotated file of the distribution."""

    def test_it_is_valid_and_so_are_its_commented_lines(self) -> None:
        path = Path(__file__).parents[2] / "etc" / "omnigate.toml"
        text = path.read_text("utf-8")
        config = load_config(text)
        self.assertEqual([upstream.name for upstream in config.upstreams], ["openai", "anthropic"])
        self.assertEqual(config.keys[0].key_env, "OMNIGATE_KEY_APP")
        # Every commented line that looks like a setting is made one.
        lines = []
        for line in text.splitlines():
            bare = line.strip().removeprefix("# ").strip()
            setting = bare.startswith("[") or bare.partition(" ")[2].startswith("= ")
            lines.append(bare if line.strip().startswith("# ") and setting else line)
        more = load_config("\n".join(lines))
        self.assertEqual(
            ([key.name for key in more.keys], [up.name for up in more.upstreams]),
            (["app", "batch"], ["openai", "anthropic", "local"]),
        )
        self.assertEqual(list(more.media_by_model), ["flux", "film"])
        assert more.media.s3 is not None
        self.assertEqual((more.media.storage, more.media.s3.bucket), ("s3", "outputs"))
        self.assertEqual(more.outbound.allow, ("10.1.2.0/24",))

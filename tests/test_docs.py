"""The pages under docs/ tell of everything there is, and of nothing that is not."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
from twisted.internet.task import Clock
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from manual.pages import pages
from omnigate.capabilities import DEFAULT_ANTHROPIC_VERSION, Capabilities
from omnigate.cli import parser
from omnigate.commands.spelling import spelled
from omnigate.config.media import (
    MediaConfig,
    MediaRouteConfig,
    MediaTargetConfig,
    S3Config,
    WebhooksConfig,
)
from omnigate.config.models import WITHOUT_SAMPLING
from omnigate.config.schema import CapsConfig, KeyConfig, TargetConfig
from omnigate.control.audit import AuditLog
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.dialects.count_tokens import ESTIMATE_LINE, TOKENS_PER_FRAME
from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.dialects.meter import BYTES_PER_TOKEN, TOKENS_PER_MEDIA_PART
from omnigate.errors import ADMIN_ERRORS, ERRORS, ErrorKind
from omnigate.gateway.figure_sums import FigureSums
from omnigate.gateway.figures import FAMILIES
from omnigate.gateway.quirks import MAX_QUIRKS
from omnigate.ledger.service import Ledger
from omnigate.metric_text import family_of
from omnigate.reactor_lag import ReactorLag
from omnigate.receipts.store import ReceiptStore
from omnigate.settings import FREE_PREFIX
from omnigate.settings_table import SETTINGS
from omnigate.testing.writer import SynchronousWriter
from tests.gateway.scraping import Figures, Parts, figures_of, metrics_of
from tests.planes.memory import MemoryDataPlane

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = (
    "api.md",
    "configuration.md",
    "command-line.md",
    "translation.md",
    "operations.md",
    "dashboard.md",
    "observe.md",
    "keys-and-budgets.md",
    "ledger.md",
    "jobs.md",
    "media-providers.md",
    "receipts.md",
    "internals.md",
)
# Files whose words an operator copies.
TOLD = (
    *(f"docs/{page}" for page in PAGES),
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "etc/data.env",
    "etc/control.env",
    "etc/omnigate.toml",
    "systemd/omnigate-data.service",
    "systemd/omnigate-data.socket",
    "systemd/omnigate-control.service",
)
PROBES = ("/healthz", "/livez", "/readyz", "/v1/models", "/v1/models/{id}")
METRIC = re.compile(r"omnigate_[a-z_]+")


def page(name: str) -> str:
    """The text of a page."""
    if not DOCS.is_dir():
        raise SkipTest("the pages are in the checkout only, not in the installed package")
    return (DOCS / name).read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """The text under a heading of a page, up to the next of its kind."""
    return page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def calls_of(name: str, package: str) -> Iterator[list[str]]:
    """The leading text arguments of each call of ``name`` in a package's source."""
    for path in sorted((ROOT / "omnigate" / package).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id == name:
                values = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                yield [value for value in values if isinstance(value, str)]


class SettingTests(SynchronousTestCase):
    """Settings."""

    def test_every_setting_has_its_row(self) -> None:
        """With its planes, its default and its meaning as the table of settings has them."""
        text = page("configuration.md")
        for setting in SETTINGS:
            planes = "both" if len(setting.planes) == 2 else setting.planes[0]
            default = "must be given" if setting.default is None else f"`{setting.default}`"
            row = f"| `{setting.name}` | {planes} | {default} | {setting.meaning} |"
            self.assertIn(row, text)

    def test_no_page_names_a_setting_that_is_not(self) -> None:
        """Every OMNIGATE_ variable in pages, templates and units is one that is read."""
        page("api.md")
        known = {setting.name for setting in SETTINGS}
        known |= {f"{setting.name}_FILE" for setting in SETTINGS if setting.secret}
        for name in TOLD:
            text = (ROOT / name).read_text(encoding="utf-8")
            for found in re.findall(r"OMNIGATE_[A-Z_]*[A-Z]", text):
                if not found.startswith((FREE_PREFIX, "OMNIGATE_TEST_")):
                    self.assertIn(found, known, name)

    def test_the_options_are_told(self) -> None:
        """Each option of a twistd subcommand stands on the page."""
        text = page("configuration.md")
        for setting in SETTINGS:
            if setting.option is not None:
                self.assertIn(f"`--{setting.option}`", text)


class ApiTests(SynchronousTestCase):
    """Errors and paths."""

    def test_every_error_has_its_row(self) -> None:
        """Status, code and both categories as the table of errors has them."""
        text = page("api.md")

        def told(kind: ErrorKind) -> bool:
            row = f"| {kind.status} | `{kind.code}` | {kind.openai_type} | {kind.anthropic_type} | "
            return row in text or f"| {kind.status} | `{kind.code}` | " in admin

        admin = text.partition("## The admin API")[2]
        later = text.partition("are kept for media jobs")[0].rpartition("\n\n")[2]
        for kind in (*ERRORS.values(), *ADMIN_ERRORS.values()):
            self.assertTrue(told(kind) or f"`{kind.code}`" in later, kind)

    def test_every_public_path(self) -> None:
        """Model endpoints, model list and probes."""
        text = page("api.md").partition("## Errors")[0]
        for endpoint in ENDPOINTS.values():
            self.assertIn(f"| `POST {endpoint.path}` |", text)
        for path in PROBES:
            self.assertIn(f"`GET {path}`", text)

    def test_every_path_of_the_control_plane(self) -> None:
        """Each endpoint that the control plane's source declares."""
        text = page("api.md").partition("## The admin API")[2]
        found = [call[:2] for call in calls_of("Endpoint", "control") if len(call) >= 2]
        for method, pattern in found:
            self.assertRegex(text, rf"`{method} {re.escape(pattern)}[`?]")


class TranslationTests(SynchronousTestCase):
    """What models can do, and what is told of a translation."""

    def test_every_capability_has_its_row(self) -> None:
        """The table has the names that a target's ``caps`` may hold, and no others."""
        rows = re.findall(
            r"(?m)^\| `(\w+)` \| (?:both|OpenAI|Anthropic) \| ", page("translation.md")
        )
        self.assertEqual(sorted(rows), sorted(field.name for field in attrs.fields(CapsConfig)))

    def test_every_key_of_a_target_has_its_row(self) -> None:
        text = page("configuration.md").partition("and in `[[routes.targets]]`:")[2]
        rows = text.partition("\n\n")[2].partition("\n\n")[0]
        for field in attrs.fields(TargetConfig):
            self.assertIn(f"`{field.name}`", rows)

    def test_every_key_of_media_has_its_row(self) -> None:
        """With its default, where that is a number or a word."""
        text = page("configuration.md")
        for cls, above in (
            (KeyConfig, "### `[[keys]]`"),
            (MediaConfig, "### `[media]`"),
            (S3Config, "`[media.s3]`, "),
            (WebhooksConfig, "`[media.webhooks]`, "),
            (MediaRouteConfig, "`[[media.routes]]`, "),
            (MediaTargetConfig, "and in `[[media.routes.targets]]`"),
        ):
            rows = text.partition(f"\n{above}")[2].partition("|---|---|---|\n")[2]
            rows = rows.partition("\n\n")[0]
            for field in attrs.fields(cls):
                if field.name in ("routes", "s3", "webhooks"):
                    continue
                self.assertIn(f"`{field.name}`", rows)
                if cls is not KeyConfig and type(field.default) is int:
                    self.assertIn(f"| `{field.name}` | {field.default} |", rows)
                elif cls is not KeyConfig and type(field.default) is str:
                    self.assertIn(f"| `{field.name}` | `{field.default}` |", rows)

    def test_figures_are_those_of_the_code(self) -> None:
        """Bounds and defaults that the page tells of."""
        text = page("translation.md")
        for figure in (
            f"`{DEFAULT_ANTHROPIC_VERSION}`",
            f"`{WITHOUT_SAMPLING}`",
            f"{MAX_QUIRKS:,} such",
            f"for {('no', 'one', 'two', 'three', 'four')[BYTES_PER_TOKEN]} bytes of text",
            f"{TOKENS_PER_MEDIA_PART:,} for a picture",
            f"and {TOKENS_PER_FRAME} for each message",
            f"`{ESTIMATE_LINE.decode().strip()}`",
        ):
            self.assertIn(figure, text.replace("\n", " "))
        self.assertIn(
            f"| `default_max_tokens` | {Capabilities().default_max_tokens} |",
            page("configuration.md"),
        )


class OperationsTests(SynchronousTestCase):
    """Metrics and the command line."""

    def test_every_metric(self) -> None:
        """The control plane shows what the page tells of, and the page tells of all it shows."""
        told = set(METRIC.findall(section("observe.md", "Metrics")))
        metrics = ControlMetrics()
        ledger = Ledger("nowhere", Clock(), SynchronousWriter(), lambda event: None)
        config_file = ConfigFile("nowhere", Clock(), lambda name: None)
        reports = Reports(0)
        memory = MemoryDataPlane()
        figures = figures_of(memory, Parts(memory.plane, certificate=Figures())).gauges()
        reports.report_figures(figures, 0.0)
        metrics.watch_plane(config_file, reports, ReactorLag(Clock()), lambda: 0.0)
        metrics.watch_ledger(ledger)
        metrics.watch_certificate(None)
        metrics.watch_stores(lambda: True, lambda: 0)
        book = KeyBook(KeyStore("nowhere", SynchronousWriter(), lambda: 0))
        metrics.watch_audit(AuditLog("nowhere", Clock(), SynchronousWriter(), lambda: 0, 1))
        metrics.watch_receipts(
            ReceiptStore("nowhere", Clock(), SynchronousWriter(), lambda: 0, lambda: 0)
        )
        metrics.watch_budgets(BudgetWatch(book, ledger, lambda: 0))
        metrics.watch_keys(book, lambda: 0)
        text = metrics.text(metrics.read(), False).decode()
        shown = set(re.findall(r"(?m)^# TYPE (omnigate_\w+) ", text))
        self.assertEqual(told, shown)

    def test_every_metric_of_the_data_plane(self) -> None:
        """The data plane shows what the page tells of, with the labels it tells of."""
        text = section("observe.md", "Metrics of the data plane")
        told = set(METRIC.findall(text))
        memory = MemoryDataPlane()
        families = list(metrics_of(memory).families(()))
        families += map(family_of, FigureSums().parts())
        shown = set()
        for family in families:
            name = family.name + "_total" * (family.type == "counter")
            if name.startswith("omnigate_"):
                shown.add(name)
        self.assertEqual(told, shown)
        for kept in FAMILIES:
            if kept.labels and kept.name.startswith("omnigate_"):
                self.assertIn(f"`{kept.name}{{{','.join(kept.labels)}}}`", text)

    def test_every_command(self) -> None:
        """The page on the command line names each command of the console script."""
        text = page("command-line.md")
        for command in spelled(parser()).walk():
            if len(command.path) == 1:
                self.assertRegex(text, rf"\| `omnigate {command.path[0]}\b")
            elif command.path:
                told = rf"`omnigate {command.path[0]} …`.*`{command.path[1]}`"
                self.assertRegex(text, rf"`omnigate {' '.join(command.path)}\b|{told}")


class ManualTests(SynchronousTestCase):
    """Pages of the manual."""

    def test_they_are_up_to_date(self) -> None:
        """They are what help, settings and docs make of them now; else write them with make man."""
        page("command-line.md")
        for name, text in pages().items():
            there = (ROOT / "manual" / name).read_text(encoding="utf-8")
            self.assertTrue(there == text, f"manual/{name} is not up to date; run: make man")


class LinkTests(SynchronousTestCase):
    """Links between the pages."""

    def test_links_lead_somewhere(self) -> None:
        """Every relative link names a file that is there, and a heading of it."""
        page("api.md")
        for name in (*(f"docs/{page}" for page in PAGES), "README.md", "CONTRIBUTING.md"):
            source = ROOT / name
            for link in re.findall(r"\]\(([^)\s]+)\)", source.read_text(encoding="utf-8")):
                if "://" in link:
                    continue
                path, _, heading = link.partition("#")
                target = source.parent / path if path else source
                self.assertTrue(target.is_file(), f"{name}: {link}")
                if heading:
                    headings = re.findall(r"(?m)^#+ (.+)$", target.read_text(encoding="utf-8"))
                    slugs = [
                        re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings
                    ]
                    self.assertIn(heading, slugs, f"{name}: {link}")

"""Tests for manual.roff: words and Markdown as roff has them."""

import shutil
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from manual.roff import MarkdownError, escaped, inline, item, line_of, markdown, sentence

TEXT = """\
A `code-word` and **strong**, *weak* ones, [a link](page.md#x), and 2 * 3.
Of one paragraph.

### A heading

| key | default | meaning | place |
|---|---|---|---|
| `a`, `b` | | what it is | here |
| `c` | `x\\|y` | it. | |

<!-- told to
nobody -->

* one
  goes on
* two

        deep
    .example 'here'

1. first
2. second
"""


class RoffTests(SynchronousTestCase):
    """roff."""

    def test_words(self) -> None:
        """Each sign is one sign again, and a line begins no request."""
        self.assertEqual(escaped("a\\b--c"), "a\\eb--c")
        self.assertEqual(escaped("--c", literal=True), "\\-\\-c")
        self.assertEqual(escaped("→…é"), "\\(->\\&...\\[u00E9]")
        self.assertEqual((line_of(".x"), line_of("'x"), line_of("x")), ("\\&.x", "\\&'x", "x"))
        self.assertEqual(
            inline("`a-b` **c `d`** *e* [f](g)"), "\\fBa\\-b\\fR \\fBc \\fBd\\fR\\fR \\fIe\\fR f"
        )
        self.assertEqual(item("t", "x")[:2], [".TP", "t"])
        for text, told in (("a b", "A b."), ("a.b c.", "a.b c."), ("\\fBa\\fR", "\\fBa\\fR.")):
            self.assertEqual(sentence(text), told)

    def test_markdown(self) -> None:
        """Every kind of block that the docs have."""
        self.assertEqual(
            markdown(TEXT),
            [
                ".PP",
                "A \\fBcode\\-word\\fR and \\fBstrong\\fR, \\fIweak\\fR ones, a link, and 2 * 3. "
                "Of one paragraph.",
                ".SS A heading",
                ".TP",
                "\\fBa\\fR, \\fBb\\fR",
                "What it is. Place: here.",
                ".TP",
                "\\fBc\\fR",
                "Default: \\fBx|y\\fR. It.",
                ".IP \\(bu 2",
                "one goes on",
                ".IP \\(bu 2",
                "two",
                ".PP",
                ".RS 4",
                ".nf",
                "    deep",
                "\\&.example \\(aqhere\\(aq",
                ".fi",
                ".RE",
                ".IP \\(bu 2",
                "first",
                ".IP \\(bu 2",
                "second",
            ],
        )
        for text in ("```\nx\n```", "<b>", "> said"):
            self.assertRaises(MarkdownError, markdown, text)

    @given(st.text(st.characters(categories=("L", "N", "P", "S"), max_codepoint=0x2FF), min_size=1))
    @settings(max_examples=20, deadline=None)
    def test_any_words(self, text: str) -> None:
        """groff shows the same letters again."""
        if not shutil.which("groff"):
            raise SkipTest("groff is not installed")
        page = f".nh\n.ll 5000u\n.TH X 1\n.nf\n{line_of(escaped(text, literal=True))}\n"
        run = subprocess.run(
            ["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=500n", "-ww"],
            input=page,
            capture_output=True,
            text=True,
        )
        self.assertEqual(run.stderr, "")
        self.assertIn(text, run.stdout)

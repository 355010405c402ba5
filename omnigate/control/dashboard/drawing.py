"""What all plots are made of: the plane and its grid, labels, a legend, and words on hover.

Across, everything is in per cent of the width, and up and down in pixels: letters keep their size
on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from omnigate.control.dashboard.scales import Scale, tick_text

# Pixels: the top of the plane that is drawn on, its height, and the height of all.
TOP: Final = 18
HEIGHT: Final = 160
WHOLE: Final = 200

#: Those that have a colour of their own; one more is grey.
COLOURS: Final = 8

NOTHING: Final = Markup("")

#: Beside a name in the legend.
LINE_KEY: Final = Markup('<line class="line" x1="0" x2="20" y1="5" y2="5"/>')
BLOCK_KEY: Final = Markup('<rect class="block" x="4" width="12" y="0" height="10"/>')


def plot(
    label: str,
    scale: Scale,
    unit: str,
    drawings: Sequence[Markup],
    names: Sequence[str],
    key: Markup,
) -> Markup:
    """Put a plot together.

    :param label: all of it in words.
    :param names: those of its series.
    :param key: what stands beside a name in the legend.
    """
    grid = []
    for tick in scale.ticks:
        y = TOP + (1 - scale.share(tick)) * HEIGHT
        grid.append(
            Markup('<line class="{}" x1="0" x2="100%" y1="{:.2f}" y2="{:.2f}"/>').format(
                "grid" if tick else "axis", y, y
            )
        )
    texts = [tick_text(tick, scale, unit) for tick in scale.ticks]
    width = 8 + 8 * max(map(len, texts))
    return Markup(
        '<figure class="plot"><div class="plot-frame" role="img" aria-label="{}">'
        '<svg width="{}" height="{}">{}</svg>'
        '<svg class="plot-area" width="100%" height="{}">{}{}</svg></div>{}</figure>'
    ).format(
        clean(label),
        width,
        WHOLE,
        NOTHING.join(
            Markup('<text x="{}" y="{:.2f}" text-anchor="end">{}</text>').format(
                width - 8, TOP + (1 - scale.share(tick)) * HEIGHT + 4, text
            )
            for tick, text in zip(scale.ticks, texts, strict=True)
        ),
        WHOLE,
        NOTHING.join(grid),
        NOTHING.join(drawings),
        legend(names, key),
    )


def hover(left: float, width: float, told: Sequence[str], blocks: Markup = NOTHING) -> Markup:
    """Draw a part of the plane that tells its values on hover, its place in shares of the width.

    :param blocks: what is drawn there, as SVG.
    """
    words = escape("\n".join(map(clean, told)))
    # There are hundreds of these: all else in them is numbers of ours.
    return Markup(
        f'<g class="moment"><title>{words}</title><rect class="reach" x="{percent(left)}%" '
        f'width="{percent(max(0.0, width))}%" y="{TOP}" height="{HEIGHT}"/>{blocks}</g>'
    )


def label(share: float, text: str, is_minor: bool, attribute: Markup) -> Markup:
    """Write below the plane; minor labels are left out on a phone."""
    anchor = "end" if share > 0.97 else "middle"  # on the left there is room below the scale
    return Markup('<text{} x="{}%" y="{}" text-anchor="{}"{}>{}</text>').format(
        Markup(' class="minor"') if is_minor else "",
        percent(share),
        WHOLE - 4,
        anchor,
        attribute,
        clean(text),
    )


def legend(names: Sequence[str], key: Markup) -> Markup:
    """Say which colour is what, where there are several."""
    if len(names) < 2:
        return NOTHING
    items = [
        Markup(
            '<li><svg class="key {}" viewBox="0 0 20 10" aria-hidden="true">{}</svg>{}</li>'
        ).format(colour(index, name), key, clean(name))
        for index, name in enumerate(names)
    ]
    return Markup('<ul class="legend">{}</ul>').format(NOTHING.join(items))


def colour(index: int, name: str) -> str:
    """Return the class of a series."""
    return "series-other" if name == "other" or index >= COLOURS else f"series-{index + 1}"


def percent(share: float) -> str:
    """Return a place across in per cent of the width."""
    return f"{min(1.0, max(0.0, share)) * 100:.3f}"


def clean(text: str) -> str:
    """Leave out what no XML may hold."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )

"""What all pictures share: colours, boxes, arrows, and how they are shown.

The pictures have a white background, so that they look the same in light and dark
themes, and in grey print. Every colour comes with a label that says the same, and every
picture with a text alternative.
"""

from __future__ import annotations

import functools
import html
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl

from ..i18n import translated
from ..observation import ranges

INK, FAINT, HOST = "#1a1a1a", "#6b6b6b", "#f2f2f2"
# Light tints of the Okabe-Ito colours, which colour-blind readers can tell apart.
TINTS = (
    "#fbe3a8", "#bfe3f7", "#a9dfc9", "#f6f0a0",
    "#b5cfe8", "#f3c3a4", "#e6c6da", "#d9d9d9",
)  # fmt: skip
# The same colours, dark enough for a line on white.
SHADES = (
    "#b07700", "#2a86bd", "#007a59", "#857b00",
    "#00558a", "#c04f00", "#a8578a", "#6b6b6b",
)  # fmt: skip
LINES = ("-", "--", ":", "-.")
CENTRED = {"ha": "center", "va": "center"}
STYLE = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "white"),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.min_exponent": 5,  # 0.6 on a logarithmic axis, not 6e-1
    "axes.titlesize": 11,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def styled(draw: Callable) -> Callable:
    """Decorates what draws, so that a picture looks the same under any theme.

    The first picture imports pyplot: it takes time, and most processes draw nothing.
    """

    @functools.wraps(draw)
    def run(*arguments: Any, **options: Any) -> Any:
        importlib.import_module("matplotlib.pyplot")
        with mpl.rc_context(STYLE):
            return draw(*arguments, **options)

    return run


def canvas(size: tuple, xlim: tuple, ylim: tuple) -> mpl.axes.Axes:
    """Makes a figure of a size in inches, of whose axes nothing is drawn."""
    _, axes = mpl.pyplot.subplots(figsize=size)
    axes.set(xlim=xlim, ylim=ylim)
    axes.axis("off")
    return axes


def box(axes, x, y, text, device: int | None, *, width=1.0, bold=False) -> None:
    """Draws a labelled box in its device's tint; None: the host's."""
    tint = HOST if device is None else TINTS[device % len(TINTS)]
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(
        mpl.patches.FancyBboxPatch(
            (x + 0.05, y), width - 0.1, 0.78, style, facecolor=tint, edgecolor=INK
        )
    )
    lines = text.splitlines()
    style = {"weight": "bold" if bold else "normal", **CENTRED}
    style["fontsize"] = min(9, 88.2 * width / max(map(len, lines)), 27 / len(lines))
    axes.text(x + width / 2, y + 0.39, text, **style)


def arrow(axes: mpl.axes.Axes, start: tuple, stop: tuple, **style) -> None:
    style = {"arrowstyle": "-|>", "color": INK, **style}
    axes.annotate("", stop, start, arrowprops=style)


def show(figure: mpl.figure.Figure, alt: str) -> None:
    """Shows a picture in a notebook, with its text alternative, also folded below it.

    Outside of a notebook the figure stays open and nothing is written.
    """
    if "IPython" not in sys.modules:  # then no notebook runs, and its import takes time
        return
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return
    if "inline" in mpl.pyplot.get_backend():  # others show figures by themselves
        display(figure, metadata={"image/png": {"alt": alt}})
        mpl.pyplot.close(figure)  # or the backend would show it again after the cell
    # JupyterLab and Colab leave the alternative out, so it is shown as text, too.
    summary = f"<summary><small>{translated('In words')}</small></summary>"
    folded = f"<details>{summary}<small>{html.escape(alt)}</small></details>"
    display({"text/html": folded, "text/plain": alt}, raw=True)


def titled(title: str, alt: str) -> str:
    """Puts a picture's title, where it has one, before its text alternative."""
    return f"{title.rstrip(': ')}: {alt}" if title else alt


def listed(items: Sequence[str], limit: int, mark: str = "; ") -> str:
    """Joins items; where that is too long, the first two and the last."""
    text = mark.join(items)
    if len(text) <= limit or len(items) < 4:
        return text
    return mark.join([*items[:2], "...", items[-1]])


def named(devices: Sequence[int]) -> str:
    """Names devices in short: `device 3`, `devices 0-3, 6`."""
    return f"device{'s' if len(devices) > 1 else ''} {ranges(devices)}"

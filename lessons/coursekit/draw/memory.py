"""Draws how much memory each layout needs on a device."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt

from .canvas import INK, TINTS, listed, show, titled

__all__ = ["draw_memory"]
HATCHES = ("", "//", "..", "xx", "\\\\")
MIB = 2**20


def draw_memory(
    layouts: Mapping[str, Mapping[str, float]],
    title: str = "",
    notes: Mapping[str, str] | None = None,
) -> None:
    """Draws a bar per layout: the bytes that one device holds, part by part.

    Each part has a tint and a hatch of its own, named in the legend; the sum in MiB
    stands at the bar's end.

    Args:
        layouts: bytes on one device, by part, by layout, from top to bottom.
        title: a line above the picture.
        notes: a line of text by layout, written behind its sum.
    """
    parts = list(dict.fromkeys(part for sizes in layouts.values() for part in sizes))
    size = (9, 1.1 + 0.5 * len(layouts))
    figure, axes = plt.subplots(figsize=size, facecolor="white")
    axes.set_facecolor("white")
    longest = max(sum(sizes.values()) for sizes in layouts.values()) / MIB or 1
    bars = {}  # one of each part, for the legend
    for place, (name, sizes) in enumerate(layouts.items()):
        end = 0.0
        for part, num_bytes in sizes.items():
            number = parts.index(part)
            style = {"color": TINTS[number % len(TINTS)], "edgecolor": INK}
            style |= {"hatch": HATCHES[number % len(HATCHES)], "linewidth": 0.8}
            bar = axes.barh(place, num_bytes / MIB, 0.62, left=end, **style)
            bars.setdefault(part, bar)
            end += num_bytes / MIB
        text = f"{end:.1f} MiB   {(notes or {}).get(name, '')}".rstrip()
        axes.text(end + longest / 80, place, text, va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(layouts)), list(layouts))
    axes.set_ylim(len(layouts) - 0.5, -0.5)
    axes.set_xlim(0, longest * (1.6 if notes else 1.15))
    axes.set_xlabel("MiB on one device", color=INK)
    axes.set_title(title, fontsize=11, color=INK)
    axes.tick_params(colors=INK)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    style = {"frameon": False, "fontsize": 9, "labelcolor": INK, "loc": "lower right"}
    axes.legend([bars[part] for part in parts], parts, **style)
    figure.tight_layout()
    show(figure, titled(title, _alt(layouts, parts, notes or {})))


def _alt(layouts: Mapping, parts: list[str], notes: Mapping[str, str]) -> str:
    """Says what each layout needs, part by part and in all."""
    rows = []
    for name, sizes in layouts.items():
        needs = " + ".join(f"{sizes.get(part, 0) / MIB:.1f}" for part in parts)
        row = f"{name} {needs} = {sum(sizes.values()) / MIB:.1f}"
        rows.append(f"{row} ({notes[name]})" if name in notes else row)
    return f"MiB of {' + '.join(parts)}, for {listed(rows, 400)}."

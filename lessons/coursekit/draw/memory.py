"""Draws how much memory each layout needs on a device."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl

from .canvas import INK, TINTS, listed, show, styled, titled

HATCHES = ("", "//", "..", "xx", "\\\\")
MIB = 2**20


@styled
def draw_memory(
    layouts: Mapping[str, Mapping[str, float]],
    title: str = "",
    notes: Mapping[str, str] | None = None,
) -> None:
    """Draws a bar per layout: the bytes that one device holds, part by part.

    Each part has a tint and a hatch, named in the legend; the sum in MiB is written at
    the bar's end.

    Args:
        layouts: bytes on one device, by part, by layout, from top to bottom.
        title: a line above the picture.
        notes: a line of text by layout, written behind its sum.
    """
    notes = notes or {}
    parts = list(dict.fromkeys(part for sizes in layouts.values() for part in sizes))
    _, axes = mpl.pyplot.subplots(figsize=(9, 1.1 + 0.5 * len(layouts)))
    longest = max(sum(sizes.values()) for sizes in layouts.values()) / MIB or 1
    bars = {}  # one of each part, for the legend
    rows = []
    for place, (name, sizes) in enumerate(layouts.items()):
        end = 0.0
        for part, num_bytes in sizes.items():
            number = parts.index(part)
            style = {"color": TINTS[number % len(TINTS)], "edgecolor": INK}
            style |= {"hatch": HATCHES[number % len(HATCHES)], "linewidth": 0.8}
            bar = axes.barh(place, num_bytes / MIB, 0.62, left=end, **style)
            bars.setdefault(part, bar)
            end += num_bytes / MIB
        text = f"{end:.1f} MiB   {notes.get(name, '')}".rstrip()
        axes.text(end + longest / 80, place, text, va="center", fontsize=9)
        needs = " + ".join(f"{sizes.get(part, 0) / MIB:.1f}" for part in parts)
        note = f" ({notes[name]})" if name in notes else ""
        rows.append(f"{name} {needs} = {sum(sizes.values()) / MIB:.1f}{note}")
    axes.set_yticks(range(len(layouts)), list(layouts))
    limits = {"xlim": (0, longest * (1.6 if notes else 1.15))}
    axes.set(**limits, ylim=(len(layouts) - 0.5, -0.5), xlabel="MiB on one device")
    axes.set_title(title)
    axes.legend([bars[part] for part in parts], parts, loc="lower right")
    axes.figure.tight_layout()
    alt = f"MiB of {' + '.join(parts)}, for {listed(rows, 400)}."
    show(axes.figure, titled(title, alt))

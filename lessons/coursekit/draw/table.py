"""Draws tables of short texts, such as a pipeline's turns, and bars of speeds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl

from .canvas import CENTRED, FAINT, INK, TINTS, listed, show, styled, titled

TURNS = "tick (F: forward, B: backward, blank: idle)"
TURN_TINTS = {"F": TINTS[1], "B": TINTS[5]}


@styled
def draw_table(rows: Mapping[str, Sequence[str]], below: str, title: str = "") -> None:
    """Draws rows of cells with a short text each; an empty text is an empty cell.

    Texts that begin with B have a tint of their own.

    Args:
        rows: each row's texts, by its name, from top to bottom.
        below: what the columns are.
        title: a line above the picture.
    """
    count = max(map(len, rows.values()), default=0)
    _, axes = mpl.pyplot.subplots(figsize=(9, 1.4 + 0.42 * len(rows)))
    fontsize = min(9, 200 / max(1, count))
    for y, texts in enumerate(rows.values()):
        for x, text in enumerate(texts):
            look = {"facecolor": "none", "edgecolor": FAINT, "linestyle": ":"}
            if text:
                tint = TURN_TINTS.get(text[0], TINTS[1])
                look = {"facecolor": tint, "edgecolor": INK, "zorder": 2}
                axes.text(x, y, text, fontsize=fontsize, **CENTRED)
            axes.add_patch(mpl.patches.Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
    axes.set(xlim=(-0.5, count - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel=below)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_title(title)
    axes.figure.tight_layout()
    words = [f"{name}: {' '.join(t or '-' for t in row)}" for name, row in rows.items()]
    show(axes.figure, titled(title, f"{listed(words, 380 - len(title))}."))


def draw_turns(schedule: Sequence[Sequence[Any]], title: str = "") -> None:
    """Draws which turn each stage of a pipeline takes in each tick.

    A row's name says for how many microbatches at most its stage keeps activations.

    Args:
        schedule: `schedule[tick][stage]`: ("F", m), ("B", m) or None.
        title: a line above the picture.
    """
    rows = {}
    for stage, turns in enumerate(zip(*schedule, strict=True)):
        changes = (1 if turn[0] == "F" else -1 for turn in turns if turn)
        kept = max(itertools.accumulate(changes), default=0)
        texts = ["".join(map(str, turn or "")) for turn in turns]
        rows[f"stage {stage} keeps {kept}"] = texts
    draw_table(rows, TURNS, title)


@styled
def draw_speeds(speeds: Mapping[str, float], unit: str, title: str = "") -> None:
    """Draws a bar for each measured speed or time, its number at the end.

    The text alternative leaves the numbers out: they differ from run to run.

    Args:
        speeds: numbers, by what was measured, from top to bottom.
        unit: of the numbers.
        title: a line above the picture.
    """
    _, axes = mpl.pyplot.subplots(figsize=(8, 1 + 0.5 * len(speeds)))
    longest = max(speeds.values())
    for place, speed in enumerate(speeds.values()):
        axes.barh(place, speed, 0.6, color=TINTS[4], edgecolor=INK, linewidth=0.8)
        text = f"{speed:,.3g}" if speed < 1000 else f"{speed:,.0f}"
        axes.text(
            speed + longest / 80, place, f"{text} {unit}", va="center", fontsize=9
        )
    axes.set_yticks(range(len(speeds)), list(speeds))
    axes.set(xlim=(0, longest * 1.35), ylim=(len(speeds) - 0.5, -0.5), xlabel=unit)
    axes.set_title(title)
    axes.figure.tight_layout()
    alt = f"A bar for each of {len(speeds)}: {'; '.join(speeds)}. The numbers at their "
    show(
        axes.figure,
        titled(title, f"{alt}ends, in {unit}, were measured on this machine."),
    )

"""Draws which part of an array each device holds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..observation import describe, ranges
from ..observe import on_device, shards
from .canvas import FAINT, HOST, INK, TINTS, listed, named, show, titled

__all__ = ["draw_array"]
MAX_GRID = 16  # elements per axis up to which single elements are outlined


def draw_array(array: Any, title: str = "") -> None:
    """Draws which part of an array each device holds; replicated parts are hatched.

    Axes 0 and 1 of a matrix run down and across. Of a rank-3 array each block of axis 0
    is a panel of its own, of a rank-4 array each block of axes 0 and 1.

    Args:
        array: a `jax.Array` of rank 0 to 4 under any sharding, or a NumPy array.
        title: a line above the picture; dtype and shape are always given.

    Raises:
        ValueError: the array has more than four axes.
    """
    shape = tuple(array.shape)
    if len(shape) > 4:
        raise ValueError(f"draw_array draws up to 4 axes; {describe(array)} has more.")
    holders = _holders(array)
    cuts = [sorted({index[axis] for index in holders}) for axis in range(len(shape))]
    padded = [*((2 - len(shape)) * [[(0, 1)]]), *cuts]
    across = padded[-3] if len(padded) > 2 else [(0, 1)]
    down = padded[-4] if len(padded) > 3 else [(0, 1)]
    per_row = len(across) if len(padded) > 3 else min(len(across), 4)
    lines = len(down) * -(-len(across) // per_row)
    height = max(1.0, 0.42 * len(padded[-2])) + 0.55
    figure, panels = plt.subplots(
        lines,
        per_row,
        squeeze=False,
        figsize=(9 if per_row > 1 or len(padded[-1]) > 1 else 5, lines * height + 0.3),
        facecolor="white",
    )
    for panel in panels.flat:
        panel.axis("off")
    for number, (outer, inner) in enumerate(itertools.product(down, across)):
        lead = (outer, inner)[4 - len(padded) :]
        _panel(panels.flat[number], padded, lead, holders, shape)
    figure.suptitle(f"{title}   {describe(array)}".strip(), fontsize=11, color=INK)
    figure.tight_layout(w_pad=2)
    show(figure, titled(title, _alt(describe(array), shape, holders)))


def _holders(array: Any) -> dict[tuple, list[int]]:
    if not on_device(array):
        return {tuple((0, size) for size in np.shape(array)): []}
    holders: dict[tuple, list[int]] = {}
    for shard in shards(array):
        holders.setdefault(shard.index, []).append(shard.device)
    return holders


def _alt(name: str, shape: tuple, holders: Mapping) -> str:
    """Says which device holds which part; a regular layout in one sentence."""
    parts = list(holders.items())
    if len(parts) == 1:
        [devices] = holders.values()
        replicas = f", {len(devices)} replicas" if len(devices) > 1 else ""
        return (
            f"{name}, whole on {named(devices) if devices else 'the host'}{replicas}."
        )
    whole = tuple((0, size) for size in shape)
    in_order = [(((d, d + 1), *whole[1:]), [d]) for d in range(len(parts))]
    if parts == in_order:
        part = {1: "entry d", 2: "row d"}.get(len(shape), "block d of axis 0")
        return f"{name} on {len(parts)} devices: device d holds {part}."
    pieces = [f"{named(held)} {_part(index, shape)}" for index, held in parts]
    return f"{name} in {len(parts)} parts: {listed(pieces, 300)}."


def _part(index: tuple, shape: tuple) -> str:
    """Writes an index as in NumPy: `[0:2, :, 3]`."""
    axes = []
    for (start, stop), size in zip(index, shape, strict=True):
        text = f"{start}:{stop}" if stop - start > 1 else f"{start}"
        axes.append(":" if (start, stop) == (0, size) else text)
    return f"[{', '.join(axes)}]"


def _panel(axes: Axes, cuts: list, lead: tuple, holders: Mapping, shape: tuple) -> None:
    rows, columns = cuts[-2], cuts[-1]
    axes.set_xlim(-0.01, len(columns) + 0.01)
    axes.set_ylim(len(rows) + 0.01, -0.01)
    for (y, row), (x, column) in itertools.product(enumerate(rows), enumerate(columns)):
        index = (*lead, row, column)[len(cuts) - len(shape) :]
        devices = holders.get(index)
        if devices is None:
            continue
        tint = TINTS[devices[0] % len(TINTS)] if devices else HOST
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=tint, edgecolor=INK, lw=1.3))
        if len(devices) > 1:
            style = {"hatch": "///", "edgecolor": FAINT, "lw": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, **style))
        _elements(axes, x, y, row, column)
        text = axes.text(x + 0.5, y + 0.5, _holder_text(devices), fontsize=9)
        text.set(ha="center", va="center", color=INK)
        text.set_bbox({"facecolor": tint, "edgecolor": "none", "pad": 1.5})
    _ticks(axes, rows, columns, shape)
    if lead:
        where = ", ".join(f"{a}:{b}" if b - a > 1 else f"{a}" for a, b in lead)
        axes.set_title(f"[{where}, :, :]", fontsize=9, color=INK)


def _elements(axes: Axes, x: int, y: int, row: tuple, column: tuple) -> None:
    heights, widths = row[1] - row[0], column[1] - column[0]
    style = {"color": FAINT, "linewidth": 0.6, "linestyle": ":"}
    for step in range(1, heights if heights <= MAX_GRID else 0):
        axes.plot([x, x + 1], 2 * [y + step / heights], **style)
    for step in range(1, widths if widths <= MAX_GRID else 0):
        axes.plot(2 * [x + step / widths], [y, y + 1], **style)


def _ticks(axes: Axes, rows: list, columns: list, shape: tuple) -> None:
    style = {"fontsize": 8, "color": INK}
    if len(shape) > 1:
        for y, (start, stop) in enumerate(rows):
            place = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right"}
            axes.annotate(
                f"{start}:{stop}", (0, y + 0.5), va="center", **place, **style
            )
    if shape:
        for x, (start, stop) in enumerate(columns):
            text = f"{start}:{stop}"
            axes.text(x + 0.5, len(rows) + 0.06, text, ha="center", va="top", **style)


def _holder_text(devices: list[int]) -> str:
    if not devices:
        return "host"
    if len(devices) == 1:
        return f"device {devices[0]}"
    return f"devices {ranges(devices)}: {len(devices)} replicas"

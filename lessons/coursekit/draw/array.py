"""Draws which part of an array each device holds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl

from ..observation import describe
from ..observe import on_device, shards
from .canvas import (
    CENTRED,
    FAINT,
    HOST,
    INK,
    TINTS,
    listed,
    named,
    show,
    styled,
    titled,
)

MAX_GRID = 32  # elements of an axis up to which single elements are outlined


@styled
def draw_array(array: Any, title: str = "") -> None:
    """Draws which part of an array each device holds; replicated parts are hatched.

    Axes 0 and 1 of a matrix run down and across. Of a rank-3 array each block of axis 0
    has a panel, of a rank-4 array each block of axes 0 and 1.

    Args:
        array: a `jax.Array` of rank 0 to 4 under any sharding, or a NumPy array.
        title: a line above the picture; dtype and shape are always given.

    Raises:
        ValueError: the array has more than four axes.
    """
    shape = tuple(array.shape)
    if len(shape) > 4:
        raise ValueError(f"draw_array draws up to 4 axes; {describe(array)} has more.")
    holders: dict[tuple, list[int]] = {}  # the devices of each part
    for shard in shards(array) if on_device(array) else ():
        holders.setdefault(shard.index, []).append(shard.device)
    holders = holders or {tuple((0, size) for size in shape): []}  # on the host
    cuts = [sorted({index[axis] for index in holders}) for axis in range(len(shape))]
    # Missing axes are drawn as if they had one element.
    down, across, rows, columns = [[(0, 1)]] * (4 - len(shape)) + cuts
    per_row = len(across) if len(shape) > 3 else min(len(across), 4)
    lines = len(down) * -(-len(across) // per_row)
    width = 9 if per_row > 1 or len(columns) > 1 else 5
    height = lines * (max(1.0, 0.42 * len(rows)) + 0.55) + 0.3
    figure, panels = mpl.pyplot.subplots(
        lines, per_row, squeeze=False, figsize=(width, height)
    )
    for panel in panels.flat:
        panel.axis("off")
    for panel, outer in zip(panels.flat, itertools.product(down, across), strict=False):
        _panel(panel, outer, rows, columns, holders, len(shape))
    figure.suptitle(f"{title}   {describe(array)}".strip(), fontsize=11)
    figure.tight_layout(w_pad=2)
    show(figure, titled(title, _alt(describe(array), shape, holders)))


def _alt(name: str, shape: tuple, holders: Mapping) -> str:
    """Says which device holds which part; a regular layout in one sentence."""
    parts = list(holders.items())
    if len(parts) == 1:
        [(_, devices)] = parts
        where = named(devices) if devices else "the host"
        replicas = f", {len(devices)} replicas" if len(devices) > 1 else ""
        return f"{name}, whole on {where}{replicas}."
    whole = tuple((0, size) for size in shape)
    in_order = [(((d, d + 1), *whole[1:]), [d]) for d in range(len(parts))]
    if parts == in_order:
        part = {1: "entry d", 2: "row d"}.get(len(shape), "block d of axis 0")
        return f"{name} on {len(parts)} devices: device d holds {part}."
    pieces = []
    for index, devices in parts:
        pairs = zip(index, whole, strict=True)
        axes = [":" if part == axis else _range(*part) for part, axis in pairs]
        pieces.append(f"{named(devices)} [{', '.join(axes)}]")
    return f"{name} in {len(parts)} parts: {listed(pieces, 300)}."


def _range(start: int, stop: int) -> str:
    return f"{start}:{stop}" if stop - start > 1 else f"{start}"


def _panel(
    axes: mpl.axes.Axes,
    outer: tuple,
    rows: list,
    columns: list,
    holders: Mapping,
    rank: int,
) -> None:
    """Draws the parts of a matrix, which is the ranges `outer` of an array."""
    axes.set_xlim(-0.01, len(columns) + 0.01)
    axes.set_ylim(len(rows) + 0.01, -0.01)
    for (y, row), (x, column) in itertools.product(enumerate(rows), enumerate(columns)):
        devices = holders.get((*outer, row, column)[4 - rank :])
        if devices is None:
            continue
        tint = TINTS[devices[0] % len(TINTS)] if devices else HOST
        style = {"facecolor": tint, "edgecolor": INK, "lw": 1.3}
        axes.add_patch(mpl.patches.Rectangle((x, y), 1, 1, **style))
        text = named(devices) if devices else "host"
        if len(devices) > 1:
            style = {"hatch": "///", "edgecolor": FAINT, "lw": 0}
            axes.add_patch(mpl.patches.Rectangle((x, y), 1, 1, fill=False, **style))
            text += f": {len(devices)} replicas"
        style = {"color": FAINT, "linewidth": 0.6, "linestyle": ":"}
        heights, widths = row[1] - row[0], column[1] - column[0]
        for step in range(1, heights if heights * len(rows) <= MAX_GRID else 0):
            axes.plot([x, x + 1], 2 * [y + step / heights], **style)
        for step in range(1, widths if widths * len(columns) <= MAX_GRID else 0):
            axes.plot(2 * [x + step / widths], [y, y + 1], **style)
        bbox = {"facecolor": tint, "edgecolor": "none", "pad": 1.5}
        axes.text(x + 0.5, y + 0.5, text, fontsize=9, bbox=bbox, **CENTRED)
    for y, (start, stop) in enumerate(rows if rank > 1 else ()):
        style = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right"}
        style |= {"va": "center", "fontsize": 8}
        axes.annotate(f"{start}:{stop}", (0, y + 0.5), **style)
    for x, (start, stop) in enumerate(columns if rank else ()):
        style = {"ha": "center", "va": "top", "fontsize": 8}
        axes.text(x + 0.5, len(rows) + 0.06, f"{start}:{stop}", **style)
    if rank > 2:
        where = ", ".join(_range(*one) for one in outer[4 - rank :])
        axes.set_title(f"[{where}, :, :]", fontsize=9)

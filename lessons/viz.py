"""Draws what sits on which device."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from canvas import FAINT, HOST, INK, TINTS, arrow, box, canvas
from compare import ranges
from facts import describe, leaves
from observe import on_device, shards
from viz_collectives import draw_collective, draw_steps
from viz_memory import draw_memory
from viz_pipeline import draw_profile, draw_schedule
from viz_training import draw_losses, draw_replicas

__all__ = [
    "draw_array",
    "draw_collective",
    "draw_devices",
    "draw_losses",
    "draw_memory",
    "draw_mesh",
    "draw_pmap",
    "draw_profile",
    "draw_replicas",
    "draw_schedule",
    "draw_steps",
]
MAX_GRID = 16  # elements per axis up to which single elements are outlined


def draw_devices(devices: Sequence[jax.Device] | None = None) -> None:
    """Draws one box per device, with its number and platform.

    Args:
        devices: the devices; by default all that JAX has.
    """
    devices = jax.devices() if devices is None else devices
    _, axes = canvas(len(devices), 1.2, width=min(9, 1.15 * len(devices) + 0.4))
    for x, device in enumerate(devices):
        number = jax.devices().index(device)
        box(axes, x, 0.1, f"device {number}\n{device.platform.upper()}", number)


def draw_mesh(mesh: jax.sharding.Mesh) -> None:
    """Draws a mesh as a grid of devices, with its axes' names and positions.

    As in a picture of a matrix the first axis runs down and the second across; a single
    axis runs across.

    Args:
        mesh: a mesh of one or two axes.

    Raises:
        ValueError: the mesh has more than two axes.
    """
    if mesh.devices.ndim > 2:
        raise ValueError(f"draw_mesh draws up to 2 axes; {mesh.axis_names} are more.")
    grid = np.atleast_2d(mesh.devices)
    rows, columns = grid.shape
    size = (1.15 * columns + 1, 0.55 * rows + 0.4)
    _, axes = canvas(columns, size[1], width=size[0])
    axes.set_xlim(-0.8 if mesh.devices.ndim > 1 else 0, columns)
    axes.set_ylim(-0.45, rows)
    style = {"fontsize": 9, "color": INK, "va": "center"}
    for y, x in np.ndindex(rows, columns):
        number = jax.devices().index(grid[y, x])
        box(axes, x, rows - 1 - y + 0.11, f"device {number}", number)
    for x in range(columns):
        axes.text(x + 0.5, -0.2, f"{mesh.axis_names[-1]} {x}", ha="center", **style)
    for y in range(rows if mesh.devices.ndim > 1 else 0):
        text = f"{mesh.axis_names[0]} {y}"
        axes.text(-0.05, rows - 1 - y + 0.5, text, ha="right", **style)


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


def draw_pmap(
    name: str,
    mapped: Mapping[str, Any],
    result: Mapping[str, Any],
    broadcast: Mapping[str, Any] | None = None,
) -> None:
    """Draws one `pmap` call: what each device receives, runs and returns.

    Args:
        name: the function's name.
        mapped: the arguments with a leading device axis, by name.
        result: what the call returned, by name.
        broadcast: the arguments that every device receives whole, by name.
    """
    num_devices = int(next(leaf for _, leaf in leaves(dict(mapped))).shape[0])
    height = 4.3 if broadcast else 3.2
    _, axes = canvas(num_devices, height, width=9)
    axes.set_ylim(-0.1, height - 0.1)
    width = 0.8 if broadcast else 1
    for device in range(num_devices):
        box(axes, device, 2.2, _rows(mapped, device), device, width=width)
        arrow(axes, device + width / 2, 2.2, 1.88)
        box(axes, device, 1.1, f"device {device}\n{name}", device, bold=True)
        arrow(axes, device + 0.5, 1.1, 0.78)
        box(axes, device, 0, _rows(result, device), device)
    if broadcast:
        whole = ", ".join(
            f"{key}: {describe(value)}" for key, value in broadcast.items()
        )
        text = f"to every device, whole (in_axes=None)   {whole}"
        box(axes, 0, 3.3, text, None, width=num_devices)
        for device in range(num_devices):
            arrow(axes, device + 0.88, 3.3, 1.88)


def _holders(array: Any) -> dict[tuple, list[int]]:
    if not on_device(array):
        return {tuple((0, size) for size in np.shape(array)): []}
    holders: dict[tuple, list[int]] = {}
    for shard in shards(array):
        holders.setdefault(shard.index, []).append(shard.device)
    return holders


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
            style = {"hatch": "///", "edgecolor": "#00000030", "lw": 0}
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


def _rows(trees: Mapping[str, Any], device: int) -> str:
    lines = []
    for name, tree in trees.items():
        blocks = [describe(leaf[device]) for _, leaf in leaves(tree)]
        lines += [f"{name}[{device}]", *blocks[:2], *["..."] * (len(blocks) > 2)]
    return "\n".join(lines)

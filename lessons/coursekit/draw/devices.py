"""Draws devices, meshes and `pmap` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes

from ..observation import describe, leaves
from .canvas import INK, arrow, box, canvas, listed, named, show

SYNC_WIDTH = 2.6  # of a device's box: what devices combine


def draw_devices(devices: Sequence[jax.Device] | None = None) -> None:
    """Draws one box per device, with its number and platform.

    Args:
        devices: the devices; by default all that JAX has.
    """
    devices = jax.devices() if devices is None else devices
    figure, axes = canvas(len(devices), 1.2, width=min(9, 1.15 * len(devices) + 0.4))
    kinds: dict[str, list[int]] = {}
    for x, device in enumerate(devices):
        number, kind = jax.devices().index(device), device.platform.upper()
        box(axes, x, 0.1, f"device {number}\n{kind}", number)
        kinds.setdefault(kind, []).append(number)
    same = [f"{named(numbers)} ({kind})" for kind, numbers in kinds.items()]
    show(figure, f"{len(devices)} boxes side by side: {listed(same, 300)}.")


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
    figure, axes = canvas(columns, size[1], width=size[0])
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
    show(figure, _mesh_alt(mesh))


def draw_pmap(
    name: str,
    mapped: Mapping[str, Any],
    result: Mapping[str, Any],
    broadcast: Mapping[str, Any] | None = None,
    sync: str = "",
) -> None:
    """Draws one `pmap` call: what each device receives, runs and returns.

    Args:
        name: the function's name.
        mapped: the arguments with a leading device axis, by name.
        result: what the call returned, by name.
        broadcast: the arguments that every device receives whole, by name.
        sync: what the devices combine before they return, in a few words.
    """
    num_devices = int(next(leaf for _, leaf in leaves(dict(mapped))).shape[0])
    height, bottom = 4.3 if broadcast else 3.2, -1.8 if sync else 0
    figure, axes = canvas(num_devices, height - bottom, width=9)
    axes.set_ylim(bottom - 0.1, height - 0.1)
    width = 0.8 if broadcast else 1
    for device in range(num_devices):
        box(axes, device, 2.2, _rows(mapped, device), device, width=width)
        arrow(axes, device + width / 2, 2.2, 1.88)
        box(axes, device, 1.1, f"device {device}\n{name}", device, bold=True)
        if sync:
            _sync_arrows(axes, device, num_devices)
        else:
            arrow(axes, device + 0.5, 1.1, 0.78)
        box(axes, device, bottom, _rows(result, device), device)
    alt = f"pmap of {name} on {num_devices} devices: device d receives "
    alt += f"{_row_alt(mapped)}, runs {name} and returns {_row_alt(result)}."
    if sync:
        box(axes, *_sync_box(num_devices), sync, None, width=SYNC_WIDTH, bold=True)
        alt += f" Arrows go from every device to {' '.join(sync.split())}, "
        alt += "and from there to every result."
    if broadcast:
        whole = ", ".join(
            f"{key}: {describe(value)}" for key, value in broadcast.items()
        )
        text = f"to every device, whole (in_axes=None)   {whole}"
        box(axes, 0, 3.3, text, None, width=num_devices)
        for device in range(num_devices):
            arrow(axes, device + 0.88, 3.3, 1.88)
        alt += f" Every device also receives the whole of {whole}."
    show(figure, alt)


def _sync_box(num_devices: int) -> tuple[float, float]:
    """Says where the box in which devices combine something begins."""
    return (num_devices - SYNC_WIDTH) / 2, -0.35


def _sync_arrows(axes: Axes, device: int, num_devices: int) -> None:
    """Draws an arrow from a device into the box of what is combined, and one out."""
    left, low = _sync_box(num_devices)
    inside = left + 0.15 + (SYNC_WIDTH - 0.3) * (device + 0.5) / num_devices
    aside = inside - (device + 0.5)
    arrow(axes, device + 0.5, 1.08, low + 0.78, aside)
    arrow(axes, inside, low, -1.0, -aside)


def _mesh_alt(mesh: jax.sharding.Mesh) -> str:
    """Says which devices stand where along each axis."""
    numbers = np.vectorize(jax.devices().index, otypes=[int])(mesh.devices).tolist()
    if mesh.devices.ndim == 1:
        [axis] = mesh.axis_names
        return f"A mesh of {len(numbers)} devices along axis {axis}: {named(numbers)}."
    down, across = mesh.axis_names
    rows = [f"{down} {place}: {named(row)}" for place, row in enumerate(numbers)]
    size = f"{len(numbers)} x {len(numbers[0])}"
    axes = f"axis {down} runs down, axis {across} across"
    return f"A mesh of {size} devices; {axes}. {listed(rows, 300)}."


def _rows(trees: Mapping[str, Any], device: int) -> str:
    lines = []
    for name, tree in trees.items():
        blocks = [describe(leaf[device]) for _, leaf in leaves(tree)]
        lines += [f"{name}[{device}]", *blocks[:2], *["..."] * (len(blocks) > 2)]
    return "\n".join(lines)


def _row_alt(trees: Mapping[str, Any]) -> str:
    """Names what device d has of each tree: `x[d] (f32[4,3])`."""
    names = []
    for name, tree in trees.items():
        blocks = [describe(leaf[0]) for _, leaf in leaves(tree)]
        names.append(f"{name}[d] ({listed(blocks, 60, ', ')})")
    return " and ".join(names)

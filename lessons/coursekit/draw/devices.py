"""Draws devices, meshes and `pmap` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..observation import describe, leaves
from .canvas import INK, arrow, box, canvas, listed, named, show, styled

SYNC_WIDTH = 2.6  # of the box for what devices combine


@styled
def draw_devices(devices: Sequence[jax.Device] | None = None) -> None:
    """Draws one box per device, with its number and platform.

    Args:
        devices: the devices; by default all that JAX has.
    """
    devices = jax.devices() if devices is None else devices
    size = min(9, 1.15 * len(devices) + 0.4), 1.2
    axes = canvas(size, (0, len(devices)), (0, 1))
    kinds: dict[str, list[int]] = {}
    for x, device in enumerate(devices):
        number, kind = jax.devices().index(device), device.platform.upper()
        box(axes, x, 0.1, f"device {number}\n{kind}", number)
        kinds.setdefault(kind, []).append(number)
    same = [f"{named(numbers)} ({kind})" for kind, numbers in kinds.items()]
    show(axes.figure, f"{len(devices)} boxes side by side: {listed(same, 300)}.")


@styled
def draw_mesh(mesh: jax.sharding.Mesh) -> None:
    """Draws a mesh as a grid of devices, with its axes' names and positions.

    As in a picture of a matrix the first axis runs down and the second across; a single
    axis runs across.

    Args:
        mesh: a mesh of one or two axes.

    Raises:
        ValueError: the mesh has more than two axes.
    """
    names, is_grid = mesh.axis_names, mesh.devices.ndim > 1
    if mesh.devices.ndim > 2:
        raise ValueError(f"draw_mesh draws up to 2 axes; {names} are more.")
    numbers = np.vectorize(jax.devices().index, otypes=[int])(mesh.devices)
    rows, columns = np.atleast_2d(numbers).shape
    size = 1.15 * columns + 1, 0.55 * rows + 0.4
    axes = canvas(size, (-0.8 if is_grid else 0, columns), (-0.45, rows))
    style = {"fontsize": 9, "va": "center"}
    for (y, x), number in np.ndenumerate(np.atleast_2d(numbers)):
        box(axes, x, rows - 1 - y + 0.11, f"device {number}", number)
    for x in range(columns):
        axes.text(x + 0.5, -0.2, f"{names[-1]} {x}", ha="center", **style)
    for y in range(rows if is_grid else 0):
        text = f"{names[0]} {y}"
        axes.text(-0.05, rows - 1 - y + 0.5, text, ha="right", **style)
    if not is_grid:
        alt = f"A mesh of {columns} devices along axis {names[0]}: {named(numbers)}."
    else:
        parts = [f"{names[0]} {y}: {named(row)}" for y, row in enumerate(numbers)]
        alt = f"A mesh of {rows} x {columns} devices; axis {names[0]} runs down, "
        alt += f"axis {names[1]} across. {listed(parts, 300)}."
    show(axes.figure, alt)


@styled
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
        broadcast: the arguments that every device receives in full, by name.
        sync: what the devices combine before they return, in a few words.
    """
    num_devices = int(next(leaf for _, leaf in leaves(dict(mapped))).shape[0])
    height, bottom = 4.3 if broadcast else 3.2, -1.8 if sync else 0
    limits = (0, num_devices), (bottom - 0.1, height - 0.1)
    axes = canvas((9, height - bottom), *limits)
    width = 0.8 if broadcast else 1
    left = (num_devices - SYNC_WIDTH) / 2
    for device in range(num_devices):
        box(axes, device, 2.2, _rows(mapped, device), device, width=width)
        _down(axes, device + width / 2, 2.2, 1.88)
        box(axes, device, 1.1, f"device {device}\n{name}", device, bold=True)
        middle = device + 0.5
        if sync:  # into the box of what is combined, and out of it
            inside = left + 0.15 + (SYNC_WIDTH - 0.3) * middle / num_devices
            style = {"linewidth": 1, "shrinkA": 0, "shrinkB": 0}
            arrow(axes, (middle, 1.08), (inside, 0.43), **style)
            arrow(axes, (inside, -0.35), (middle, -1.0), **style)
        else:
            _down(axes, middle, 1.1, 0.78)
        box(axes, device, bottom, _rows(result, device), device)
    alt = f"pmap of {name} on {num_devices} devices: device d receives "
    alt += f"{_row_alt(mapped)}, runs {name} and returns {_row_alt(result)}."
    if sync:
        box(axes, left, -0.35, sync, None, width=SYNC_WIDTH, bold=True)
        alt += f" Arrows go from every device to {' '.join(sync.split())}, "
        alt += "and from there to every result."
    if broadcast:
        whole = ", ".join(
            f"{key}: {describe(value)}" for key, value in broadcast.items()
        )
        text = f"a full copy to every device (in_axes=None)   {whole}"
        box(axes, 0, 3.3, text, None, width=num_devices)
        for device in range(num_devices):
            _down(axes, device + 0.88, 3.3, 1.88)
        alt += f" Every device also receives a full copy of {whole}."
    show(axes.figure, alt)


@styled
def draw_trace(name: str, program: Any, num_devices: int) -> None:
    """Draws how a function becomes a program, and the program runs on devices.

    Args:
        name: the function's name.
        program: what `jax.make_jaxpr` returns; its steps are shown.
        num_devices: how many devices run it.
    """

    def kind(variable):
        return describe(jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype))

    taken = ", ".join(map(kind, program.jaxpr.invars))
    steps = [f"{one.primitive.name}: {kind(one.outvars[0])}" for one in program.eqns]
    axes = canvas((9, 2.9), (0, 8), (-0.1, 2.9))
    text = f"{name}, in Python\nruns once, on a stand-in\n{taken}, no numbers"
    box(axes, 0, 1.9, text, None, width=3.4)
    arrow(axes, (3.4, 2.29), (4.55, 2.29))
    axes.text(3.98, 2.42, "trace", ha="center", fontsize=9)
    text = "\n".join(["the traced program", *steps[:2], *["..."] * (len(steps) > 2)])
    box(axes, 4.6, 1.9, text, None, width=3.4, bold=True)
    axes.text(6.42, 1.42, "compile", fontsize=9)
    arrow(axes, (6.3, 1.88), (6.3, 1.2), linewidth=1)
    width = 8 / num_devices
    for device in range(num_devices):
        box(axes, device * width, 0.1, f"device {device}", device, width=width)
    axes.plot([width / 2, 8 - width / 2], [1.15, 1.15], color=INK, linewidth=1)
    for device in range(num_devices):
        middle = (device + 0.5) * width
        arrow(axes, (middle, 1.15), (middle, 0.88), linewidth=1)
    alt = f"{name} runs once in Python, on a stand-in {taken} without numbers. Tracing "
    alt += f"makes a program of it: {listed(steps, 120)}. It is compiled, and "
    show(axes.figure, f"{alt}devices 0 to {num_devices - 1} run it.")


def _down(axes: Any, x: float, start: float, stop: float) -> None:
    arrow(axes, (x, start), (x, stop), linewidth=1)


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

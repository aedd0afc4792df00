"""Draws collectives: what each device holds before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from .canvas import (
    CENTRED,
    FAINT,
    HOST,
    INK,
    TINTS,
    arrow,
    canvas,
    listed,
    named,
    show,
    styled,
)

CELL = 0.3  # inches: the height of one value


@styled
def draw_collective(
    name: str,
    before: Any,
    after: Any,
    *,
    groups: Sequence[Sequence[int]] | None = None,
) -> None:
    """Draws one collective: every device's block before and after, value by value.

    A value has the colour of the device that it came from; what was combined from
    several devices is white and bold, and a 0 of no device's own, an empty place, is
    grey. Each value of `before` should be unique, as 31 for entry 1 on device 3.

    Args:
        name: what was called.
        before: (D, n) or (D, n, m): a block per device, on the leading axis.
        after: the same for the result; (D,) and scalars per device are fine too.
        groups: devices that take part together, neighbours; by default all.

    Raises:
        ValueError: a block has more than two axes, the numbers of devices differ, or
            the groups are not all devices in their order.
    """
    before, after = _blocks(before), _blocks(after)
    num_devices = len(before)
    if len(after) != num_devices:
        raise ValueError(
            f"before has {num_devices} devices and after has {len(after)}: both need "
            "one block per device on the leading axis."
        )
    groups = [list(range(num_devices))] if groups is None else groups
    if [device for group in groups for device in group] != [*range(num_devices)]:
        raise ValueError(
            f"groups is {groups}: this picture needs devices 0 to {num_devices - 1} in "
            "this order."
        )
    origins: dict[float, set[int]] = {}
    for device, block in enumerate(before):
        for value in block.ravel():
            origins.setdefault(float(value), set()).add(device)
    rows = before.shape[1], after.shape[1]
    height = sum(rows) + 4.6
    axes = canvas((9, CELL * height), (-0.85, num_devices), (height, -0.2))
    bar, below = rows[0] + 1.8, rows[0] + 3.7
    for device in range(num_devices):
        axes.text(device + 0.5, 0.4, f"device {device}", fontsize=8, **CENTRED)
        for top, blocks in ((1, before), (below, after)):
            width = 0.88 / blocks.shape[2]
            for (row, column), value in np.ndenumerate(blocks[device]):
                sources = origins.get(float(value), ())
                empty = not value and len(sources) != 1
                combined = len(sources) != 1 and not empty
                tint = HOST if empty else "white"
                if len(sources) == 1:
                    tint = TINTS[min(sources) % len(TINTS)]
                left = device + 0.06 + width * column
                ink = FAINT if empty else INK
                _cell(axes, left, top + row, width, value, tint, ink, bold=combined)
        for start, stop in ((1.05, 1.75), (2.95, 3.65)):
            ends = (device + 0.5, rows[0] + start), (device + 0.5, rows[0] + stop)
            arrow(axes, *ends, linewidth=0.9, mutation_scale=7)
    for group in groups:
        box = (group[0] + 0.06, bar), len(group) - 0.12, 1.1
        axes.add_patch(mpl.patches.Rectangle(*box, facecolor=HOST, edgecolor=INK))
        style = {"fontsize": 10, "weight": "bold", **CENTRED}
        axes.text(group[0] + len(group) / 2, rows[0] + 2.35, name, **style)
    style = {"ha": "right", "va": "center", "fontsize": 9}
    axes.text(-0.08, 1 + rows[0] / 2, "before", **style)
    axes.text(-0.08, below + rows[1] / 2, "after", **style)
    axes.figure.tight_layout()
    apart = ", apart: " + " and ".join(map(named, groups)) if len(groups) > 1 else ""
    alt = f"{name} on {num_devices} devices{apart}. Before: {_held(before)}. "
    moved = sum(len(origins.get(float(value), ())) == 1 for value in after.ravel())
    came = f"{moved} of these {after.size} values are one device's, unchanged."
    if moved == after.size:
        came = "Each of these is one device's value, unchanged."
    elif not moved:
        came = "Each of these is combined from several devices."
    show(axes.figure, f"{alt}After: {_held(after)}. {came}")


@styled
def draw_steps(
    states: Sequence,
    titles: Sequence[str],
    complete: float,
    row: str = "",
    *,
    ring: bool = False,
) -> None:
    """Draws what every device holds after each step of an algorithm, as a strip.

    Args:
        states: one (D, n) array per step: n values on each of D devices.
        titles: a line above each step's picture.
        complete: the final value; cells that hold it are marked and bold.
        row: what a row is, for the labels at the left.
        ring: draw an arrow into each value that changed, from the device at the left;
            into device 0 from the last one, around the edges.
    """
    states = [np.asarray(state) for state in states]
    num_devices, length = states[0].shape
    columns = min(4, len(states))
    rows = -(-len(states) // columns)
    size = (9, rows * (CELL * length + 0.75))
    figure, panels = mpl.pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    for panel in panels.flat:
        panel.axis("off")
    earlier, parts = states[0], []
    for panel, state, title in zip(panels.flat, states, titles, strict=False):
        room = 0.35 if ring else 0  # for what goes around the edges
        panel.set_xlim(-1.6 - room if row else -0.05 - room, num_devices + 0.05 + room)
        panel.set_ylim(length + 1.1, -0.05)
        panel.set_title(title, fontsize=9)
        style = {"va": "center", "fontsize": 7}
        for place in range(length if row else 0):
            label = f"{row} {place}"
            panel.text(-0.1 - room, place + 0.5, label, ha="right", **style)
        for (device, place), value in np.ndenumerate(state):
            done = value == complete
            tint = TINTS[2] if done else "white"
            _cell(panel, device, place, 1, value, tint, bold=done)
        for device in range(num_devices):
            name = f"dev {device}"
            panel.text(device + 0.5, length + 0.5, name, ha="center", **style)
        for device, place in np.argwhere(state != earlier) if ring else ():
            style, y = {"linewidth": 0.9, "mutation_scale": 6}, place + 0.5
            arrow(panel, (device - 0.22, y), (device + 0.3, y), **style)
            if device == 0:  # it leaves the last device
                out = (num_devices - 0.22, y), (num_devices + 0.3, y)
                arrow(panel, *out, **style, arrowstyle="-")
        earlier = state
        parts.append(f"{title}, {_progress(state, complete)}")
    figure.tight_layout()
    alt = f"{num_devices} devices hold {length} {row or 'value'}s each, "
    sent = " Arrows show what each device got from its left neighbour." if ring else ""
    show(figure, f"{alt}complete at {complete:g}: {listed(parts, 240)}.{sent}")


def _blocks(array: Any) -> np.ndarray:
    array = np.asarray(array)
    if not 1 <= array.ndim <= 3:
        raise ValueError(
            f"A block per device has at most two axes; {list(array.shape)} has "
            f"{array.ndim - 1} beside the devices' axis."
        )
    if array.ndim < 3:  # a vector is drawn as a column
        return array.reshape(len(array), -1, 1)
    return array


def _held(blocks: np.ndarray) -> str:
    """Says what each device holds; what several hold alike, once."""
    groups: dict[tuple, list[int]] = {}
    for device, block in enumerate(blocks):
        groups.setdefault(tuple(block.ravel()), []).append(device)
    texts = [
        f"{named(devices)} [{listed([f'{value:g}' for value in values], 40, ', ')}]"
        for values, devices in groups.items()
    ]
    return listed(texts, 170)


def _progress(state: np.ndarray, complete: float) -> str:
    """Says how many values are complete; where none is, how far they are."""
    counts = (state == complete).sum(axis=1)
    if not counts.any():
        return f"at most {state.max():g}"
    if (counts == counts[0]).all():
        return f"{counts[0]} complete on each device"
    return f"{counts.sum()} of {state.size} complete"


def _cell(
    axes: mpl.axes.Axes, x, y, width, value: float, tint: str, ink=INK, *, bold: bool
) -> None:
    style = {"facecolor": tint, "edgecolor": INK, "linewidth": 0.8}
    axes.add_patch(mpl.patches.Rectangle((x, y), width, 1, **style))
    left, right = axes.get_xlim()
    inches = width * axes.figure.get_figwidth() / (right - left)
    style = {"weight": "bold" if bold else "normal", "color": ink, **CENTRED}
    style["fontsize"] = min(9, 59 * inches / max(3, len(f"{value:g}")))
    axes.text(x + width / 2, y + 0.52, f"{value:g}", **style)

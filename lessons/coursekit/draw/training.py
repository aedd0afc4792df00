"""Plots what a training run did, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from .canvas import FAINT, INK, LINES, SHADES, listed, named, show, styled, titled

PAIRS = ("-", "--", "-", ":")  # solid lines, each under a broken one
SOLID = SHADES[2], SHADES[5]  # the second of them may cover a broken one


@styled
def draw_replicas(
    history: Any,
    ylabel: str,
    title: str = "",
    *,
    xlabel: str = "step",
    x: Any = None,
) -> None:
    """Plots one line per device over the steps of a run, each labelled at its end.

    Each has its device's colour, and is thinner than the one before, so that lines that
    coincide can all be seen.

    Args:
        history: f32[num_steps, num_devices], a value per step and device.
        ylabel: what the value is, with its unit where it has one.
        title: a line above the picture.
        xlabel: what the rows of `history` count, or what `x` is.
        x: where each row of `history` is drawn; by default at 0, 1, 2, ...
    """
    history = np.asarray(history)
    x = np.arange(len(history)) if x is None else np.asarray(x)
    num_devices = history.shape[1]
    axes = step_axes(ylabel, title)
    axes.set_xlabel(xlabel)
    for device in range(num_devices):
        style = {"color": SHADES[device % len(SHADES)]}
        style["linewidth"] = 4 - 2.8 * device / max(1, num_devices - 1)
        axes.plot(x, history[:, device], LINES[device % len(LINES)], **style)
    label_ends(axes, [f"device {device}" for device in range(num_devices)])
    axes.figure.tight_layout()
    atol = 1e-5 * np.abs(history[np.isfinite(history)]).max(initial=0)
    first, last = (_agreement(history[place], atol) for place in (0, -1))
    alt = f"{ylabel}, a line per device. At {xlabel} {x[0]:g} {first}; "
    alt += f"at {xlabel} {x[-1]:g} {last}."
    show(axes.figure, titled(title, alt))


@styled
def draw_losses(
    curves: Mapping[str, Any],
    ylabel: str = "loss",
    title: str = "",
    *,
    xlabel: str = "step",
    log: bool = True,
    x: Any = None,
) -> None:
    """Plots named curves over the steps of a run, each labelled at its end.

    Solid and broken lines alternate, ever thinner, the broken ones black, so that both
    of two curves that coincide can be seen: pass such a pair one after the other.

    Args:
        curves: a value per step, f32[num_steps], by name; the lengths may differ.
        ylabel: what the values are, with their unit where they have one.
        title: a line above the picture.
        xlabel: what the values of a curve count, or what `x` is.
        log: whether the values' axis is logarithmic.
        x: where each value is drawn; by default at 0, 1, 2, ...
    """
    axes = step_axes(ylabel, title)
    axes.set_xlabel(xlabel)
    last = max(1, len(curves) - 1)
    for place, values in enumerate(curves.values()):
        style, part = PAIRS[place % len(PAIRS)], place / last
        shade = SOLID[place // 2 % 2] if style == "-" else INK
        width = 7 - 5 * part
        places = np.arange(len(values)) if x is None else x
        axes.plot(places, np.asarray(values), style, color=shade, linewidth=width)
    if log:
        axes.set_yscale("log")
    label_ends(axes, list(curves))
    axes.figure.tight_layout()
    texts = [f"{name!r} {_course(np.asarray(v))}" for name, v in curves.items()]
    steps = sorted({len(values) for values in curves.values()})
    num_steps = " to ".join(map(str, dict.fromkeys((steps[0], steps[-1]))))
    alt = f"{ylabel}, over {num_steps} steps. {listed(texts, 350)}."
    if xlabel != "step":
        alt = f"{ylabel} by {xlabel}, {num_steps} values. {listed(texts, 350)}."
    show(axes.figure, titled(title, alt))


def step_axes(ylabel: str, title: str) -> mpl.axes.Axes:
    _, axes = mpl.pyplot.subplots(figsize=(8, 3.6))
    axes.set(xlabel="step", ylabel=ylabel, title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


def label_ends(axes: mpl.axes.Axes, names: Sequence[str]) -> None:
    """Labels each line at the right, in the order of their last values.

    Beside each label is a piece of its line, since several may end in one place.
    """
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1]) for line in axes.lines]
    order = np.argsort([value for _, value in ends], kind="stable")
    for place, number in enumerate(order):
        line, height = axes.lines[number], (place + 0.5) / len(names)
        style = {"linestyle": line.get_linestyle(), "linewidth": line.get_linewidth()}
        style |= {"color": line.get_color(), "transform": axes.transAxes}
        style |= {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0, "clip_on": False}
        axes.add_patch(
            mpl.patches.FancyArrowPatch((1.06, height), (1.13, height), **style)
        )
        style = {"xytext": (1.15, height), "textcoords": "axes fraction"}
        axes.annotate(names[number], ends[number], va="center", **style)
        if np.isfinite(ends[number]).all():
            to_piece = (ends[number], (1.05, height), "data", axes.transAxes)
            leader = mpl.patches.ConnectionPatch(*to_piece, color=FAINT)
            leader.set_in_layout(False)
            axes.add_artist(leader)


def _course(values: np.ndarray) -> str:
    """Says how a curve goes: from where to where, and what lies beyond its ends."""
    first, last = values[0], values[-1]
    seen = values[np.isfinite(values)]
    room = np.ptp(seen) / 10 if seen.size else 0  # less is hardly seen
    verb = "falls" if last < first else "rises" if last > first else "goes"
    text = f"{verb} from {_rounded(first)} to {_rounded(last)}"
    if _rounded(first) == _rounded(last):
        text = f"starts and ends at {_rounded(last)}"
    beyond = []
    if seen.max(initial=last) > max(first, last) + room:
        beyond += [f"up to {_rounded(seen.max())}"]
    if seen.min(initial=last) < min(first, last) - room:
        beyond += [f"down to {_rounded(seen.min())}"]
    return f"{text}, in between {' and '.join(beyond)}" if beyond else text


def _agreement(values: np.ndarray, atol: float) -> str:
    """Says which devices agree at a step."""
    groups: list[tuple[float, list[int]]] = []
    for device, value in enumerate(values):
        for other, devices in groups:
            if np.isclose(value, other, rtol=0, atol=atol, equal_nan=True):
                devices.append(device)
                break
        else:
            groups.append((value, [device]))
    if len(groups) == 1:
        return f"all {len(values)} agree on {_rounded(values[0])}"
    if len(groups) <= 4:
        texts = [f"{named(devices)} at {_rounded(v)}" for v, devices in groups]
        return f"they disagree: {', '.join(texts)}"
    low, high = int(np.argmin(values)), int(np.argmax(values))
    return (
        f"they are at {len(groups)} different values, from {_rounded(values[low])} "
        f"on device {low} to {_rounded(values[high])} on device {high}"
    )


def _rounded(value: float) -> str:
    """Writes two digits, which are the same on another CPU."""
    return f"{float(f'{value:.2g}'):g}"

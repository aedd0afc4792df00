"""Plots what a training run did, step by step."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from canvas import FAINT, INK, LINES


def draw_replicas(history: Any, ylabel: str, title: str = "") -> None:
    """Plots one line per device over the steps of a run, each labelled at its end.

    Args:
        history: f32[num_steps, num_devices], a value per step and device.
        ylabel: what the value is, with its unit where it has one.
        title: a line above the picture.
    """
    history = np.asarray(history)
    num_devices = history.shape[1]
    figure, axes = plt.subplots(figsize=(8, 3.6), facecolor="white")
    for place, device in enumerate(np.argsort(history[-1])):
        shade = plt.cm.viridis(0.65 * device / max(1, num_devices - 1))
        axes.plot(history[:, device], LINES[device % len(LINES)], color=shade)
        axes.annotate(
            f"device {device}",
            (len(history) - 1, history[-1, device]),
            xytext=(1.05, (place + 0.5) / num_devices),
            textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": FAINT, "relpos": (0, 0.5)},
            va="center",
            color=INK,
        )
    axes.set_facecolor("white")
    axes.tick_params(colors=INK)
    axes.spines[:].set_color(INK)
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel(ylabel, color=INK)
    axes.set_title(title, fontsize=11, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()

"""Draws a plan: a chip over the time of a step, and what goes over which link."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from ..plan import Plan, PlanError
from ..plan.timeline import COMPUTE
from .canvas import FAINT, HOST, INK, SHADES, TINTS, show, styled, titled

GIB = 2**30
# Height and hatch say the same as the tint.
BUSY = {"facecolor": TINTS[4], "edgecolor": "none"}
SENDS = {"facecolor": TINTS[5], "edgecolor": SHADES[5], "hatch": "///", "linewidth": 0}
WAITS = {"facecolor": "white", "edgecolor": FAINT, "hatch": "...", "linewidth": 0}


@styled
def draw_plan(plan: Plan, title: str = "") -> None:
    """Draws one chip over the time of a step, and below it the memory in use.

    Times are a model's, in the order of the compiler's program. A computation that
    stands still for a collective leaves a dotted gap.

    Args:
        plan: of a step, by `coursekit.plan.plan`.
        title: a line above the picture.

    Raises:
        PlanError: the plan has no times: simulated devices have no speed, or the
            chip's compiler refused the step.
    """
    if plan.timeline is None or not plan.seconds:
        raise PlanError(
            f"The plan for {plan.on.name} has no times to draw: plan for a chip of the "
            'table on which the step fits, as in plan(step, ..., on="h100:8").'
        )
    scale, unit = (1e3, "milliseconds") if plan.seconds < 2 else (1, "seconds")
    figure, (axes, below) = mpl.pyplot.subplots(
        *(2, 1),
        figsize=(9, 3.4 + 0.35 * len(plan.links)),
        sharex=True,
        height_ratios=(1 + len(plan.links), 2.2),
    )
    lanes = {COMPUTE: [], **{name: [] for name in plan.links}}
    waits = []
    for event in sorted(plan.timeline.events, key=lambda event: event.start):
        if event.lane == COMPUTE and event.waits:
            last = lanes[COMPUTE][-1] if lanes[COMPUTE] else [0.0, 0.0]
            waits.append((last[1], event.start))
        add(lanes[event.lane], event.start, event.start + event.length, plan.seconds)
    spent = {
        name: sum(end - start for start, end in bars) for name, bars in lanes.items()
    }
    stands = sum(end - start for start, end in waits)
    for row, (name, bars) in enumerate(lanes.items()):
        look, height = (BUSY, 0.76) if name == COMPUTE else (SENDS, 0.5)
        spans = [(scale * start, scale * (end - start)) for start, end in bars]
        axes.broken_barh(spans, (row - height / 2, height), **look)
    gaps = [(scale * start, scale * (end - start)) for start, end in waits]
    axes.broken_barh(gaps, (-0.38, 0.76), **WAITS)
    names = [name if name == COMPUTE else f"sends: {name}" for name in lanes]
    axes.set_yticks(range(len(lanes)), names)
    axes.set(ylim=(len(lanes) - 0.5, -0.5), xlim=(0, scale * plan.seconds))
    axes.set_title(title, pad=26)
    keys = [Patch(**BUSY, label="computes"), Patch(**SENDS, label="sends")]
    keys += [Patch(**WAITS, label="waits for a link")] if waits else []
    axes.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    state, top = draw_held(below, plan, scale)
    below.set(xlabel=f"{unit} (a model's), on one chip of {plan.on.name}")
    figure.tight_layout()
    length = float(f"{scale * plan.seconds:.2g}")  # versions of JAX differ by more
    rows = [f"{n} {part / plan.seconds:.0%}" for n, part in spent.items()]
    alt = (
        f"One chip of {plan.on.name} over {length:g} {unit}: busy are "
        f"{', '.join(rows)} of the time; the computation waits for links in "
        f"{stands / plan.seconds:.0%}. Memory: {state:.2f} GiB all the time, and "
        f"{top:.2f} GiB at most, of {plan.on.chip.memory / GIB:.1f}."
    )
    show(figure, titled(title, alt))


def add(bars: list, start: float, end: float, whole: float) -> None:
    """Appends a bar, or lengthens the last where no gap could be seen."""
    if bars and start - bars[-1][1] < whole / 3000:
        bars[-1][1] = max(bars[-1][1], end)
    else:
        bars.append([start, end])


def draw_held(axes, plan: Plan, scale: float) -> tuple[float, float]:
    """Draws the memory in use; returns GiB at the least and at the most."""
    temporary = ("temporaries", "activations", "gradients")
    state = sum(n for name, n in plan.memory.items() if name not in temporary) / GIB
    events = sorted(plan.timeline.events, key=lambda event: event.start)
    # The chip's own compiler knows the most that is used; the model knows when.
    factor = (plan.num_bytes_held / GIB - state) * GIB / (plan.timeline.most or 1)
    held = [state + factor * event.live / GIB for event in events]
    times = [scale * event.start for event in events]
    state_look = {"color": TINTS[0], "label": "state and batch"}
    other_look = {"color": TINTS[2], "label": "temporary arrays"}
    axes.fill_between([0, scale * plan.seconds], state, linewidth=0, **state_look)
    axes.fill_between(times, held, state, step="post", linewidth=0, **other_look)
    axes.step(times, held, where="post", color=INK, linewidth=0.8)
    top, room = max(held, default=state), plan.on.chip.memory / GIB
    if room < 2 * top:
        axes.axhline(room, color=SHADES[5], linestyle="--")
        axes.annotate(
            f"the chip has {room:.1f} GiB",
            (0, room),
            (4, 3),
            textcoords="offset points",
        )
    axes.set(ylabel="GiB", ylim=(0, 1.4 * max(top, room if room < 2 * top else 0)))
    axes.legend(loc="upper right", ncols=2)
    return state, top


@styled
def draw_links(plan: Plan, title: str = "") -> None:
    """Draws how much each device sends to each other in a step: a matrix.

    Collectives are taken as rings, in the order of the mesh. Lines part the nodes of a
    cluster: what is in none of the squares on the diagonal travels over the network.

    Args:
        plan: of a step, by `coursekit.plan.plan`.
        title: a line above the picture.
    """
    sent = matrix(plan)
    size = len(sent)
    figure, axes = mpl.pyplot.subplots(figsize=(5.4, 4.4))
    axes.set_title(title)
    shown = np.ma.masked_equal(sent, 0)
    if shown.count():
        low, high = shown.min(), shown.max()
        norm = LogNorm(low / 3, high * (1 if high > low else 1.01))
        image = axes.imshow(shown, cmap="Blues", norm=norm)
        written = EngFormatter("B", places=0)
        figure.colorbar(image, label="bytes in a step", format=written)
    axes.set(xlabel="to device", ylabel="from device", xlim=(-0.5, size - 0.5))
    axes.set_ylim(size - 0.5, -0.5)
    slow = 0.0
    if "network" in plan.links:
        node = plan.on.shape[1]
        edges = np.arange(node, size, node) - 0.5
        for edge in edges:
            axes.axvline(edge, color=INK, linewidth=0.8)
            axes.axhline(edge, color=INK, linewidth=0.8)
        nodes = np.arange(size) // node
        slow = sent[nodes[:, None] != nodes].sum()
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    axes.set_facecolor(HOST)
    figure.tight_layout()
    alt = f"{size} devices send {sent.sum() / 1e9:.3g} GB in a step"
    if "network" in plan.links:
        alt += f", {slow / (sent.sum() or 1):.0%} of it between nodes"
    pairs = np.argwhere(sent == sent.max())[0] if sent.any() else ()
    if len(pairs):
        alt += f"; the most, {sent.max() / 1e6:.3g} MB, from device {pairs[0]} to "
        alt += f"{pairs[1]}"
    show(figure, titled(title, f"{alt}."))


def matrix(plan: Plan) -> np.ndarray:
    """Sums the bytes that each place of the mesh sends to each other in a step."""
    total = np.zeros((len(plan.devices),) * 2)
    for one in plan.sent:
        for groups, num_bytes in one.routes:
            for group in groups:
                if one.kind == "all-to-all":
                    for source in group:
                        others = [place for place in group if place != source]
                        total[source, others] += num_bytes / max(1, len(others))
                elif one.kind == "collective-permute":
                    total[group[0], group[1]] += num_bytes
                else:
                    total[list(group), [*group[1:], group[0]]] += num_bytes
    np.fill_diagonal(total, 0)
    return total

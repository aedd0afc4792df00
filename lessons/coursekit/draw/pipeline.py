"""Draws devices over time: what a profile recorded, and a pipeline's schedule."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
from jax.profiler import ProfileData

from .canvas import CENTRED, FAINT, INK, TINTS, listed, named, show, styled, titled

COMPUTES, EXCHANGES = "computes", "in a collective: waits or exchanges"
EDGE = {"edgecolor": INK, "linewidth": 0.5}
BARS = {  # height and look: height and hatch say the same as the tint
    COMPUTES: (0.76, {"facecolor": TINTS[4], **EDGE}),
    EXCHANGES: (0.44, {"facecolor": TINTS[5], "hatch": "//////", **EDGE}),
}


@dataclasses.dataclass
class Span:
    """A time in milliseconds, and what it was spent on."""

    start: float
    end: float
    kind: str


@styled
def draw_profile(directory: str | os.PathLike[str], title: str = "") -> None:
    """Draws what each simulated CPU device did over time, from the newest trace.

    The steps of `jax.profiler.StepTraceAnnotation` are numbered above. Devices share
    the machine's cores: a bar also holds the time in which its device had no core.

    Args:
        directory: what `jax.profiler.trace` was given.
        title: a line above the picture.

    Raises:
        ValueError: no operation of a simulated CPU device was traced there.
    """
    devices, steps = _recorded(Path(directory))
    if not devices:
        raise ValueError(
            f"There is no trace of simulated CPU devices in {directory}. Call the "
            "jitted function, and block_until_ready on its result, inside "
            f"`with jax.profiler.trace({os.fspath(directory)!r}):`."
        )
    rows = {"step": steps} if steps else {}
    rows |= {f"device {device}": devices[device] for device in sorted(devices)}
    first = min(span.start for spans in rows.values() for span in spans)
    width = max(span.end for spans in rows.values() for span in spans) - first
    axes = _rows(list(rows), 0.36, title, pad=24)
    spent = dict.fromkeys(BARS, 0.0)
    for row, spans in enumerate(rows.values()):
        for kind, (height, look) in BARS.items():
            some = [span for span in spans if span.kind == kind]
            bars = [(span.start - first, span.end - span.start) for span in some]
            axes.broken_barh(bars, (row - height / 2, height), **look)
            spent[kind] += sum(length for _, length in bars)
    for step in steps:
        axes.axvline(step.start - first, color=FAINT, linestyle=":")
        if step.end - step.start > width / 40:  # room for a number
            middle = (step.start + step.end) / 2 - first
            axes.text(middle, 0, step.kind, **CENTRED)
    axes.set(xlim=(0, width), xlabel="milliseconds")
    keys = [mpl.patches.Patch(**look, label=kind) for kind, (_, look) in BARS.items()]
    keys += [mpl.patches.Patch(facecolor="white", edgecolor=FAINT, label="blank: idle")]
    axes.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    share = spent[EXCHANGES] / sum(spent.values())
    _note(axes, f"In collectives: {share:.0%} of the devices' busy time.")
    show(axes.figure, titled(title, _profile_alt(devices, steps)))


@styled
def draw_schedule(num_stages: int, num_microbatches: int, title: str = "") -> None:
    """Draws GPipe's forward schedule: which microbatch each device runs at each tick.

    Stage s, on device s, runs microbatch m at tick s + m. Blank cells are idle: the
    bubble.

    Args:
        num_stages: the devices, one stage on each.
        num_microbatches: the parts into which a batch is cut.
        title: a line above the picture.

    Raises:
        ValueError: a number is below 1.
    """
    given = {"num_stages": num_stages, "num_microbatches": num_microbatches}
    for name, number in given.items():
        if number < 1:
            raise ValueError(f"{name} is {number}; a pipeline needs at least 1.")
    ticks = num_microbatches + num_stages - 1
    names = [f"device {stage}: stage {stage}" for stage in range(num_stages)]
    axes = _rows(names, 0.42, title)
    fontsize = min(10, 220 / ticks)
    for stage in range(num_stages):
        for tick in range(ticks):
            look = {"facecolor": "none", "edgecolor": FAINT, "linestyle": ":"}
            microbatch = tick - stage
            if 0 <= microbatch < num_microbatches:
                tint = TINTS[microbatch % len(TINTS)]
                look = {"facecolor": tint, "edgecolor": INK, "zorder": 2}
                axes.text(tick, stage, str(microbatch), fontsize=fontsize, **CENTRED)
            cell = mpl.patches.Rectangle(
                (tick - 0.5, stage - 0.5), 1, 1, clip_on=False, **look
            )
            axes.add_patch(cell)
    axes.set(xlim=(-0.5, ticks - 0.5), xlabel="tick")
    axes.set_xticks(range(0, ticks, -(-ticks // 24)))
    idle, cells = num_stages * (num_stages - 1), num_stages * ticks
    share = f"(S - 1) / (M + S - 1) = {num_stages - 1}/{ticks} = {idle / cells:.0%}"
    _note(axes, f"{idle} of {cells} cells are idle, the bubble: {share}")
    alt = (
        f"{num_stages} devices, a stage each, run {num_microbatches} microbatches in "
        f"{ticks} ticks: device s runs microbatch m at tick s + m. So device 0 works "
        f"from tick 0 to {num_microbatches - 1}, device {num_stages - 1} from tick "
        f"{num_stages - 1} to {ticks - 1}. {idle} of {cells} cells, "
        f"{idle / cells:.0%}, are idle: the bubble."
    )
    show(axes.figure, titled(title, alt))


def _profile_alt(devices: dict[int, list[Span]], steps: list[Span]) -> str:
    """Says which devices do what; how long that takes differs from run to run."""
    groups: dict[str, list[int]] = {}
    for device in sorted(devices):
        does = "computing, without a collective"
        if any(span.kind == EXCHANGES for span in devices[device]):
            does = "computing, by turns with waiting or exchanging in collectives"
        groups.setdefault(does, []).append(device)
    texts = [f"{named(group)} {does}" for does, group in groups.items()]
    over = f" over steps {listed([step.kind for step in steps], 30, ', ')}"
    rows = f"a row of bars for each device{over if steps else ''}"
    return f"{rows}. They show {listed(texts, 200)}. Blank is idle."


def _recorded(directory: Path) -> tuple[dict[int, list[Span]], list[Span]]:
    """Reads the newest trace: what each device did, and the steps."""
    paths = directory.rglob("*.xplane.pb")
    newest = sorted(paths, key=lambda path: path.stat().st_mtime_ns)[-1:]
    runs, returned, steps = defaultdict(list), {}, []
    with warnings.catch_warnings():
        # From Python 3.12 on, the first look at an event's stats warns.
        warnings.simplefilter("ignore", DeprecationWarning)
        for path in newest:
            for plane in ProfileData.from_file(str(path)).planes:
                for thread in plane.lines if plane.name == "/host:CPU" else []:
                    _read(thread.events, runs, returned, steps)
    devices = defaultdict(list)
    for run, operations in runs.items():
        spans: list[Span] = []
        for span in sorted(operations, key=lambda span: span.start):
            if spans:  # other threads may finish an operation, until the next starts
                spans[-1].end = max(spans[-1].end, span.start)
            if spans and spans[-1].kind == span.kind:
                spans[-1].end = max(spans[-1].end, span.end)
            elif span.kind in BARS:
                spans.append(span)
        spans[-1].end = max(spans[-1].end, returned.get(run, 0.0))
        devices[run[0]] += spans
    return devices, steps


def _read(events: Iterable, runs: dict, returned: dict, steps: list) -> None:
    """Reads one thread's events, by what all supported versions of JAX record."""
    latest = Span(0.0, 0.0, "")
    for event in sorted(events, key=lambda event: (event.start_ns, -event.duration_ns)):
        if event.name.startswith("ThreadpoolListener::"):
            continue
        stats = dict(event.stats)
        run = stats.get("device_ordinal"), stats.get("run_id")
        start, end = event.start_ns / 1e6, event.end_ns / 1e6
        if "hlo_op" in stats:
            if start < latest.end:
                latest.kind = "loop"  # its operations are drawn instead
            latest = Span(start, end, COMPUTES)
            runs[run].append(latest)
        elif event.name == "Rendezvous" and start < latest.end:
            latest.kind = EXCHANGES
        elif event.name.endswith("(wait for completion)"):
            returned[run] = end
        elif "step_num" in stats:
            steps.append(Span(start, end, str(stats["step_num"])))


def _rows(names: list[str], height: float, title: str, pad: float = 6) -> mpl.axes.Axes:
    """Makes a figure with a named row each, the first on top."""
    _, axes = mpl.pyplot.subplots(figsize=(9, 1.5 + height * len(names)))
    axes.set_title(title, pad=pad)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    return axes


def _note(axes: mpl.axes.Axes, text: str) -> None:
    """Writes a line below the axes and fits all into the figure."""
    place = {"xytext": (0, -36), "textcoords": "offset points", "va": "top"}
    axes.annotate(text, (0, 0), xycoords="axes fraction", **place)
    axes.figure.tight_layout()

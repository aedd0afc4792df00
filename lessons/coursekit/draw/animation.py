"""Animates what devices send each other: SVG that moves by CSS, without JavaScript."""

from __future__ import annotations

import base64
import dataclasses
import html
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from ..observation import describe
from .canvas import FAINT, INK, TINTS

MOST = 24  # steps of one animation
STEP_S = 2.0
WIDE, HIGH, LEFT = 92, 250, 12  # of a device's column, and of the picture, in pixels


@dataclasses.dataclass(frozen=True)
class Step:
    """One collective: what each device put in and got, by device."""

    kind: str
    pairs: tuple[tuple[int, int], ...]  # of a ppermute
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Animation:
    """A moving picture: notebooks show it, `svg` can be written to a file."""

    svg: str
    alt: str

    def _repr_html_(self) -> str:
        # As an image it has its own styles, and an alternative that readers read.
        data = base64.b64encode(self.svg.encode()).decode()
        alt = html.escape(self.alt, quote=True)
        return f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}">'

    def __repr__(self) -> str:
        return self.alt


def animate(f: Callable, *args: Any, title: str = "") -> Animation:
    """Animates the collectives of a function, one after the other, with its values.

    Args:
        f: calls a function mapped with `jax.shard_map` over one axis.
        *args: arrays, as for `f`. Small ones show their numbers.
        title: a line above the picture.

    Raises:
        ValueError: `f` maps nothing, or sends nothing, or its loops have no fixed
            number of rounds.
    """
    steps: list[Step] = []
    program = jax.make_jaxpr(f)(*args)
    _run(program, jax.tree.leaves(args), steps, None)
    if not steps:
        raise ValueError(
            "animate found no collective: give it a function that is mapped with "
            "jax.shard_map, and calls lax.ppermute, lax.psum or the like."
        )
    left_out = len(steps) - MOST
    steps = steps[:MOST]
    alt = "; ".join(f"step {n}: {_said(step)}" for n, step in enumerate(steps, 1))
    if left_out > 0:
        alt += f"; {left_out} more steps are left out"
    alt = f"{title + ': ' if title else ''}{len(steps[0].before)} devices. {alt}."
    return Animation(_svg(steps, title, alt), alt)


def _run(program: Any, values: Sequence, steps: list[Step], axis: str | None) -> list:
    """Evaluates a program; under an axis, one device's part, all at once by `vmap`."""
    jaxpr, env = program.jaxpr, {}

    def read(one):
        return one.val if hasattr(one, "val") else env[one]

    env.update(zip(jaxpr.constvars, program.consts, strict=True))
    env.update(zip(jaxpr.invars, values, strict=True))
    for line in jaxpr.eqns:
        taken, params = [read(one) for one in line.invars], line.params
        name = line.primitive.name
        if name == "shard_map":
            given = _mapped(params, taken, steps)
        elif name == "scan":
            given = _scan(line, taken, steps, axis)
        elif name in ("pvary", "pcast", "pbroadcast", "reshard"):
            given = taken
        elif call := next((one for one in params.values() if _is_call(one)), None):
            if name in ("while", "cond"):
                raise ValueError(
                    f"animate follows lax.scan and Python loops, but not a {name}, "
                    "which depends on values."
                )
            given = _run(call, taken, steps, axis)
        elif name.removesuffix("_invariant") in COLLECTIVES and axis:
            given = _collective(name.removesuffix("_invariant"), taken, params, axis)
            steps.append((name, params, taken[0], given[0]))
        else:
            given = line.primitive.bind(*taken, **params)
            given = given if line.primitive.multiple_results else [given]
        env.update(zip(line.outvars, given, strict=True))
    return [read(one) for one in jaxpr.outvars]


def _is_call(value: Any) -> bool:
    return hasattr(value, "jaxpr") and hasattr(value, "consts")


def _scan(line: Any, taken: list, steps: list, axis: str | None) -> list:
    """Runs a scan round by round."""
    body, length = line.params["jaxpr"], line.params["length"]
    # Versions count these differently: what has one axis more outside is scanned.
    outer = [one.aval.ndim for one in line.invars]
    scanned = [out > inn.ndim for out, inn in zip(outer, body.in_avals, strict=True)]
    results = [one.aval.ndim for one in line.outvars]
    num_carry = sum(
        out == inn.ndim for out, inn in zip(results, body.out_avals, strict=True)
    )
    num_consts = len(taken) - sum(scanned) - num_carry
    consts, carry = taken[:num_consts], taken[num_consts : num_consts + num_carry]
    rows = []
    order = range(length)
    for number in reversed(order) if line.params["reverse"] else order:
        xs = [one[number] for one in taken[num_consts + num_carry :]]
        out = _run(body, [*consts, *carry, *xs], steps, axis)
        carry = out[:num_carry]
        rows.append(out[num_carry:])
    if line.params["reverse"]:
        rows.reverse()
    return [*carry, *(jax.numpy.stack(one) for one in zip(*rows, strict=True))]


def _mapped(params: dict, taken: list, steps: list[Step]) -> list:
    """Runs a mapped function on all blocks of its arguments."""
    mesh, specs = params["mesh"], params["in_specs"]
    if len(mesh.axis_names) != 1:
        raise ValueError(
            f"animate draws one axis; this function maps over {mesh.axis_names}."
        )
    [axis], size = mesh.axis_names, mesh.size
    blocks = []
    for spec, value in zip(specs, taken, strict=True):
        at = _split(spec)
        value = jax.numpy.asarray(value)
        parts = [value] * size if at is None else jax.numpy.split(value, size, at)
        blocks.append(jax.numpy.stack(parts))
    seen: list = []
    body = params["jaxpr"]
    program = body if _is_call(body) else jax.extend.core.ClosedJaxpr(body, ())

    def device(*values):
        seen.clear()
        out = _run(program, values, seen, axis)
        return out, [(taken, given) for _, _, taken, given in seen]

    out, values = jax.vmap(device, axis_name=axis)(*blocks)
    for (name, one, *_), (before, after) in zip(seen, values, strict=True):
        pairs = tuple(map(tuple, one.get("perm", ())))
        steps.append(Step(name, pairs, _texts(before), _texts(after)))
    whole = []
    for spec, value in zip(params["out_specs"], out, strict=True):
        at = _split(spec)
        parts = list(value)
        whole.append(parts[0] if at is None else jax.numpy.concatenate(parts, at))
    return whole


def _split(spec: Any) -> int | None:
    """Returns the axis that a spec splits."""
    return next((place for place, name in enumerate(spec) if name), None)


COLLECTIVES = {
    "ppermute": lambda x, axis, p: lax.ppermute(x, axis, p["perm"]),
    "psum": lambda x, axis, p: lax.psum(x, axis),
    "pmax": lambda x, axis, p: lax.pmax(x, axis),
    "pmin": lambda x, axis, p: lax.pmin(x, axis),
    "all_gather": lambda x, axis, p: lax.all_gather(
        x, axis, axis=p["all_gather_dimension"], tiled=p["tiled"]
    ),
    "reduce_scatter": lambda x, axis, p: lax.psum_scatter(
        x, axis, scatter_dimension=p["scatter_dimension"], tiled=p["tiled"]
    ),
    "all_to_all": lambda x, axis, p: lax.all_to_all(
        x, axis, p["split_axis"], p["concat_axis"], tiled=p["tiled"]
    ),
}
COMBINES = ("psum", "pmax", "pmin", "reduce_scatter")


def _collective(name: str, taken: list, params: dict, axis: str) -> list:
    return [COLLECTIVES[name](one, axis, params) for one in taken]


def _texts(values: Any) -> tuple[str, ...]:
    """Writes what each device has: up to four numbers, else dtype and shape."""
    return tuple(
        " ".join(f"{float(number):.3g}" for number in block.ravel())
        if block.size <= 4 and block.dtype.kind in "fiu"
        else describe(block)
        for block in np.asarray(values)
    )


def _said(step: Step) -> str:
    kind = step.kind.removesuffix("_invariant")
    if step.pairs:
        sends = [f"{a} sends {step.before[a]} to {b}" for a, b in step.pairs]
        return f"{kind}, device {', '.join(sends)}"
    same = len(set(step.after)) == 1
    got = f"all get {step.after[0]}" if same else f"they get {', '.join(step.after)}"
    return f"{kind} of {', '.join(step.before)}: {got}"


def _svg(steps: Sequence[Step], title: str, alt: str) -> str:
    """Writes the picture; each step is a group that is seen for its share of time."""
    size, total = len(steps[0].before), len(steps) * STEP_S
    width = 2 * LEFT + WIDE * size
    share = 100 / len(steps)
    css, body = [], []
    for number, step in enumerate(steps):
        first, last = number * share, (number + 1) * share
        css.append(
            f"@keyframes s{number}{{0%,{max(0, first - 0.01):.2f}%{{opacity:0}}"
            f"{first:.2f}%,{last - 0.01:.2f}%{{opacity:1}}"
            f"{last:.2f}%,100%{{opacity:0}}}}"
            if len(steps) > 1
            else f"@keyframes s{number}{{0%,100%{{opacity:1}}}}"
        )
        kind = step.kind.removesuffix("_invariant")
        parts = [
            f'<text x="{LEFT}" y="46" class="f">step {number + 1} of {len(steps)}: '
            f"{html.escape(kind)}</text>"
        ]
        pairs = step.pairs or [(device, device) for device in range(size)]
        for device, text in enumerate(step.before):
            parts.append(_box(device, 70, text, device))
        for source, target in pairs:
            name = f"m{number}_{source}_{target}"
            begin, end = first + 0.15 * share, first + 0.7 * share
            away = f"translate({WIDE * (target - source)}px,96px)"
            css.append(
                f"@keyframes {name}{{0%,{begin:.2f}%{{transform:none}}"
                f"{end:.2f}%,100%{{transform:{away}}}}}"
            )
            text = step.before[source] if step.pairs else step.after[target]
            tint = None if kind in COMBINES else source
            parts.append(
                f'<g style="animation:{name} {total:g}s infinite ease-in-out">'
                f"{_box(source, 70, text, tint)}</g>"
            )
        if not step.pairs:  # all devices' values meet on a bar
            parts.insert(
                1,
                f'<rect x="{LEFT}" y="130" width="{WIDE * size}" height="14" rx="4" '
                f'fill="{TINTS[7]}" stroke="{INK}"/>',
            )
        body.append(
            f'<g class="s" style="animation:s{number} {total:g}s infinite step-end">'
            f"{''.join(parts)}</g>"
        )
    devices = "".join(
        f'<text x="{LEFT + WIDE * (n + 0.5):g}" y="236" class="f m">device {n}</text>'
        f'<rect x="{LEFT + WIDE * n + 4}" y="158" width="{WIDE - 8}" height="52" '
        f'rx="6" fill="none" stroke="{FAINT}" stroke-dasharray="3 3"/>'
        for n in range(size)
    )
    still = "g{animation-play-state:paused!important}"
    still = f"@media (prefers-reduced-motion:reduce){{{still}}}"
    style = (
        f"text{{font:13px sans-serif;fill:{INK}}}.m{{text-anchor:middle}}"
        f".f{{fill:{FAINT}}}.t{{font-weight:bold}}{still}{''.join(css)}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HIGH}" '
        f'width="{width}" height="{HIGH}" role="img" aria-label="{html.escape(alt)}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff" rx="8"/>'
        f'<text x="{LEFT}" y="24" class="t">{html.escape(title)}</text>'
        f"{devices}{''.join(body)}</svg>"
    )


def _box(device: int, y: int, text: str, source: int | None) -> str:
    """Writes a block with its value, in its device's colour; white: of several."""
    x = LEFT + WIDE * device
    tint = "#fff" if source is None else TINTS[source % len(TINTS)]
    size = min(13, 1.6 * (WIDE - 12) / max(1, len(text)))
    return (
        f'<rect x="{x + 8}" y="{y}" width="{WIDE - 16}" height="36" rx="6" '
        f'fill="{tint}" stroke="{INK}"/>'
        f'<text x="{x + WIDE / 2:g}" y="{y + 23}" class="m" '
        f'style="font-size:{size:.3g}px">{html.escape(text)}</text>'
    )

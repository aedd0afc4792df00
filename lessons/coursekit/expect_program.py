"""Checks where results are, what the devices send each other, and what is compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from .expect import Causes, expect, expect_result, explained, wrong
from .i18n import plural
from .observation import Collective, Observation, Shard, bounds, describe, leaves
from .traced_program import EVERY_DEVICE, ONE_DEVICE

__all__ = [
    "expect_arrays",
    "expect_collectives",
    "expect_devices",
    "expect_dtypes",
    "expect_held",
    "expect_kept_program",
    "expect_layout",
    "expect_moved",
    "expect_one_sync",
    "expect_own_rows",
    "expect_replicas",
]
Index = tuple[tuple[int, int], ...]  # a (start, stop) pair per axis


def expect_devices(
    seen: Observation,
    num_devices: int,
    *,
    causes: Causes | None = None,
) -> None:
    """Raises unless each of `num_devices` devices holds one row of every array.

    Example: `expect_devices(observe(shard_batch, batch, 8), 8)`
    """
    expect_result(seen)
    wanted = f"{num_devices} devices with one row of the leading axis each"
    for path, leaf in leaves(seen.value):
        pieces = seen.layout.get(path, ())
        name = f"result{path}" if path else "The result"
        rows = [piece.index[0] if piece.index else (0, 1) for piece in pieces]
        if not pieces:
            headline, was = f"{name} is on no device.", f"{describe(leaf)} on the host"
        elif len(pieces) != num_devices:
            count, s = len(pieces), plural(len(pieces))
            headline = f"{name} lives on {count} device{s}, not on {num_devices}."
            was = f"{describe(leaf)} on {count} device{s}"
        elif sorted(rows) != [(row, row + 1) for row in range(num_devices)]:
            headline = f"{name} is not split along its leading axis."
            start, stop = rows[0]
            was = f"device {pieces[0].device} holds rows {start} to {stop - 1}"
        else:
            continue
        shape = np.shape(leaf)
        rest = tuple((0, size) for size in shape[1:])
        by_rows = {row: ((row, row + 1), *rest) for row in range(num_devices)}
        layouts = shape, placed(pieces), by_rows
        rows = {"seen": was, "expected": wanted, "layouts": layouts}
        wrong(seen, headline, causes=causes, **rows)


def placed(pieces: Sequence[Shard]) -> dict[int, Index]:
    """Maps each device to the part of an array that it holds, as bounds per axis."""
    return {piece.device: piece.index for piece in pieces}


def expect_replicas(seen: Observation, *, causes: Causes | None = None) -> None:
    """Raises unless all rows of each array's leading axis agree bit for bit."""
    expect_result(seen)
    for path, leaf in leaves(seen.value):
        rows = [np.ascontiguousarray(row).tobytes() for row in np.atleast_1d(leaf)]
        distinct, name = len(set(rows)), f"result{path}"
        headline = f"{len(rows)} devices hold {distinct} values of {name}."
        if distinct == len(rows):
            headline = f"All {distinct} devices hold a different {name}."
        shown = {"expected": "replicas that agree bit for bit", "causes": causes}
        expect(seen, distinct <= 1, headline, **shown)


def expect_layout(
    seen: Observation,
    where: Mapping[str, tuple[str, Sequence]],
    mesh_shape: Sequence[int],
    axis_names: Sequence[str],
    *,
    mistakes: Mapping[str, Sequence] | None = None,
    causes: Causes | None = None,
) -> None:
    """Raises unless arrays are sharded over a mesh of the first devices by their specs.

    Example: `expect_layout(seen, {"w1": ('["w1"]', (None, "x"))}, (2, 4), ("y", "x"))`

    Args:
        seen: an observation.
        where: for each array, by name: its path in the result and its spec, a tuple.
        mesh_shape: devices along each mesh axis.
        axis_names: the names of the mesh's axes.
        mistakes: maps a likely cause to the spec that it leads to.
        causes: see `expect`.
    """
    expect_result(seen)
    for name, (path, spec) in where.items():
        shape = np.shape(dict(leaves(seen.value))[path])
        found = placed(seen.layout.get(path, ()))
        wanted = parts_of(shape, mesh_shape, axis_names, spec)
        cause = ""
        if sorted(found.values()) == sorted(wanted.values()):
            cause = "the mesh takes the first devices, in their order"
        for mistake, other in (mistakes or {}).items():
            if found == parts_of(shape, mesh_shape, axis_names, other):
                cause = mistake
        expect_parts(seen, name, shape, found, wanted, likely=cause, causes=causes)


def expect_parts(
    seen: Observation,
    name: str,
    shape: tuple[int, ...],
    found: Mapping[int, Index],
    wanted: Mapping[int, Index],
    **more: Any,
) -> None:
    """Raises unless each device holds the part of an array that it should."""
    for device in sorted({*found, *wanted}):
        was, expected = block(found.get(device)), block(wanted.get(device))
        if was != expected:
            headline = f"Device {device} holds {was} of {name}."
            if device not in found:
                headline = f"Device {device} holds nothing of {name}."
            layouts = shape, dict(found), dict(wanted)
            wrong(seen, headline, expected=expected, layouts=layouts, **more)


def block(index: Index | None) -> str:
    """Writes a device's part of an array: `[0:2, 0:4]`."""
    if index is None:
        return "nothing"
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in index) + "]"


def parts_of(
    shape: tuple[int, ...], mesh_shape: Any, axis_names: Any, spec: Sequence
) -> dict[int, Index]:
    """Maps each device to the part of an array that a spec on a mesh gives it."""
    devices = jax.devices()[: np.prod(mesh_shape, dtype=int)]
    types = (AxisType.Auto,) * len(axis_names)
    mesh = jax.make_mesh(mesh_shape, axis_names, axis_types=types, devices=devices)
    parts = NamedSharding(mesh, PartitionSpec(*spec)).devices_indices_map(shape)
    numbers = {device: number for number, device in enumerate(jax.devices())}
    return {numbers[d]: bounds(index, shape) for d, index in parts.items()}


def expect_arrays(
    seen: Observation,
    *,
    largest: int | None = None,
    never: Sequence[int] = (),
    causes: Causes | None = None,
) -> None:
    """Limits the arrays in the program: their elements, or one shape of them.

    Example: `expect_arrays(seen, largest=w.size - 1)`, or `never=w.shape`

    Inside a mapped function, and in a compiled program, an array counts with one
    device's block. Shapes that differ in the order of their axes, in axes of size 1 or
    by flattening count as the same.
    """
    expect_traced(seen)
    for shape in sorted(seen.array_shapes, key=math.prod, reverse=True):
        if largest is not None and math.prod(shape) > largest:
            wanted = f"no array of more than {largest} elements"
        elif never and same_numbers(shape, tuple(never)):
            wanted = "a program without an array of this shape"
        else:
            continue
        headline = f"The program builds an array of shape {list(shape)}."
        was = f"{math.prod(shape)} elements"
        wrong(seen, headline, seen=was, expected=wanted, causes=causes)


def same_numbers(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tells whether one shape is another, with its axes moved, joined or of size 1."""
    mine, others = (sorted(n for n in one if n != 1) for one in (shape, other))
    return mine == others or mine == [math.prod(others)]


def expect_held(seen: Observation, at_most: int, what: str) -> None:
    """Limits how many numbers the program holds at a time, of those that it computes.

    Example: `expect_held(seen, 7 * rows**2, "Scores of several blocks")`

    Args:
        seen: an observation with `traced=True`.
        at_most: the numbers.
        what: several of these are then held at once; a plural.
    """
    expect_traced(seen)
    headline = f"{what} are held at once."
    rows = {"seen": f"{seen.most_held:,} numbers", "expected": f"at most {at_most:,}"}
    expect(seen, seen.most_held <= at_most, headline, **rows)


def expect_collectives(
    seen: Observation,
    counts: Mapping[str, int] | None = None,
    *,
    never: Sequence[str] = (),
    in_loop: bool = True,
    causes: Causes | None = None,
) -> None:
    """Checks which collectives the program runs.

    Example: `expect_collectives(seen, {"all-reduce": 1}, in_loop=False)`

    Args:
        seen: an observation with `traced=True` or `compiled=True`.
        counts: how often each kind runs, in XLA's names; other kinds must not run.
        never: kinds that must not run.
        in_loop: whether any may run in a loop.
        causes: see `expect`.
    """
    collectives = expect_traced(seen)
    was = "; ".join(map(str, collectives)) or "no collective"
    shown = {"seen": was, "causes": causes}
    kinds = (
        []
        if counts is None
        else [*counts, *(collective.kind for collective in collectives)]
    )
    for kind in dict.fromkeys(kinds):
        times = [
            collective.times for collective in collectives if collective.kind == kind
        ]
        wanted = counts.get(kind, 0)
        expected = ", ".join(
            f"{n} x {collective}" for collective, n in counts.items() if n
        )
        expected = expected or "no collective"
        headline = f"The program runs {kind} an unknown number of times."
        expect(seen, None not in times, headline, expected=expected, **shown)
        headline = f"The program runs {sum(times)} x {kind}, not {wanted}."
        if not wanted:
            headline = (
                f"The devices communicate: {sum(times)} x {kind}, none is needed."
            )
        expect(seen, sum(times) == wanted, headline, expected=expected, **shown)
    for collective in collectives:
        headline = f"The program runs {collective.kind}, which it must not."
        rows = {"expected": f"no {collective.kind}", **shown}
        expect(seen, collective.kind not in never, headline, **rows)
        headline = f"The {collective.kind} runs inside a loop."
        rows = {"expected": "one after the loop", **shown}
        expect(seen, in_loop or not collective.in_loop, headline, **rows)


def expect_moved(
    seen: Observation,
    *,
    at_most: float = np.inf,
    at_least: float = 0,
    causes: Causes | None = None,
) -> None:
    """Limits the bytes that a device sends in all (`Collective.bytes_moved`).

    Example: `expect_moved(seen, at_most=1.01 * 2 * w.nbytes * 7 / 8)`
    """
    collectives = expect_traced(seen)
    was = "; ".join(map(str, collectives)) or "no collective"
    moved = sum(collective.bytes_moved for collective in collectives)
    unknown = any(collective.times is None for collective in collectives)
    if moved > at_most or (unknown and np.isfinite(at_most)):
        wanted = f"at most {at_most:,.0f} bytes"
    elif moved < at_least or unknown:
        wanted = f"at least {at_least:,.0f} bytes"
    else:
        return
    headline = f"Each device sends {moved:,.0f} bytes."
    if unknown:
        headline = "Each device sends an unknown number of bytes."
    wrong(seen, headline, seen=was, expected=wanted, causes=causes)


def expect_one_sync(
    seen: Observation,
    params: Mapping[str, Any],
    num_devices: int,
    num_steps: int = 1,
) -> None:
    """Limits what is sent to one all-reduce of loss and gradients per step, plus 1 %.

    Example: `expect_one_sync(observe(step, params, x, y, traced=True), params, 8)`

    Args:
        seen: an observation with `traced=True` or `compiled=True`.
        params: all parameters, in full; each has a gradient of its size.
        num_devices: how many devices take part.
        num_steps: how often the program steps.
    """
    numbers = 1 + sum(map(np.size, params.values()))
    once = 4 * numbers * 2 * (num_devices - 1) / num_devices
    expect_moved(seen, at_most=num_steps * 1.01 * once)


USES = {
    ONE_DEVICE: "One device works on all rows, before they are split.",
    EVERY_DEVICE: "Every device is given all rows, not only its own.",
}


def expect_own_rows(seen: Observation, place: int) -> None:
    """Raises unless each device works on its own rows of one input alone.

    Args:
        seen: an observation with `traced=True`.
        place: of the input among the arrays that the program takes.
    """
    expect_traced(seen)
    use = seen.whole_inputs[place] if jax.device_count() > 1 else ""
    expect(seen, not use, USES.get(use, ""))


def expect_dtypes(
    seen: Observation, *, causes: Causes | None = None, **roles: str
) -> None:
    """Raises unless the program works in a dtype; roles: matmul="bf16", sum, exp."""
    expect_traced(seen)
    verbs = {"matmul": "multiplies matrices", "sum": "adds up elements"}
    verbs |= {"exp": "takes exponentials"}
    for role, wanted in roles.items():
        dtypes = (seen.dtypes or {}).get(role, ())
        if dtypes != (wanted,):
            was = " and ".join(dtypes) or "no such operation"
            headline = f"The program {verbs[role]} in {was}, not in {wanted} alone."
            if not dtypes:
                headline = f"The program {verbs[role]} nowhere."
            wrong(seen, headline, seen=was, expected=wanted, causes=causes)


def expect_kept_program(seen: Observation, at_most: int = 0) -> None:
    """Raises where the call compiled anew, although an earlier one had its shapes."""
    count = seen.num_compiles
    headline = f"The call compiled {count} program{plural(count)} again."
    expected = "the program that an earlier call with these shapes compiled"
    expect(seen, count <= at_most, headline, expected=expected)


def expect_traced(seen: Observation) -> tuple[Collective, ...]:
    """Raises unless JAX could trace the function; returns its collectives."""
    expect_result(seen)
    headline = "JAX could not make a program of the function."
    rows = {"seen": seen.refused, "expected": "a program that traces"}
    rows["likely"] = explained(seen.refused)
    expect(seen, seen.array_shapes is not None, headline, **rows)
    return seen.collectives or ()

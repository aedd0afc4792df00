"""Plans one step: whether it fits, what bounds it, what it sends, how long it takes."""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import itertools
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

from ..compiled_program import CompiledProgram
from ..observation import describe
from .chips import NODE, Chip, Cluster, PlanError, cluster, present, stand_ins
from .costs import Costs
from .operations import Operation
from .timeline import COMPUTE, Price, Timeline

GIB = 2**30
TELL_S = 10  # between two lines of progress
SHORT_S = 1e-3  # a step of which the model knows little
SMALL = 2**20  # bytes of which nobody need be told
HOST_KINDS = {"pinned_host", "unpinned_host"}


@dataclasses.dataclass(frozen=True)
class Sent:
    """A collective of the step, on one chip.

    Attributes:
        kind, array: what is sent: `all-gather`, `bf16[1024,512]`.
        axes: the axes of the mesh along which chips exchange it.
        link: over what; of GPUs, "node" or "network".
        times: how often in a step.
        num_bytes: that a chip sends in a step, by ring algorithms.
        seconds: of a step, if nothing else happens meanwhile.
        source: the line that it comes from.
        sliced: whether it is an all-reduce of which each chip keeps a slice, priced as
            the reduce-scatter that it is.
        routes: groups of places in the mesh, or (from, to) pairs, and the bytes that
            each place sends in them.
    """

    kind: str
    array: str
    axes: tuple[str, ...]
    link: str
    times: int
    num_bytes: float
    seconds: float
    source: str
    sliced: bool
    routes: tuple[tuple, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is known of a step without running it. Seconds are a model's.

    Attributes:
        on: the cluster.
        devices: the places of the mesh, in its order.
        note: which compiler made the program.
        flops: of a chip's matrix products in a step, loops with all their rounds.
        again: those of them that repeat the forward pass (`jax.checkpoint`).
        num_bytes: of memory that a chip reads and writes.
        memory: bytes of a chip by what holds them, the largest moment of the step.
        arrays: the largest temporary arrays at that moment: bytes by description.
        sent: the collectives.
        lower: seconds if everything overlaps, at the chip's peak rates.
        upper: seconds if nothing does, at the rates that chips were measured to reach.
        seconds: seconds in the compiler's order, each link beside the computation.
        compute: seconds of its matrix products at the rate that chips reach.
        links: seconds on each kind of link.
        timeline: the events of a step on one chip.
        measured: seconds of a step on the devices that are there, if it was run.
        refused: what the chip's own compiler said when it refused.
        doubts: what the model leaves out of this step, or had to guess.
    """

    on: Cluster
    devices: tuple[Any, ...]
    note: str
    memory: dict[str, float]
    arrays: dict[str, float]
    advice: tuple[str, ...]
    measured: float = 0.0
    refused: str = ""
    flops: float = 0.0
    again: float = 0.0
    num_bytes: float = 0.0
    sent: tuple[Sent, ...] = ()
    lower: float = 0.0
    upper: float = 0.0
    seconds: float = 0.0
    compute: float = 0.0
    links: dict[str, float] = dataclasses.field(default_factory=dict)
    timeline: Timeline | None = None
    doubts: tuple[str, ...] = ()

    @property
    def num_bytes_held(self) -> float:
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        return not self.refused and self.num_bytes_held <= self.on.chip.memory

    @property
    def bound(self) -> str:
        """What bounds the step, if everything overlaps: "compute", "memory", a link."""
        parts = {COMPUTE: self.compute, "memory": self.memory_seconds, **self.links}
        return max(parts, key=parts.get)

    @property
    def memory_seconds(self) -> float:
        """Seconds to read and write all that the program does."""
        return self.num_bytes / self.on.chip.memory_rate

    @property
    def mfu(self) -> float:
        """The share of the bfloat16 peak that the model's own FLOPs can reach."""
        peak = self.on.chip.flops * self.seconds
        return (self.flops - self.again) / peak if peak else 0.0

    def __str__(self) -> str:
        return "\n".join(lines(self))

    __repr__ = __str__


def devices(on: str) -> list:
    """Returns devices for which a step can be planned: the chips of a cluster.

    They are for meshes and shardings; no array is ever put on them.

    Args:
        on: as in `plan`: "h100:2x8", "v5p:4x4x4".

    Raises:
        PlanError: there is no such chip or slice.
    """
    return stand_ins(cluster(on))[0]


def plan(
    step: Callable,
    *shapes: Any,
    on: str | Cluster = "",
    trips: int | None = None,
    fused: str = "",
    limit_s: float = 1800,
    tell_s: float = TELL_S,
) -> Plan:
    """Plans a step of a program, from the shapes of its arguments.

    Nothing of the model is allocated, and nothing is run, unless `on` is left out.

    Args:
        step: any function that `jax.jit` takes, or has taken.
        *shapes: its arguments: trees of `jax.ShapeDtypeStruct` with a `NamedSharding`.
            Its mesh may be an `AbstractMesh`, or be made of `devices(on)`.
        on: the chips: "h100:8", "h100:2x8" (nodes x GPUs), "v5p:4x4x4" (a slice), or a
            `Cluster` of chips of your own. Left out, the devices that are there: then
            the step also runs, on small numbers, and `measured` stands beside what is
            planned, if the table has such chips.
        trips: how often loops run whose number of rounds the program does not say.
        fused: a `jax.named_scope` that one kernel computes, such as "flash": what is
            only used inside is not written to memory.
        limit_s: seconds after which compiling is given up.
        tell_s: seconds of compiling between two lines that say so.

    Raises:
        PlanError: the step, its shapes or `on` cannot be planned; says what to change.
    """
    target = on if isinstance(on, Cluster) else cluster(on) if on else here(shapes)
    there, why = stand_ins(target)
    measured = 0.0 if on else run(step, shapes)
    if target.chip.name == "cpu":
        there, why = jax.devices(), "simulated devices have no speed to predict"
    # The program of a real GPU hides its matrix products in libraries.
    moves = not on and target.chip.name != "cpu"
    given = shapes
    shapes, order = placed(shapes, target, there, moves)
    refused, executable = "", None
    try:
        executable = compiled(lowered(step, shapes), target.name, limit_s, tell_s)
    except Exception as error:  # JAX's class for it varies by version
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        refused = " ".join(str(error).split())
    simulated = order[0].platform == "cpu"
    memory, arrays, program = arguments(step, shapes), {}, {}
    if executable:
        program = price(executable, target, order, shapes, simulated, trips, fused)
        arrays = program.pop("arrays")
        memory |= program.pop("temporaries")
    elif found := re.search(r"\(([\d.]+)G\) exceeds available HBM", refused):
        memory["temporaries"] = float(found[1]) * GIB
    donates = program.pop("donates", True)
    program["doubts"] = (*unsharded(step, given), *program.get("doubts", ()))
    known = {"refused": refused, "measured": measured, **program}
    found = Plan(target, tuple(order), why, memory, arrays, (), **known)
    if found.fits:
        return found
    return dataclasses.replace(
        found, advice=tuple(advice(target, memory, shapes, donates))
    )


def here(shapes: Any) -> Cluster:
    """Returns the devices that are there, as many as the shapes are sharded over."""
    kind = jax.devices()[0].device_kind
    size = max(mesh.size for mesh in meshes(shapes)) if meshes(shapes) else 1
    # Simulated devices have no speed: all takes them no time.
    chip = present(kind) or Chip(kind, (kind,), *[math.inf] * 7)
    shape = (-(-size // NODE), min(size, NODE))
    if chip.axes:
        places = [device.coords for device in jax.devices()]
        shape = tuple(int(n) + 1 for n in np.max(places, axis=0))[: chip.axes]
    return Cluster(f"{size} x {kind}", chip, shape)


def meshes(shapes: Any) -> list[Mesh | AbstractMesh]:
    """Returns the meshes that the shapes are sharded over."""
    shardings = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(shapes)]
    named = [one for one in shardings if isinstance(one, NamedSharding)]
    return list(dict.fromkeys(one.mesh for one in named))


def placed(shapes: Any, on: Cluster, there: list, moves: bool) -> tuple[Any, list]:
    """Returns shapes on devices that can be compiled for, and these in mesh order.

    Args:
        shapes: as the caller gave them.
        on: the chips.
        there: their stand-ins.
        moves: whether to take these also where the shapes are on other devices.

    Raises:
        PlanError: the shapes' mesh does not match the chips.
    """
    found = meshes(shapes)
    if len(found) > 1:
        raise PlanError(
            f"The shapes are sharded over {len(found)} different meshes: use one."
        )
    if not found and on.num_chips > 1:
        raise PlanError(
            f"No shape has a NamedSharding, but {on.name} has {on.num_chips} chips: "
            "give each jax.ShapeDtypeStruct a sharding=NamedSharding(mesh, spec)."
        )
    if found and found[0].size != on.num_chips:
        sizes = ", ".join(f"{name}={n}" for name, n in found[0].shape.items())
        raise PlanError(
            f"The shapes' mesh ({sizes}) has {found[0].size} devices, but {on.name} "
            f"has {on.num_chips} chips."
        )
    one = SingleDeviceSharding(there[0])
    if not found:
        mesh, order = None, there[:1]
    elif moves or isinstance(found[0], AbstractMesh):
        names, types = found[0].axis_names, found[0].axis_types
        sizes = tuple(found[0].shape.values())
        try:
            mesh = jax.make_mesh(sizes, names, axis_types=types, devices=there)
        except NotImplementedError:
            raise PlanError(
                f"A mesh of {' x '.join(map(str, sizes))} does not lie on a torus of "
                f"{' x '.join(map(str, on.shape))}: each axis of the mesh has the size "
                "of one or several axes of the torus."
            ) from None
        order = list(mesh.devices.flat)
    else:
        mesh, order = found[0], list(found[0].devices.flat)

    def place(leaf):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        sharding, spec = one, PartitionSpec()
        if mesh:
            spec = getattr(getattr(leaf, "sharding", None), "spec", spec)
            sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(place, shapes), order


def lowered(step: Callable, shapes: Sequence) -> Any:
    """Traces and lowers; raises `PlanError` where JAX cannot."""
    if not callable(step):
        raise PlanError(f"plan needs a function, not {describe(step)}.")
    try:
        return (step if hasattr(step, "lower") else jax.jit(step)).lower(*shapes)
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        raise PlanError(
            f"The step cannot be compiled from shapes alone: {type(error).__name__}: "
            f"{text[0][:300]}"
        ) from error


def compiled(program: Any, name: str, limit_s: float, tell_s: float) -> Any:
    """Compiles beside this thread, which can be interrupted, and says that it does.

    Raises:
        PlanError: it took too long; the compiler ends its work in the background.
    """
    found: dict[str, Any] = {}

    def work():
        try:
            found["program"] = program.compile()
        except Exception as error:
            found["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    begin = time.monotonic()
    try:
        for tells in itertools.count(1):
            until = begin + min(tells * tell_s, limit_s)
            thread.join(max(0.0, until - time.monotonic()))
            spent = time.monotonic() - begin
            if not thread.is_alive():
                break
            if spent >= limit_s:
                raise PlanError(
                    f"Compiling for {name} takes longer than limit_s={limit_s:g}: give "
                    "it more, or plan fewer layers. (It goes on in the background.)"
                )
            print(f"compiling for {name}: {spent:.0f} s", flush=True)
    except BaseException:
        atexit.register(leave, found)
        raise
    if "error" in found:
        raise found["error"]
    return found["program"]


def leave(found: dict[str, Any]) -> None:
    """Ends the process at once if its compiler is still at work, which would abort."""
    if not found:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def run(step: Callable, shapes: Any) -> float:
    """Runs a step on small numbers; returns the seconds of the fastest of three."""
    function, key = lowered(step, shapes).compile(), jax.random.key(0)

    def numbers(leaf):
        if not hasattr(leaf, "dtype"):
            return leaf
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return key

        def fill():
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                return jnp.zeros(leaf.shape, leaf.dtype)
            # Products of zeros take a GPU less power, and so less time.
            return jax.random.uniform(key, leaf.shape, leaf.dtype, 0.0, 0.02)

        return jax.jit(fill, out_shardings=getattr(leaf, "sharding", None))()

    spent = []
    for _ in range(4):
        arguments = jax.block_until_ready(jax.tree.map(numbers, shapes))
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        spent.append(time.perf_counter() - begin)
    return min(spent[1:])


def price(executable, on, order, shapes, simulated, trips, fused) -> dict[str, Any]:
    """Prices a compiled program; returns fields of `Plan`."""
    costs = Costs(CompiledProgram(executable, trips), simulated, fused)
    if costs.callbacks:
        raise PlanError(
            f"The step calls back into Python at {', '.join(sorted(costs.callbacks))}: "
            "nobody can plan how long that takes. Remove it (jax.debug.print, "
            "pure_callback, io_callback)."
        )
    if costs.endless:
        raise PlanError(
            f"The loop at {', '.join(sorted(costs.endless))} may run any number of "
            "times: say how often with trips=..."
        )
    ranks = {d: n for n, d in enumerate(sorted(order, key=lambda device: device.id))}
    places = [on.place(device, ranks[device]) for device in order]
    prices = Price(on, places, scheduled=not simulated)
    timeline = Timeline(costs.operations, prices)
    sent: dict[tuple, Sent] = {}
    links = dict.fromkeys(on.links, 0.0)
    flops = again = num_bytes = busy = ideal = 0.0
    for one, times in flat(costs.operations):
        flops += times * sum(one.flops.values())
        again += times * one.again
        num_bytes += times * one.num_bytes
        if not one.transfer:
            busy += times * prices.compute(one)
            ideal += times * prices.ideal(one)
            continue
        link, seconds = prices.link(one)
        links[link] += times * seconds
        what, groups = one.transfer.what, one.transfer.groups
        if not one.transfer.num_bytes:
            continue
        array = f"{what.dtype}[{','.join(map(str, what.shape))}]"
        axes = along(meshes(shapes), groups)
        key = one.transfer.kind, array, axes, link, one.source
        last = sent.get(key)
        sent[key] = Sent(
            *(one.transfer.kind, array, axes, link),
            times + (last.times if last else 0),
            times * one.transfer.num_bytes + (last.num_bytes if last else 0),
            times * seconds + (last.seconds if last else 0),
            *(one.source, one.transfer.sliced),
            ((groups, times * one.transfer.num_bytes), *(last.routes if last else ())),
        )
    stats = executable.memory_analysis()
    temporary = timeline.most if simulated else stats.temp_size_in_bytes
    outputs = stats.output_size_in_bytes - stats.alias_size_in_bytes
    state = stats.argument_size_in_bytes + stats.output_size_in_bytes
    scale = temporary / timeline.most if timeline.most else 1.0
    parts = {"outputs": max(0, outputs)}
    arrays = {}
    local = {local_shape(leaf) for leaf in arrays_of(shapes)}
    for (shape, source, scope), size in timeline.held.items():
        numbers = re.search(r"\[([\d,]*)\]", shape)
        part = "temporaries"
        if "transpose(" in scope and numbers and numbers[1] in local:
            part = "gradients"
        elif "jvp(" in scope or "transpose(" in scope:
            part = "activations"
        parts[part] = parts.get(part, 0.0) + scale * size
        arrays[f"{shape} {source}".strip()] = scale * size
    parts = {name: size for name, size in parts.items() if size >= 1}
    largest = sorted(arrays, key=arrays.get, reverse=True)[:5]
    return {
        **{
            "flops": flops,
            "again": again,
            "num_bytes": num_bytes,
            "compute": ideal / on.chip.reached,
        },
        **{"links": links, "timeline": timeline, "seconds": timeline.seconds},
        "lower": max(ideal, state / on.chip.memory_rate, *links.values()),
        "upper": busy + sum(links.values()),
        "sent": tuple(sorted(sent.values(), key=lambda one: -one.seconds)),
        "temporaries": parts,
        "arrays": {name: arrays[name] for name in largest},
        "donates": stats.alias_size_in_bytes > 0,
        "doubts": tuple(doubts(costs, timeline.seconds)),
    }


def doubts(costs: Costs, seconds: float) -> Iterator[str]:
    """Yields what the prices of a program leave out."""
    if costs.unpriced:
        yield f"taken to cost nothing: {', '.join(sorted(costs.unpriced))}"
    if costs.precise:
        places = ", ".join(sorted(costs.precise))
        yield f"priced at the default precision, less than is asked for: {places}"
    if 0 < seconds < SHORT_S:
        yield "so short a step is bound by latency, which is left out"


def unsharded(step: Callable, shapes: Sequence) -> Iterator[str]:
    """Yields notes on arguments without a sharding, and on those on the host."""
    for name, leaves in leaves_by_name(step, shapes).items():
        shardings = [getattr(leaf, "sharding", None) for leaf in leaves]
        pairs = zip(leaves, shardings, strict=True)
        bare = sum(local_bytes(leaf) for leaf, one in pairs if one is None)
        if meshes(shapes) and bare > SMALL:
            yield f"{name} has arrays without a sharding: they are replicated"
        if HOST_KINDS & {getattr(one, "memory_kind", None) for one in shardings}:
            yield f"{name} has arrays on the host: they are counted as on the chip"


def flat(operations: list[Operation], times: int = 1) -> Iterator:
    """Yields each operation, and how often it runs in a step."""
    for one in operations:
        if one.body:
            yield from flat(one.body, times * one.times)
        else:
            yield one, times


def along(found: list[Mesh], groups: Sequence) -> tuple[str, ...]:
    """Names the axes of the mesh along which groups of devices exchange data."""
    if not found:
        return ()
    names, sizes = found[0].axis_names, tuple(found[0].shape.values())
    spread = set()
    for group in groups:
        places = np.array(np.unravel_index(group, sizes))
        spread |= {names[axis] for axis in np.flatnonzero(np.ptp(places, axis=1))}
    return tuple(name for name in names if name in spread)


def arrays_of(tree: Any) -> list:
    """Lists the arrays of a tree, and not its numbers."""
    return [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]


def local_shape(leaf: Any) -> str:
    """Writes the shape of one device's part: `512,128`."""
    shape = leaf.shape
    if getattr(leaf, "sharding", None) is not None:
        shape = leaf.sharding.shard_shape(shape)
    return ",".join(map(str, shape))


def local_bytes(leaf: Any) -> float:
    sizes = [int(size) for size in local_shape(leaf).split(",") if size]
    return math.prod(sizes) * leaf.dtype.itemsize


def arguments(step: Callable, shapes: Sequence) -> dict[str, float]:
    """Sums the bytes of one chip by argument; of a dict of trees, by its keys."""
    named = leaves_by_name(step, shapes)
    return {name: sum(map(local_bytes, leaves)) for name, leaves in named.items()}


def leaves_by_name(step: Callable, shapes: Sequence) -> dict[str, list]:
    """Lists arrays by argument; of a dict of trees, by its keys."""
    try:
        names = list(inspect.signature(step).parameters)
    except (TypeError, ValueError):
        names = []
    names += [f"argument {n}" for n in range(len(names), len(shapes))]
    found: dict[str, list] = {}
    for name, tree in zip(names, shapes, strict=False):
        deep = isinstance(tree, dict) and not jax.tree_util.all_leaves(tree.values())
        for key, part in tree.items() if deep else [("", tree)]:
            found[f'{name}["{key}"]' if deep else name] = arrays_of(part)
    return found


def advice(on: Cluster, memory: dict, shapes: Any, donates: bool) -> Iterator[str]:
    """Yields what would make a step fit that does not, the largest gain first."""
    tips = []
    given = arrays_of(shapes)
    spread = sum(math.prod(one.shape) * one.dtype.itemsize for one in given)
    saved = sum(map(local_bytes, given)) - spread / on.num_chips
    if on.num_chips > 1:
        text = f"shard every argument over all {on.num_chips} chips"
        tips.append((saved, text))
    if not donates:
        text = "donate the state: jax.jit(step, donate_argnums=0)"
        tips.append((memory.get("outputs", 0.0), text))
    kept = memory.get("activations", 0.0)
    tips.append((kept / 2, "take half as many rows a chip"))
    tips.append((0.75 * kept, "wrap each layer in jax.checkpoint, if it is not"))
    for gain, text in sorted(tips, reverse=True):
        if gain > 0.02 * on.chip.memory:
            yield f"{text}: about {gain / GIB:.1f} GiB less"
    chips = math.ceil(on.num_chips * sum(memory.values()) / on.chip.memory)
    yield f"or take {chips} chips or more, if all of this is sharded over them"


def lines(found: Plan) -> Iterator[str]:
    """Writes a plan as text."""
    held, room = found.num_bytes_held / GIB, found.on.chip.memory / GIB
    of = f" of {room:.1f}" if math.isfinite(room) else ""
    verdict = "fits" if found.fits else f"does not fit: {held - room:.1f} GiB too much"
    size_of, unit = (GIB, "GiB") if held >= 0.1 else (2**20, "MiB")
    yield f"{found.on.name}: {held:.2f}{of} GiB a chip, {verdict}"
    for name, size in found.memory.items():
        yield f"  {size / size_of:9.2f} {unit}  {name}"
    if not found.fits:
        if found.refused:
            yield f"  the chip's own compiler refuses it: {found.refused[:160]}"
        yield from (
            f"           {size / GIB:.2f} GiB  {n}" for n, size in found.arrays.items()
        )
        yield from (f"  to make it fit: {text}" for text in found.advice)
    if not found.refused:
        again = found.again / found.flops if found.flops else 0
        repeat = f", {again:.0%} of them to repeat the forward pass" if again else ""
        yield f"  {found.flops:9.2e} FLOPs a chip{repeat}"
        yield f"  {found.num_bytes:9.2e} bytes of memory read and written"
        for one in found.sent[:12]:
            priced = ", an all-reduce that is only sliced" if one.sliced else ""
            yield (
                f"  {one.num_bytes:9.2e} bytes  {one.times} x {one.kind} of "
                f"{one.array} along {', '.join(one.axes) or 'no axis'} ({one.link}): "
                f"{one.seconds * 1e3:.2f} ms  {one.source}{priced}"
            )
        if len(found.sent) > 12:
            yield f"             and {len(found.sent) - 12} smaller collectives"
    if found.seconds:
        yield (
            f"  {found.seconds:9.3g} s a step (a model): {found.lower:.3g} if all "
            f"overlaps at peak rates, {found.upper:.3g} if nothing does"
        )
        yield f"             bound by {found.bound}; MFU {found.mfu:.0%}"
    if found.measured:
        yield f"  {found.measured:9.3g} s a step, measured"
    yield from (f"  note: {text}" for text in found.doubts)
    yield f"  ({found.note})"

"""Runs programs that strangers exported, in the judge's own process and devices."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from facts import Opaque, Shard, leaves, plain
from observe import program_of, shards

DIALECTS = ("builtin", "chlo", "func", "sdy", "stablehlo")
BARRED = ("infeed", "outfeed", "recv", "send")  # what waits for the host
# Calls out of a program into code of the machine's: only what JAX itself puts there.
SAFE_CALLS = re.compile(
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement"
    r"|LayoutConstraint|xla\.sdy\.\w+|mhlo\.(a?(cos|sin|tan)h?|erf|topk|ragged_dot)"
    r"|lapack_\w+_ffi|tridiagonal_solve_perturbed_ffi|(Approx)?TopK|PartialReduce"
)
SAFE_COMPOSITES = re.compile(r"chlo\.\w+")  # XLA has code of its own for some names


class ProgramError(Exception):
    """A program that is not the one that was asked for, or that must not run."""


class Program:
    """A stranger's exported program, looked at before it runs.

    Attributes:
        shapes: shape of every array that it computes; inside a mapped function, per
            device.

    Raises:
        ProgramError: it is damaged, takes other inputs, or calls what it must not.
    """

    def __init__(self, data: bytes, arguments: list):
        _, self.arrays = program_of(lambda: None, arguments)
        kinds = jax.eval_shape(
            lambda *arrays: arrays, *self.arrays
        )  # as JAX takes them
        wanted = [(kind.shape, kind.dtype) for kind in kinds]
        try:
            self.exported = jax.export.deserialize(bytearray(data))
            inputs = [(a.shape, a.dtype) for a in self.exported.in_avals]
            fits = inputs == wanted
            survey = Survey(self.exported.mlir_module())
        except Exception as error:  # whatever a forged file leads to
            raise ProgramError(f"it cannot be read ({type(error).__name__})") from None
        if not fits:
            raise ProgramError("it takes other inputs than it was asked for")
        if "cpu" not in self.exported.platforms:
            raise ProgramError("it was made for another platform")
        if not 1 <= self.exported.nr_devices <= jax.device_count():
            raise ProgramError(f"it wants {self.exported.nr_devices} devices")
        if survey.problems:
            raise ProgramError(f"it {survey.problems[0]}, which no lesson needs")
        if self.exported.ordered_effects or self.exported.unordered_effects:
            raise ProgramError("it does more than to compute its results")
        self.shapes = tuple(sorted(survey.shapes))
        self.mesh = mesh(self.exported.nr_devices, survey.meshes)

    def run(self, result: Any) -> tuple[Any, dict[str, tuple[Shard, ...]]]:
        """Runs it; returns the value, in the structure `result`, and its layout.

        Raises:
            ProgramError: it fails, or its outputs do not fit the structure.
        """
        wanted = [f"leaf {place}" for place in range(len(self.exported.out_avals))]
        places = [
            (path, leaf.type_name)
            for path, leaf in leaves(result)
            if isinstance(leaf, Opaque) and re.fullmatch(r"leaf \d+", leaf.type_name)
        ]
        if sorted(name for _, name in places) != sorted(wanted):
            raise ProgramError("its outputs are not those of its result")
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        try:
            placed = [jax.device_put(array, everywhere) for array in self.arrays]
            outputs = jax.block_until_ready(jax.jit(self.exported.call)(*placed))
            named = dict(zip(wanted, outputs, strict=True))
        except Exception as error:
            kind = f"{type(error).__name__}: {error}"
            raise ProgramError(f"it does not run ({kind[:200]})") from None
        layout = {path: shards(named[name]) for path, name in places}
        return fill(result, named), layout


class Survey:
    """What a program's text holds, operation by operation.

    Attributes:
        problems: what it does that it must not do.
        shapes: shape of every array that it computes.
        meshes: the sizes of the axes over which it splits its arrays.
    """

    def __init__(self, text: str):
        self.problems: list[str] = []
        self.shapes: set[tuple[int, ...]] = set()
        self.meshes: list[list[int]] = []
        with mlir.make_ir_context():
            mlir.ir.Module.parse(text).operation.walk(self.see)

    def see(self, operation: Any) -> Any:
        """Adds one operation."""
        dialect, _, name = operation.name.partition(".")
        if dialect not in DIALECTS or name in BARRED:
            self.problems.append(f"uses {operation.name}")
        elif name == "custom_call":
            self.call(operation.attributes["call_target_name"], SAFE_CALLS)
        elif name == "composite":
            self.call(operation.attributes["name"], SAFE_COMPOSITES)
        elif operation.name == "func.func" and not len(operation.regions[0].blocks):
            self.problems.append("calls a function that it does not hold")
        elif operation.name == "sdy.mesh":
            sizes = re.findall(r'"=(\d+)', str(operation.attributes["mesh"]))
            self.meshes.append([int(size) for size in sizes])
        for result in operation.results:
            self.array(result.type)
        return mlir.ir.WalkResult.ADVANCE

    def call(self, name: Any, safe: re.Pattern) -> None:
        """Adds a call by its name."""
        name = mlir.ir.StringAttr(name).value
        if not safe.fullmatch(name):
            self.problems.append(f"calls {name[:100]!r}")

    def array(self, kind: Any) -> None:
        """Adds the type of a result."""
        try:
            kind = mlir.ir.RankedTensorType(kind)
        except ValueError:  # a token, a tuple, an array of unknown rank
            kind = None
        if kind is None or not kind.has_static_shape or kind.encoding is not None:
            self.problems.append("computes what is no array of a fixed shape")
        else:
            self.shapes.add(tuple(kind.shape))


def mesh(num_devices: int, sizes: list[list[int]]) -> Mesh:
    """Arranges devices in so many axes that every split over `sizes` has a name."""
    fitting = [axes for axes in sizes if math.prod(axes) == num_devices]
    axes = [factor for n in (*fitting, [num_devices])[0] for factor in factors(n)]
    devices = np.array(jax.devices()[:num_devices]).reshape(axes)
    return Mesh(devices, [f"axis {place}" for place in range(len(axes))])


def factors(number: int) -> list[int]:
    """Splits a number into its prime factors; 1 has none."""
    if number == 1:
        return []
    first = next(n for n in range(2, number + 1) if number % n == 0)
    return [first, *factors(number // first)]


def fill(result: Any, named: dict[str, Any]) -> Any:
    """Puts the outputs into a result's structure, as host arrays."""
    if isinstance(result, dict):
        return {key: fill(item, named) for key, item in result.items()}
    if isinstance(result, list | tuple):
        return type(result)(fill(item, named) for item in result)
    if isinstance(result, Opaque) and result.type_name in named:
        return plain(named[result.type_name])
    return result

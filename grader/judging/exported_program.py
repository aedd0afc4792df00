"""Runs exported programs, which are untrusted, in the judge's own process."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import serialize_portable_artifact
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec

from coursekit.observation import Collective, Opaque, Shard, leaves, plain
from coursekit.observe import compiled_facts, shards, traced_facts
from coursekit.traced_program import TracedProgram
from coursekit.tracing import (
    executable,
    ir_context,
    mesh_for,
    one_ir_context,
    program_of,
)
from grader.kernel.inside.wire import DTYPES

DIALECTS = ("builtin", "chlo", "func", "sdy", "stablehlo")
BARRED = ("infeed", "outfeed", "recv", "send")  # what waits for the host
MAX_TIMES = 2**63  # a program that runs a collective more often never ends
MAX_MEMORY_MIB = 2000  # of one program while it runs, on all devices together
MAPS = "sdy.manual_computation"
# Calls out of a program into code of the machine's: only what JAX itself puts there.
# None of them reads or writes raw memory, as LAPACK and TopK do by shapes that they are
# told: false ones would reach other memory of the judge. XLA checks those of `mhlo`.
SAFE_CALLS = re.compile(
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement"
    r"|LayoutConstraint|xla\.sdy\.\w+|mhlo\.(a?(cos|sin|tan)h?|erf|topk|ragged_dot)"
)
SAFE_COMPOSITES = re.compile(r"chlo\.\w+")  # XLA has code of its own for some names


class ProgramError(Exception):
    """A program that is not the one that was asked for, or that must not run."""


class Program:
    """An untrusted exported program, looked at before it runs.

    It is made for the arrays among `arguments`, and takes those of them that it has
    `kept`, all by default. With an `axis`, it must be a map over the devices of an axis
    of that name, which hands each its rows, and nothing beside.

    Attributes:
        facts: what the program holds; see `traced_facts` in coursekit/observe.py.

    Raises:
        ProgramError: it is damaged, takes other inputs, or calls what it must not.
    """

    def __init__(
        self,
        text: str,
        arguments: list,
        kept: list[int] | None = None,
        axis: str | None = None,
    ):
        _, self.arrays = program_of(lambda: None, arguments)
        every = [*range(len(self.arrays))]
        taken = every if kept is None else [place for place in every if place in kept]
        if kept not in (None, taken):
            raise ProgramError("it takes inputs that there are not")
        # JAX takes f64 as f32, and hands a program a key's numbers.
        wanted = jax.eval_shape(lambda *arrays: arrays, *self.arrays)
        kinds = [physical(wanted[place]) for place in taken]
        try:
            if axis is not None and all(len(array) == 1 for array in self.arrays):
                axis = None  # on a single device there is nothing to map
            survey = Inspection(text, axis)
        except Exception as error:  # whatever a forged text leads to
            raise ProgramError(f"it cannot be read ({type(error).__name__})") from None
        if survey.problems:
            raise ProgramError(f"it {survey.problems[0]}, which no lesson needs")
        if survey.inputs != [(kind.shape, kind.dtype) for kind in kinds]:
            raise ProgramError("it takes other inputs than it was asked for")
        if not 1 <= survey.num_devices <= jax.device_count():
            raise ProgramError(f"it wants {survey.num_devices} devices")
        self.compiled: Any = None
        self.num_outputs = len(survey.outputs)
        self.facts = traced_facts(survey)
        self.meshes = survey.meshes

        def stand_in(*arrays):
            return tuple(jax.numpy.zeros(*kind) for kind in survey.outputs)

        own = jax.jit(stand_in, keep_unused=True)
        try:
            with one_ir_context():
                exported = jax.export.export(own, platforms=["cpu"])(*wanted)
        except Exception as error:
            raise ProgramError(
                f"its outputs are odd ({type(error).__name__})"
            ) from None
        self.exported = dataclasses.replace(
            exported,
            mlir_module_serialized=survey.data,
            module_kept_var_idx=tuple(taken),
            nr_devices=survey.num_devices,
        )

    def takes(self, arguments: list) -> bool:
        """Takes other arguments as inputs, if their arrays are of the same kinds."""
        _, arrays = program_of(lambda: None, arguments)
        fits = [*map(kind_of, arrays)] == [*map(kind_of, self.arrays)]
        if fits:
            self.arrays = arrays
        return fits

    def run(self, result: Any) -> tuple[Any, dict[str, tuple[Shard, ...]]]:
        """Runs it; returns the value, in the structure `result`, and its layout.

        Raises:
            ProgramError: it fails, or its outputs do not fit the structure.
        """
        wanted = [f"leaf {place}" for place in range(self.num_outputs)]
        places = [
            (path, leaf.type_name)
            for path, leaf in leaves(result)
            if isinstance(leaf, Opaque) and re.fullmatch(r"leaf \d+", leaf.type_name)
        ]
        if sorted(name for _, name in places) != sorted(wanted):
            raise ProgramError("its outputs are not those of its result")
        mesh = mesh_for(self.exported.nr_devices, self.meshes)
        everywhere = NamedSharding(mesh, PartitionSpec())
        try:
            placed = [jax.device_put(array, everywhere) for array in self.arrays]
            if self.compiled is None:
                run = jax.jit(self.exported.call)
                self.compiled = run.lower(*placed).compile()
            if (needed := mebibytes(self.compiled, mesh.size)) > MAX_MEMORY_MIB:
                raise ProgramError(f"it needs {needed:,.0f} MiB of memory")
            outputs = jax.block_until_ready(self.compiled(*placed))
            named = dict(zip(wanted, outputs, strict=True))
        except ProgramError:
            raise
        except Exception as error:
            kind = f"{type(error).__name__}: {error}"
            raise ProgramError(f"it does not run ({kind[:200]})") from None
        layout = {path: shards(named[name]) for path, name in places}
        return fill(result, named), layout

    def compiled_facts(self) -> dict[str, Any]:
        """Reads what the compiler makes of it where the layout of inputs is its own.

        Raises:
            ProgramError: it does not compile, or the text of that cannot be read.
        """
        try:
            return compiled_facts(executable(self.exported, self.meshes))
        except Exception as error:  # whatever a forged program leads to
            kind = type(error).__name__
            raise ProgramError(f"its compiled form cannot be read ({kind})") from None


class Inspection(TracedProgram):
    """A survey of a program that is untrusted, which may do harm.

    It is read as text: the reader of MLIR's binary form does not survive forged files.

    Attributes:
        problems: what it does that it must not do.
        inputs, outputs: shape and dtype of what goes in and comes out.
        num_devices: on how many devices it runs.
        data: the same program as JAX keeps it.
    """

    def __init__(self, text: str, axis: str | None = None):
        self.problems: list[str] = []
        with ir_context():
            module = mlir.ir.Module.parse(text)
            super().__init__(module)
            if axis is not None and not self.problems:
                self.problems += around_the_map(self.symbols, axis)
            if self.problems:
                return
            count = module.operation.attributes["mhlo.num_partitions"]
            self.num_devices = mlir.ir.IntegerAttr(count).value
            main = self.symbols["main"].type
            self.inputs, self.outputs = kinds(main.inputs), kinds(main.results)
            version = stablehlo.get_current_version()
            self.data = bytes(serialize_portable_artifact(module, version, True))

    def see(self, operation: Any) -> Any:
        """Adds one operation, or the problem that it is."""
        dialect, _, name = operation.name.partition(".")
        if dialect not in DIALECTS or name in BARRED:
            self.problems.append(f"uses {operation.name}")
        elif name == "custom_call":
            self.call(operation.attributes["call_target_name"], SAFE_CALLS)
        elif name == "composite":
            self.call(operation.attributes["name"], SAFE_COMPOSITES)
        elif operation.name == "func.func" and not len(operation.regions[0].blocks):
            self.problems.append("calls a function that it does not hold")
        return super().see(operation)

    def count(self) -> tuple[Collective, ...]:
        """Lists the collectives of a program that may run."""
        found = () if self.problems else super().count()
        if any((one.times or 0) > MAX_TIMES for one in found):
            self.problems.append("runs a collective more often than it could")
        return found

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
            super().array(kind)


def around_the_map(symbols: mlir.ir.SymbolTable, axis: str) -> list[str]:
    """Lists what a program does beside mapping a function over the rows of its inputs.

    What is computed there of inputs needs no collectives: all of them are at hand.
    Constants may be anywhere.
    """
    maps, problems = [], []

    def run(name: str, given: list[bool]) -> list[bool]:
        """Goes through a function; tells which results, like `given`, are of inputs."""
        block = symbols[name].regions[0].blocks[0]
        made = dict(zip(block.arguments, given, strict=True))
        for line in block.operations:
            kind = line.operation.name
            from_inputs = [made[operand] for operand in line.operands]
            results = [any(from_inputs)] * len(line.results)
            if kind == "func.return":
                return from_inputs
            if kind == "func.call":
                callee = mlir.ir.FlatSymbolRefAttr(line.attributes["callee"]).value
                results = run(callee, from_inputs)
            elif kind == MAPS:
                maps.append(line)
                rows = layouts(line, "in"), layouts(line, "out")
                mapped = all(map(by_rows.fullmatch, rows[1])) and all(
                    by_rows.fullmatch(layout)
                    for layout, of_inputs in zip(rows[0], from_inputs, strict=True)
                    if of_inputs
                )
                if not mapped:
                    problems.append(f"hands out something else than rows over {axis!r}")
            elif any(from_inputs) or len(line.regions):  # which may read inputs, too
                problems.append(f"computes {kind} outside of its map")
            made |= dict(zip(line.results, results, strict=True))
        return []

    by_rows = re.compile(rf'\[{{"{re.escape(axis)}"}}(, {{}})*\]')
    run("main", [True] * len(symbols["main"].type.inputs))
    if len(maps) != 1:
        problems.append(f"maps {len(maps)} functions")
    return problems


def layouts(line: Any, side: str) -> list[str]:
    """Lists the dimensions' axes of what goes into a map, or comes out."""
    return re.findall(r"<@\w+, (\[.*?\])>", str(line.attributes[f"{side}_shardings"]))


def mebibytes(compiled: Any, num_devices: int) -> float:
    """Adds up what a program needs while it runs, on all devices."""
    facts = compiled.memory_analysis()
    parts = ("argument", "output", "temp")
    needed = sum(getattr(facts, f"{part}_size_in_bytes") for part in parts)
    return num_devices * needed / 2**20


def kind_of(array: Any) -> tuple[tuple[int, ...], Any]:
    """Returns an array's shape and dtype."""
    return array.shape, array.dtype


def kinds(types: list) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Writes a program's types as NumPy does: shape and dtype."""
    dtypes = [jax.numpy.dtype(name) for name in DTYPES]
    by_name = {str(mlir.dtype_to_ir_type(dtype)): dtype for dtype in dtypes}
    types = [mlir.ir.RankedTensorType(kind) for kind in types]
    return [(tuple(kind.shape), by_name[str(kind.element_type)]) for kind in types]


def physical(kind: Any) -> Any:
    """Returns what holds an array of `kind`: for random keys, their numbers."""
    if not jax.dtypes.issubdtype(kind.dtype, jax.dtypes.prng_key):
        return kind
    return jax.eval_shape(jax.random.key_data, kind)


def fill(result: Any, named: dict[str, Any]) -> Any:
    """Puts the outputs into a result's structure, as host arrays."""
    if isinstance(result, dict):
        return {key: fill(item, named) for key, item in result.items()}
    if isinstance(result, list | tuple):
        return type(result)(fill(item, named) for item in result)
    if isinstance(result, Opaque) and result.type_name in named:
        return plain(named[result.type_name])
    return result

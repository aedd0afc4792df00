"""Inspects exported programs, which are untrusted, and runs them in this process."""

from __future__ import annotations

import dataclasses
import functools
import json
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
from coursekit.tracing import executable, ir_context, mesh_for, program_of
from grader.judging.observation_reader import encode_facts
from grader.kernel.inside.wire import DTYPES, WireError, decode

DIALECTS = ("builtin", "chlo", "func", "sdy", "stablehlo")
BARRED = ("infeed", "outfeed", "recv", "send")  # what waits for the host
MAX_TIMES = 2**63  # a program that runs a collective more often never ends
MAX_MEMORY_MIB = 2000  # of one program while it runs, on all devices together
MAPS = "sdy.manual_computation"
# Calls of native code: only those that JAX itself inserts. LAPACK and TopK trust the
# shapes that they are given: false ones would reach other memory of the process. XLA
# checks those of `mhlo`.
SAFE_CALLS = re.compile(
    r"Sharding|annotate_device_placement"
    r"|LayoutConstraint|mhlo\.(a?(cos|sin|tan)h?|erf|topk|ragged_dot)"
)
COMPARES = re.compile(r" = stablehlo.compare [LG]T, , , (TOTALORDER|(UN)?SIGNED) : .*")
SAFE_COMPOSITES = re.compile(r"chlo\.\w+")  # XLA has code of its own for some names


class ProgramError(Exception):
    """A program that is not the one that was asked for, or that must not run."""


class ProgramRunner:
    """Runs programs, and keeps the last one: many cases share a program.

    A question is a JSON object: "program" is its text, "arguments" what it runs on,
    "result" the structure of what it returns, "axis" is as in `Program`; "compiled"
    asks for the facts of the compiled program.
    """

    def __init__(self):
        self.key, self.program = None, None

    def answer(self, question: dict[str, Any]) -> str:
        """Writes the answer to a question as JSON."""
        return json.dumps(self.outcome(question))

    def outcome(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns what `encode_facts` writes, or why there is nothing to write.

        {"distrusted": why} of a program that no honest code makes, {"fails": why} of
        one that cannot run, {"broken": what} of what nobody foresaw.
        """
        is_safe = False
        try:
            result = decode(question["result"], plain=True)
            if any(isinstance(leaf, np.ndarray) for _, leaf in leaves(result)):
                raise ProgramError("its result holds an array that it does not compute")
            arguments = decode(question["arguments"])
            key = tuple(question[part] for part in ("program", "axis"))
            if self.key != key or not self.program.takes(arguments):
                self.program = Program(key[0], arguments, *key[1:])
            self.key, is_safe = key, True
            value, layout = self.program.run(result)
            facts = self.program.facts
            if question["compiled"]:
                facts = self.program.compiled_facts()
            return encode_facts(facts, value, layout)
        except (WireError, ProgramError, MemoryError) as error:
            why = str(error) or "it needs more memory than it gets"
            return {"fails" if is_safe else "distrusted": why}
        except Exception as error:
            return {"broken": f"{type(error).__name__}: {error}"}


class Program:
    """An untrusted exported program, inspected before it runs.

    It is made for the arrays among `arguments`, and takes all of them. With an `axis`,
    it must be a map over the devices of an axis of that name, which gives each its
    rows, and do nothing else.

    Attributes:
        facts: what the program holds; see `traced_facts` in coursekit/observe.py.

    Raises:
        ProgramError: it is damaged, takes other inputs, or calls what it must not.
    """

    def __init__(self, text: str, arguments: list, axis: str | None = None):
        _, self.arrays = program_of(lambda: None, arguments)
        # JAX takes f64 as f32, and gives a program a key's numbers.
        wanted = jax.eval_shape(lambda *arrays: arrays, *self.arrays)
        inputs = [kind_of(physical(one)) for one in wanted]
        if axis is not None and all(len(array) == 1 for array in self.arrays):
            axis = None  # on a single device there is nothing to map
        try:
            found = Inspection(text, axis)
        except Exception as error:  # whatever a forged text leads to
            raise ProgramError(f"it cannot be read ({type(error).__name__})") from None
        if found.problems:
            raise ProgramError(f"it {found.problems[0]}, which no lesson needs")
        if found.inputs != inputs:
            raise ProgramError("it takes other inputs than it was asked for")
        if not 1 <= found.num_devices <= jax.device_count():
            raise ProgramError(f"it wants {found.num_devices} devices")
        self.compiled: Any = None
        self.num_outputs = len(found.outputs)
        self.facts, self.traced = traced_facts(found), found

        def stand_in(*arrays):
            return tuple(jax.numpy.zeros(*kind) for kind in found.outputs)

        run = jax.jit(stand_in, keep_unused=True)
        exported = jax.export.export(run, platforms=["cpu"])(*wanted)
        self.exported = dataclasses.replace(
            exported,
            mlir_module_serialized=found.data,
            nr_devices=found.num_devices,
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
        mesh = mesh_for(self.exported.nr_devices, self.traced.meshes)
        everywhere = NamedSharding(mesh, PartitionSpec())
        try:
            placed = [jax.device_put(array, everywhere) for array in self.arrays]
            if self.compiled is None:
                self.compiled = jax.jit(self.exported.call).lower(*placed).compile()
            if (needed := mebibytes(self.compiled, mesh.size)) > MAX_MEMORY_MIB:
                raise ProgramError(f"it needs {needed:,.0f} MiB of memory")
            outputs = jax.block_until_ready(self.compiled(*placed))
        except ProgramError:
            raise
        except Exception as error:
            kind = f"{type(error).__name__}: {error}"
            raise ProgramError(f"it does not run ({kind[:200]})") from None
        named = dict(zip(wanted, outputs, strict=True))
        layout = {path: shards(named[name]) for path, name in places}
        return fill(result, named), layout

    def compiled_facts(self) -> dict[str, Any]:
        """Reads what the compiler makes of it where the layout of inputs is its own."""
        compiled = executable(self.exported, self.traced.meshes)
        return compiled_facts(compiled, self.traced)


class Inspection(TracedProgram):
    """What an untrusted program holds, and the `problems` for which it must not run.

    It is read as text: the reader of MLIR's binary form does not survive forged files.
    Its `data` is the program as JAX serializes it.
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

    def record(self, operation: Any) -> Any:
        dialect, _, name = operation.name.partition(".")
        if dialect not in DIALECTS or name in BARRED:
            self.problems.append(f"uses {operation.name}")
        elif name == "custom_call":
            self.call(operation.attributes["call_target_name"], SAFE_CALLS)
        elif name == "composite":
            self.call(operation.attributes["name"], SAFE_COMPOSITES)
        elif name == "sort" and not is_order(operation):
            self.problems.append("sorts by what may be no order")
        elif operation.name == "func.func" and not len(operation.regions[0].blocks):
            self.problems.append("calls a function that it does not hold")
        return super().record(operation)

    def count_collectives(self) -> tuple[Collective, ...]:
        collectives = () if self.problems else super().count_collectives()
        if any((collective.times or 0) > MAX_TIMES for collective in collectives):
            self.problems.append("runs a collective more often than it could")
        return collectives

    def call(self, name: Any, safe: re.Pattern) -> None:
        name = mlir.ir.StringAttr(name).value
        if not safe.fullmatch(name):
            self.problems.append(f"calls {name[:100]!r}")

    def record_array(self, value: Any) -> None:
        try:
            kind = mlir.ir.RankedTensorType(value.type)
        except ValueError:  # a token, a tuple, an array of unknown rank
            kind = None
        if kind is None or not kind.has_static_shape or kind.encoding is not None:
            self.problems.append("computes what is no array of a fixed shape")
        else:
            super().record_array(value)


def is_order(sort: Any) -> bool:
    """Tells whether a sort's comparator is one of JAX's: of lax.sort, or of lax.top_k.

    With another one, which may be no order, XLA may never end, or leave its memory.
    """
    found = comparator(sort)
    arguments = [("argument", place, True) for place in range(2)]
    if found[:-1] == (2, *arguments) and COMPARES.fullmatch(found[-1][-1]):
        return found[-1][:2] == (0, 1)
    types = [mlir.ir.RankedTensorType(value.type) for value in sort.operands]
    dtypes = tuple(named_dtypes()[str(kind.element_type)] for kind in types)
    return found in comparators(dtypes)


@functools.cache
def comparators(dtypes: tuple[np.dtype, ...]) -> set[tuple]:
    arrays = [jax.ShapeDtypeStruct((2,), dtype) for dtype in dtypes]
    found = set()
    for num_keys in range(1, len(dtypes) + 1):
        sort = functools.partial(jax.lax.sort, num_keys=num_keys)
        program = jax.jit(lambda *a, sort=sort: sort(a)).lower(*arrays)

        def see(operation: Any) -> Any:
            if operation.name == "stablehlo.sort":
                found.add(comparator(operation))
            return mlir.ir.WalkResult.ADVANCE

        program.compiler_ir("stablehlo").operation.walk(see)
    return found


def comparator(sort: Any) -> tuple:
    """Lists the steps of a sort's comparator, the same for the same calculation.

    Its constants may be outside of it, and equal steps may be one.
    """
    block = sort.regions[0].blocks[0]
    steps: dict[tuple, int] = {}
    known: dict[Any, int] = {}

    def number(value: Any) -> int:
        if value not in known:
            known[value] = steps.setdefault(step(value), len(steps))
        return known[value]

    def step(value: Any) -> tuple:
        if isinstance(value.owner, mlir.ir.Block):
            place = mlir.ir.BlockArgument(value).arg_number
            return "argument", place, value.owner == block
        line = value.owner
        return *map(number, line.operands), re.sub(r"%\w+", "", str(line))

    result = block.operations[len(block.operations) - 1]
    return *map(number, result.operands), *steps


def around_the_map(symbols: mlir.ir.SymbolTable, axis: str) -> list[str]:
    """Lists what a program does besides mapping a function over the rows of its inputs.

    Outside of the map every row is available, and nothing needs a collective. Constants
    may be anywhere.
    """
    maps, problems = [], []

    def run(name: str, given: list[bool]) -> list[bool]:
        """Inspects a function; tells which results, like `given`, depend on inputs."""
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
    """Lists the dimensions' axes of what a map takes or returns."""
    return re.findall(r"<@\w+, (\[.*?\])>", str(line.attributes[f"{side}_shardings"]))


def mebibytes(compiled: Any, num_devices: int) -> float:
    """Returns the memory that a program needs while it runs, on all devices."""
    facts = compiled.memory_analysis()
    parts = ("argument", "output", "temp")
    needed = sum(getattr(facts, f"{part}_size_in_bytes") for part in parts)
    return num_devices * needed / 2**20


def kind_of(array: Any) -> tuple[tuple[int, ...], Any]:
    return array.shape, array.dtype


def kinds(types: list) -> list[tuple[tuple[int, ...], np.dtype]]:
    by_name = named_dtypes()
    types = [mlir.ir.RankedTensorType(kind) for kind in types]
    return [(tuple(kind.shape), by_name[str(kind.element_type)]) for kind in types]


def named_dtypes() -> dict[str, np.dtype]:
    """Maps the names of dtypes in MLIR to NumPy's."""
    dtypes = [jax.numpy.dtype(name) for name in DTYPES]
    return {str(mlir.dtype_to_ir_type(dtype)): dtype for dtype in dtypes}


def physical(kind: Any) -> Any:
    """Returns what holds an array of `kind`: for random keys, their numbers."""
    if not jax.dtypes.issubdtype(kind.dtype, jax.dtypes.prng_key):
        return kind
    return jax.eval_shape(jax.random.key_data, kind)


def fill(result: Any, named: dict[str, Any]) -> Any:
    """Puts the outputs, as host arrays, into the structure of a result."""
    if isinstance(result, dict):
        return {key: fill(item, named) for key, item in result.items()}
    if isinstance(result, list | tuple):
        return type(result)(fill(item, named) for item in result)
    if isinstance(result, Opaque) and result.type_name in named:
        return plain(named[result.type_name])
    return result

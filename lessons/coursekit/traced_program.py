"""Reads a lowered program: which arrays it computes, which collectives it runs."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jax.interpreters import mlir

from .observation import Collective, shape_of_numbers

KINDS = {
    f"stablehlo.{kind.replace('-', '_')}": kind
    for kind in (
        *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
        *("collective-permute", "collective-broadcast"),
    )
}
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
ROLES = dict.fromkeys(("stablehlo.dot_general", "stablehlo.convolution"), "matmul")
ROLES |= {"stablehlo.exponential": "exp"}
REDUCTIONS = {"add": "add", "maximum": "max", "minimum": "min", "multiply": "product"}
Counts = dict[Collective, int | None]
Meshes = Mapping[str, Mapping[str, int]]  # the sizes of a mesh's axes, by their names
ONE_DEVICE, EVERY_DEVICE = "one device", "every device"
MAP, SEND = "sdy.manual_computation", "stablehlo.collective_permute"
CONSTRAINT, PAIRS = "sdy.sharding_constraint", "source_target_pairs"
LOOP, A_SEND, OWN_SEND = "stablehlo.while", -1, -2
BRANCHES = {"stablehlo.case", "stablehlo.if"}
# What moves elements, and computes nothing with them.
MOVES = {
    *("reshape", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "gather"),
    *("concatenate", "pad", "reverse", "convert", "optimization_barrier"),
}
# By these JAX counts, in u64, what it draws at random.
COUNTS = {"iota", "constant", "broadcast_in_dim", "multiply", "add"}
COUNTS = {f"stablehlo.{name}" for name in (*COUNTS, "shift_right_logical")}


class TracedProgram:
    """What a lowered program holds, operation by operation.

    Args:
        module: an MLIR module of StableHLO. JAX's own names for its operations vary by
            version and by how a function is mapped; these do not.

    Attributes:
        shapes: shape of every array that it computes, in numbers (see
            `shape_of_numbers`); inside a mapped function, per device.
        collectives: what the devices send each other, in the order of the program.
        dtypes: in which dtypes it multiplies matrices ("matmul") and adds up elements
            ("sum") and takes exponentials ("exp"): those of their inputs, in short.
        multiplied: shape of every array that it multiplies as a matrix.
        pairs: the numbers of two devices, of which the first sends to the second.
        whole_inputs: how each input is used before it is split over the devices:
            `ONE_DEVICE` where one device computes with all of it, `EVERY_DEVICE` where
            a mapped function gets all of it, else "".
        steps: what it runs one after the other: names, each with the shapes of those
            results that it leaves whole. A function that JAX compiles is one step.
        most_held: how many numbers it holds at a time, at most, of those that it
            computes in its order; inside a mapped function, one device.
        joined: shapes of arrays whose rows are put together outside of maps.
        needs: of each "send" (collective-permute) the inputs that it depends on, and
            of each "product" of matrices those that it needs in its first round, with
            `A_SEND` for a send, and `OWN_SEND` if all products of a loop need one of
            the same round.

    Raises:
        ValueError: a function of it calls itself.
    """

    def __init__(self, module: Any):
        self.shapes: set[tuple[int, ...]] = set()
        self.dtypes: dict[str, set[str]] = {"matmul": set(), "sum": set(), "exp": set()}
        self.multiplied: set[tuple[int, ...]] = set()
        self.pairs: set[tuple[int, ...]] = set()
        self.meshes: dict[str, dict[str, int]] = {}
        self.symbols = mlir.ir.SymbolTable(module.operation)
        self.functions: dict[str, Counts | None] = {}
        # What is known of a function or block: calls of calls may run it very often.
        self.placed: dict[str, dict[Any, int]] = {}
        self.peaks: dict[Any, int] = {}
        module.operation.walk(self.record)
        self.collectives = self.count_collectives()

    @property
    def main(self) -> Any:
        return self.symbols["main"].regions[0].blocks[0]

    @functools.cached_property
    def whole_inputs(self) -> tuple[str, ...]:
        uses = []
        arrays = self.main.arguments
        for array in arrays:
            followed = WholeInput(self, array_type(array)[1])
            holds = tuple(followed.ALL * (array == other) for other in arrays)
            if followed.rows > (1,):  # a single row cannot be split
                followed.follow("main", holds)
            uses.append(followed.use)
        return tuple(uses)

    @functools.cached_property
    def steps(self) -> tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]:
        placed, steps = self.placement("main"), []
        for line in self.main.operations:
            whole = [value for value in line.results if not placed[value]]
            name = line.operation.name
            if name not in ("stablehlo.constant", "func.return", CONSTRAINT):
                steps.append((name, shapes_of(whole)))
        return tuple(steps)

    def placement(self, name: str) -> dict[Any, int]:
        """Tells of a function's values whether they are placed.

        2: split over devices, or made of such; 1: placed, perhaps in full; 0: neither.
        """
        if name in self.placed:
            return self.placed[name]
        block = self.symbols[name].regions[0].blocks[0]
        placed = dict.fromkeys(block.arguments, 0)
        for line in block.operations:
            is_split = splits(line.operation, self.meshes)
            is_split |= any(placed.get(v) == 2 for v in inputs_of(line.operation))
            own = 2 if is_split else int(places(line.operation))
            results = [own] * len(line.results)
            if line.operation.name == "func.call" and not is_split:
                [body] = self.blocks(line.operation)
                inner = self.placement(callee(line.operation))
                results = [inner[value] for value in returned(body)]
            placed |= dict(zip(line.results, results, strict=True))
        self.placed[name] = placed
        return placed

    @functools.cached_property
    def most_held(self) -> int:
        return self.peak(self.main)

    def peak(self, block: Any) -> int:
        """Counts the numbers that a block holds at most, its arguments left out."""
        if block in self.peaks:
            return self.peaks[block]
        last_use = {}  # of a value: the number of an operation
        lines = [line.operation for line in block.operations]
        for number, operation in enumerate(lines):
            last_use |= dict.fromkeys(used(operation), number)
        live, peak = {}, 0  # values that are used later, with their numbers
        for number, operation in enumerate(lines):
            nested = max(map(self.peak, self.blocks(operation)), default=0)
            made = {v: sum(map(math.prod, shapes_of([v]))) for v in operation.results}
            peak = max(peak, sum(live.values()) + max(nested, sum(made.values())))
            live |= made
            live = {v: n for v, n in live.items() if last_use.get(v, 0) > number}
        self.peaks[block] = peak
        return peak

    @functools.cached_property
    def joined(self) -> set[tuple[int, ...]]:
        shapes: set[tuple[int, ...]] = set()
        visited = set()

        def visit(block: Any) -> None:
            if block in visited:
                return
            visited.add(block)
            for line in block.operations:
                if line.operation.name == MAP:
                    continue
                is_split = splits(line.operation, self.meshes)
                operands = () if is_split else shapes_of(line.operands)
                for result in shapes_of(line.results):
                    shapes.update(
                        shape
                        for shape in operands
                        if math.prod(shape) > math.prod(result)
                        and shape[:1] != result[:1]
                    )
                for nested in self.blocks(line.operation):
                    visit(nested)

        visit(self.main)
        return shapes

    @functools.cached_property
    def needs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        rounds: dict[Any, set[frozenset]] = {}
        if self.pairs:
            inputs = enumerate(self.main.arguments)
            given = {array: frozenset([number]) for number, array in inputs}
            self.follow_inputs(self.main, given, rounds, {})
        return tuple(
            ("send", tuple(sorted(frozenset.union(*needs))))
            if operation.name == SEND
            else ("product", tuple(sorted(frozenset.intersection(*needs))))
            for operation, needs in rounds.items()
        )

    def follow_inputs(
        self, block: Any, needs: dict, rounds: dict, known: dict
    ) -> list[frozenset]:
        """Notes what sends and products of a block need; returns what its results do.

        Args:
            block: of the program.
            needs: what its arguments need.
            rounds: for each send and product, what it needs in each round of a loop.
            known: what the results of functions need, by what their arguments do.
        """
        for line in block.operations:
            operation = line.operation
            given = [needs.get(value, frozenset()) for value in inputs_of(operation)]
            if operation.name.endswith(".return"):
                return given
            every = frozenset().union(*given)
            if operation.name == SEND or ROLES.get(operation.name) == "matmul":
                rounds.setdefault(operation, set()).add(every)
            every |= {A_SEND} if operation.name == SEND else set()
            made = [every] * len(line.results)
            if operation.name == "func.call":
                key = callee(operation), *given
                if key not in known:
                    [body] = self.blocks(operation)
                    own = dict(zip(body.arguments, given, strict=True))
                    known[key] = self.follow_inputs(body, own, rounds, known)
                made = known[key]
            if operation.name in BRANCHES:
                for branch in self.blocks(operation):
                    self.follow_inputs(branch, dict(needs), rounds, known)
            while operation.name in (MAP, LOOP):
                body = self.blocks(operation)[-1]
                own = dict(zip(body.arguments, given, strict=True))
                made = self.follow_inputs(body, needs | own, rounds, known)
                carried = [*map(frozenset.union, given, made)]
                if operation.name != LOOP or carried == given:
                    break
                given = carried
            if operation.name == LOOP:
                self.note_own_sends(body, needs | own, rounds)
            needs |= dict(zip(line.results, made, strict=True))
        return []

    def note_own_sends(self, body: Any, needs: dict, rounds: dict) -> None:
        """Notes where all products of a loop's round need what the round sends itself.

        A round begins when the one before it has ended, so they overlap with no send.
        """
        own: dict[Any, set[frozenset]] = {}
        before = {value: known - {A_SEND} for value, known in needs.items()}
        self.follow_inputs(body, before, own, {})
        products = [operation for operation in own if operation.name != SEND]
        if all(A_SEND in known for product in products for known in own[product]):
            for product in products:
                rounds[product] = {known | {OWN_SEND} for known in rounds[product]}

    def blocks(self, operation: Any) -> list[Any]:
        """Lists the blocks that an operation runs, of what it calls if it is a call."""
        if operation.name == "func.call":
            operation = self.symbols[callee(operation)]
        return [block for region in operation.regions for block in region.blocks]

    def record(self, operation: Any) -> Any:
        """Adds one operation's dtypes and the shapes of its results."""
        name = operation.name
        if name == "sdy.mesh":
            mesh = mlir.ir.StringAttr(operation.attributes["sym_name"]).value
            axes = re.findall(r'"([^"]+)"=(\d+)', str(operation.attributes["mesh"]))
            self.meshes[mesh] = {axis: int(size) for axis, size in axes}
        role = ROLES.get(name)
        if name == "stablehlo.reduce" and reducer(operation) == "add":
            role = "sum"
        for operand in operation.operands if role else ():
            dtype, shape = array_type(operand)
            self.dtypes[role].add(dtype)
            self.multiplied |= {shape} if role == "matmul" else set()
        if name == SEND:
            pairs = mlir.ir.DenseIntElementsAttr(operation.attributes[PAIRS])
            self.pairs |= set(map(tuple, np.array(pairs).tolist()))
        for result in operation.results:
            self.record_array(result)
        return mlir.ir.WalkResult.ADVANCE

    def record_array(self, value: Any) -> None:
        self.shapes.update(shapes_of([value]))

    def count_collectives(self) -> tuple[Collective, ...]:
        """Lists the collectives that one run of the program takes part in."""
        return tuple(
            dataclasses.replace(collective, times=times)
            for collective, times in self.count_in_function("main").items()
            if times != 0
        )

    def count_in_function(self, name: str) -> Counts:
        """Counts the collectives of one function, those that it calls included."""
        if name not in self.functions:
            self.functions[name] = None
            self.functions[name] = self.count_in_regions(self.symbols[name])
        if self.functions[name] is None:
            raise ValueError(f"{name} calls itself")
        return self.functions[name]

    def count_in_regions(self, operation: Any) -> Counts:
        counts: Counts = {}
        for nested in nested_operations(operation):
            for collective, times in self.count_in_operation(nested).items():
                counts[collective] = added(counts.get(collective, 0), times)
        return counts

    def count_in_operation(self, operation: Any) -> Counts:
        if operation.name in KINDS:
            collectives = (self.collective(operation, o) for o in operation.operands)
            return dict(collections.Counter(collectives))
        if operation.name in CALLS:
            callee = operation.attributes[CALLS[operation.name]]
            return self.count_in_function(mlir.ir.FlatSymbolRefAttr(callee).value)
        counts = self.count_in_regions(operation)
        if operation.name == LOOP and counts:
            return repeated(counts, trip_count(operation))
        return counts

    def collective(self, operation: Any, operand: Any) -> Collective:
        does = reducer(operation)
        reduction = REDUCTIONS.get(does, "other") if does else ""
        size = self.group_size(operation.attributes)
        return Collective(KINDS[operation.name], reduction, *array_type(operand), size)

    def group_size(self, attributes: Any) -> int:
        """Counts the devices that exchange data with each other."""
        if PAIRS in attributes:
            return largest_group(attributes[PAIRS])
        groups = str(attributes["replica_groups"])
        if matrix := re.search(r"tensor<\d+x(\d+)xi64>", groups):
            return int(matrix[1])
        # From JAX 0.12 on, by the names of a mesh's axes.
        axes = self.meshes[re.search(r"mesh = @(\w+)", groups)[1]]
        names = re.findall(r'axis_ref<name = "(\w+)"', groups)
        return math.prod(axes[name] for name in names)


class WholeInput:
    """Follows one input through a program: whole, until it is split over the devices.

    Attributes:
        rows: the length of its first axis, in a tuple; () of a scalar.
        size: how many elements it has.
        use: what happens to it while it is whole: `ONE_DEVICE`, `EVERY_DEVICE`, also
            where all devices are given its parts again, or nothing.
    """

    # What a value is: made of parts, the parts, made of all of it, all of it on one
    # device, on every device.
    NOTHING, OF_PARTS, PARTS, OF_ALL, ALL, EVERYWHERE = range(6)

    def __init__(self, program: TracedProgram, shape: tuple[int, ...]):
        self.symbols, self.meshes = program.symbols, program.meshes
        self.rows, self.size, self.use = shape[:1], math.prod(shape), ""
        self.known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}

    def follow(self, name: str, holds: tuple[int, ...]) -> tuple[int, ...]:
        """Follows it through a function; tells what its results hold."""
        key = name, holds
        if key not in self.known:
            self.known[key] = self.follow_operations(name, holds)
        return self.known[key]

    def follow_operations(self, name: str, holds: tuple[int, ...]) -> tuple[int, ...]:
        block = self.symbols[name].regions[0].blocks[0]
        known = dict(zip(block.arguments, holds, strict=True))
        # What is compiled in one piece is split from its beginning, if it is split
        # later. The operations of "main" run one by one.
        split = set() if name == "main" else self.before_splits(block)
        for line in block.operations:
            operation = line.operation
            given = tuple(
                known.get(value, self.NOTHING) for value in inputs_of(operation)
            )
            most = max(given, default=self.NOTHING)
            if operation.name == "func.return":
                return given
            is_whole = most == self.EVERYWHERE or not split & {*line.results}
            results = (most,) * len(line.results)
            if operation.name == MAP:
                self.map(operation, given)
            if splits(operation, self.meshes):
                is_of = operation.name == MAP or most in (self.OF_PARTS, self.OF_ALL)
                own = min(most, self.OF_PARTS if is_of else self.PARTS)
                results = (own,) * len(line.results)
            elif operation.name == "func.call" and is_whole:
                results = self.follow(callee(operation), given)
            elif operation.name == CONSTRAINT:
                if replicates(operation, self.meshes):
                    results = (self.replicated(line.results[0], most),)
            elif operation.name.partition(".")[2] not in MOVES:
                if most >= self.OF_ALL and is_whole:
                    is_one = most < self.EVERYWHERE
                    self.use = self.use or (ONE_DEVICE if is_one else EVERY_DEVICE)
                made = {self.PARTS: self.OF_PARTS, self.ALL: self.OF_ALL}
                results = (made.get(most, most),) * len(line.results)
            known |= dict(zip(line.results, results, strict=True))
        return ()

    def has_all(self, shape: tuple[int, ...], holds: int) -> bool:
        """Tells whether an array of this shape may hold all of it, in any order."""
        is_of = holds in (self.OF_PARTS, self.OF_ALL)
        return math.prod(shape) >= self.size and (not is_of or shape[:1] == self.rows)

    def replicated(self, value: Any, holds: int) -> int:
        """Tells what a value holds once every device has been given all of it."""
        if not holds or not (
            holds == self.ALL or self.has_all(array_type(value)[1], holds)
        ):
            return holds
        if holds <= self.PARTS:
            self.use = self.use or EVERY_DEVICE
        return self.EVERYWHERE

    def map(self, operation: Any, given: tuple[int, ...]) -> None:
        blocks, in_pieces = operation.regions[0].blocks[0].arguments, 0
        for array, block, holds in zip(operation.operands, blocks, given, strict=True):
            shape = array_type(block)[1]
            if holds == self.ALL and array.type == block.type:
                in_pieces += math.prod(shape)
            if in_pieces >= self.size or (holds and self.has_all(shape, holds)):
                self.use = self.use or EVERY_DEVICE

    def before_splits(self, block: Any) -> set[Any]:
        """Lists the values of a function from which a split array is computed."""
        split: set[Any] = set()
        for line in reversed([*block.operations]):
            operation = line.operation
            if operation.name == "func.call":
                operation = self.symbols[callee(operation)]
            if splits(operation, self.meshes) or split & {*line.results}:
                split.update(line.operands)
        return split


def returned(block: Any) -> list[Any]:
    """Lists the values that a block returns."""
    return [*block.operations[len(block.operations) - 1].operands]


def inputs_of(operation: Any) -> list[Any]:
    """Lists what an operation is given; of a condition, also what its branches use."""
    is_condition = operation.name in BRANCHES
    return [*(used(operation) if is_condition else operation.operands)]


def used(operation: Any) -> Iterator[Any]:
    """Yields the values that an operation uses, or another one in its regions."""
    yield from operation.operands
    for nested in nested_operations(operation):
        yield from used(nested)


def shapes_of(values: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """Lists the shapes of arrays, in numbers; a token has none."""
    arrays = [v for v in values if isinstance(v.type, mlir.ir.RankedTensorType)]
    return tuple(shape_of_numbers(*packed(array)) for array in arrays)


def packed(array: Any) -> tuple[str, tuple[int, ...]]:
    """Returns an array's dtype and shape; u64 is that of the counters of random draws.

    What else is u64 may be two other numbers, and is called i64.
    """
    dtype, shape = array_type(array)
    if dtype == "u64" and getattr(array.owner, "name", "") not in COUNTS:
        dtype = "i64"
    return dtype, shape


def callee(operation: Any) -> str:
    return mlir.ir.FlatSymbolRefAttr(operation.attributes["callee"]).value


def splits(operation: Any, meshes: Meshes) -> bool:
    """Tells whether an operation gives each device its part of an array.

    Before JAX 0.8, `pmap` cuts by the device's number, the only unsigned index.
    """
    if operation.name == "stablehlo.dynamic_slice":
        _, *starts = operation.operands
        return any(array_type(start)[0] == "u32" for start in starts)
    if operation.name == "stablehlo.custom_call":
        return places(operation) and "devices=" in str(operation)
    if operation.name == CONSTRAINT:
        return num_parts(operation, "sharding", meshes) > 1
    if operation.name == MAP:
        return num_parts(operation, "manual_axes", meshes) > 1
    return any(splits(nested, meshes) for nested in nested_operations(operation))


def replicates(constraint: Any, meshes: Meshes) -> bool:
    """Tells whether a constraint gives all of an array to each of several devices."""
    is_open = "?" in str(constraint.attributes["sharding"])  # as the compiler likes
    is_split = num_parts(constraint, "sharding", meshes) > 1
    several = math.prod(mesh_of(constraint, meshes).values()) > 1
    return several and not (is_open or is_split)


def num_parts(operation: Any, attribute: str, meshes: Meshes) -> int:
    """Counts the parts that the axes of a mesh make, which an attribute names."""
    names = re.findall(r'"([^"]+)"', str(operation.attributes[attribute]))
    return math.prod(mesh_of(operation, meshes)[name] for name in names)


def mesh_of(operation: Any, meshes: Meshes) -> Mapping[str, int]:
    """Returns the axes of the mesh that a constraint or a map names."""
    name = "sharding" if operation.name == CONSTRAINT else "out_shardings"
    return meshes[re.search(r"<@(\w+)", str(operation.attributes[name]))[1]]


def places(operation: Any) -> bool:
    """Tells whether an operation says which device holds what, the whole array even."""
    if operation.name == "stablehlo.custom_call":
        return "@Sharding" in str(operation)
    return operation.name in (MAP, CONSTRAINT) or any(
        map(places, nested_operations(operation))
    )


def nested_operations(operation: Any) -> list[Any]:
    """Lists the operations in an operation's regions."""
    blocks = [block for region in operation.regions for block in region.blocks]
    return [line.operation for block in blocks for line in block.operations]


def reducer(operation: Any) -> str:
    """Names what a reducing operation does with two elements first; "" for others."""
    for region in operation.regions:
        return region.blocks[0].operations[0].operation.name.split(".")[-1]
    return ""


def largest_group(pairs: Any) -> int:
    """Counts the devices that are joined by pairs of a source and a target."""
    groups: dict[int, set[int]] = {}
    for pair in np.array(mlir.ir.DenseIntElementsAttr(pairs)).tolist():
        joined = set(pair).union(*(groups.get(device, ()) for device in pair))
        groups |= dict.fromkeys(joined, joined)
    return max(map(len, groups.values()), default=1)


def added(count: int | None, more: int | None) -> int | None:
    """Adds two counts, of which either may be unknown."""
    return None if None in (count, more) else count + more


def repeated(counts: Counts, trips: int | None) -> Counts:
    """Counts the collectives of a loop; how often it runs may be unknown."""
    return {
        dataclasses.replace(collective, in_loop=True): (
            None if None in (times, trips) else times * trips
        )
        for collective, times in counts.items()
    }


def trip_count(loop: Any) -> int | None:
    """Reads how often a loop runs that counts up by ones, as scan and fori_loop do."""
    try:
        condition, body = (region.blocks[0] for region in loop.regions)
        test = condition.operations[len(condition.operations) - 1].operands[0].owner
        counter = position(test.operands[0], condition)
        step = body.operations[len(body.operations) - 1].operands[counter].owner
        start, stop = constant(loop.operands[counter]), constant(test.operands[1])
        compares = test.name == "stablehlo.compare"
        counts_up = compares and "LT" in str(test.attributes["comparison_direction"])
        stepped = position(step.operands[0], body) == counter
        by_one = step.name == "stablehlo.add" and constant(step.operands[1]) == 1
        return max(0, stop - start) if counts_up and stepped and by_one else None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # another kind of loop


def position(value: Any, block: Any) -> int | None:
    """Tells which argument of a block a value is; None: not one of this block's."""
    argument = mlir.ir.BlockArgument(value)
    return argument.arg_number if argument.owner == block else None


def constant(value: Any) -> int:
    if value.owner.name != "stablehlo.constant":
        raise ValueError("a value that is computed")
    return int(mlir.ir.DenseIntElementsAttr(value.owner.attributes["value"])[0])


def array_type(value: Any) -> tuple[str, tuple[int, ...]]:
    """Returns dtype, in short, and shape of an array in the program."""
    kind = mlir.ir.RankedTensorType(value.type)
    name = str(kind.element_type)
    dtype = "bool" if name == "i1" else name.replace("ui", "u")
    if name.startswith("complex"):
        dtype = "c64" if "32" in name else "c128"
    return dtype, tuple(kind.shape)

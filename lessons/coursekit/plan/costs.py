"""What each operation of a compiled program costs: FLOPs, bytes, what it sends."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict

import numpy as np

from ..compiled_program import CompiledProgram, arrays, called, operands
from ..observation import Collective, bits_of
from ..traced_program import KINDS
from .memory import FREE, Buffers, most_held

# What only copies elements or changes their dtype: the CPU's compiler splits these off.
COPIES = {"convert", "copy", "transpose", "reshape", "broadcast"} | FREE
PASSES = {"bitcast", "copy", "reshape", "transpose", "slice", "dynamic-slice"}
PASSES |= {"get-tuple-element"}
PARTS = {"dynamic-slice", "slice", "gather"}
# What changes no number: of 16-bit ones in 32 bits it makes such ones.
KEEPS_NUMBERS = COPIES - FREE | PARTS | {"bitcast", "select", "pad"}
KEEPS_NUMBERS |= {"all-gather", "all-to-all", "collective-permute"}
# What computes each element from those at its place: compilers fuse these.
POINTWISE = COPIES - {"tuple", "get-tuple-element"} | {
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "negate"),
    *(
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "tanh",
        "logistic",
    ),
    *("sqrt", "rsqrt", "cbrt", "erf", "abs", "sign", "sine", "cosine", "floor", "ceil"),
    *("compare", "select", "clamp", "and", "or", "xor", "not", "is-finite"),
    *("reduce-precision", "bitcast-convert", "remainder", "round-nearest-even"),
    *("shift-left", "shift-right-logical", "shift-right-arithmetic", "slice"),
}
LAYOUT = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
CALLBACK = re.compile(r'custom_call_target="(\w*callback\w*)"')


@dataclasses.dataclass(frozen=True)
class Transfer:
    """A collective of the program, as it is priced.

    Attributes:
        what: kind, dtype and the shape that a device puts in.
        sliced: of this all-reduce each device keeps its slice alone, which real
            devices do by a reduce-scatter: as such it is priced.
        groups: the devices, by their place in the mesh, that exchange data; of a
            permute, pairs.
    """

    what: Collective
    sliced: bool
    groups: tuple[tuple[int, ...], ...]

    @property
    def num_bytes(self) -> float:
        """What a device sends once, by ring algorithms."""
        return self.what.bytes_moved / (1 + self.sliced)

    @property
    def kind(self) -> str:
        return "reduce-scatter" if self.sliced else self.what.kind


@dataclasses.dataclass
class Operation:
    """One operation in the compiler's order.

    Attributes:
        flops: of its matrix products, by their dtype in short.
        again: those of `flops` that only repeat the forward pass (`jax.checkpoint`).
        num_bytes: of memory that it reads and writes.
        needs: the operations whose results it takes.
        holds: bytes of memory for its results, from here to their last use.
        cycles: as the compiler of TPUs estimates.
        body: of a loop: one round's operations; `times`: its rounds.
        awaits: whether it is the end of what an earlier one, in `needs`, has begun.
        begins: whether it only begins what a later one waits for.
    """

    name: str
    kind: str
    source: str = ""
    scope: str = ""
    shape: str = ""
    flops: dict[str, float] = dataclasses.field(default_factory=dict)
    again: float = 0.0
    num_bytes: float = 0.0
    needs: tuple[str, ...] = ()
    holds: float = 0.0
    last_use: int = 0
    transfer: Transfer | None = None
    cycles: int = 0
    body: list[Operation] = dataclasses.field(default_factory=list)
    times: int = 1
    awaits: bool = False
    begins: bool = False


class Costs:
    """The costs of a program's operations.

    Args:
        program: read from the executable.
        simulated: whether the CPU's compiler made it. It computes 16-bit numbers in 32
            bits and copies more than others; both are taken back.
        fused: what `jax.named_scope`s are kept on the chip by one kernel, such as
            flash attention: only what enters and leaves them goes through memory.

    Attributes:
        operations: in the compiler's order, loops with one round in their `body`.
        buffers: which results take memory.
        endless: where the loops are whose number of rounds is not known.
        callbacks: where the program calls back into Python.
        unpriced: kernels of which the text says nothing.
        precise: where products ask for more than the default precision.
    """

    def __init__(self, program: CompiledProgram, simulated: bool, fused: str = ""):
        self.program, self.simulated, self.fused = program, simulated, fused
        self.endless: set[str] = set()
        self.callbacks: set[str] = set()
        self.unpriced: set[str] = set()
        self.precise: set[str] = set()
        self.uses: dict[str, dict[str, list[re.Match]]] = {}
        for name, lines in program.computations.items():
            users = self.uses[name] = defaultdict(list)
            for line in lines:
                for one in dict.fromkeys(operands(line)):
                    users[one].append(line)
        self.buffers = Buffers(self)
        self.operations = self.walk(program.entry)

    def walk(self, name: str, of: str = "program") -> list[Operation]:
        """Reads a computation: a program's, a loop's body, or what a call runs."""
        found: list[Operation] = []
        for line in self.program.computations[name]:
            found += self.read(name, line)
        self.buffers.hold(name, found, of)
        return found

    def read(self, name: str, line: re.Match) -> list[Operation]:
        kind, rest = line[3], line[4]
        if CALLBACK.search(rest):
            self.callbacks.add(self.program.source(line) or "a line unknown")
        one = Operation(line[1], kind, self.origin(line), self.scope(line))
        one.needs, one.shape = tuple(operands(line)), line[2].lstrip("(").split("{")[0]
        one.begins, one.awaits = kind.endswith("-start"), kind.endswith("-done")
        plain = kind.removesuffix("-start")
        if kind == "while":
            times = self.program.rounds(name, line)
            if times is None:
                self.endless.add(one.source or "a line unknown")
            one.times = times or 0
            one.body = self.walk(re.search(r"body=%?([\w.-]+)", rest)[1], "loop")
        elif kind in ("call", "conditional"):  # of branches, the one that does most
            bodies = [self.walk(callee, "call") for callee in called(rest)]
            one.body = max(bodies, key=work, default=[])
            most = max(map(most_held, bodies), default=0.0)
            one.holds = most - most_held(one.body)
        elif plain in KINDS.values():
            # Its operands share a group: one message, each sent once a call.
            parts = list(self.program.collective(name, plain, line))
            groups = tuple(map(tuple, self.program.groups(line)))
            sliced = plain == "all-reduce" and self.only_sliced(name, line[1])
            promoted = plain == "all-reduce" and "promoted" in rest
            moved = []
            for number, (operand, part) in enumerate(
                zip(one.needs, parts, strict=False)
            ):
                dtype = part.dtype
                given = self.program.named[name][operand]
                if dtype == "f32" and self.simulated:
                    # Sums of 16-bit numbers that are rounded again go in 16 bits.
                    is_narrow = promoted or (
                        self.goes_narrow(name, line[1])
                        and self.came_narrow(name, given, ())
                    )
                    dtype = "bf16" if is_narrow else dtype
                part = dataclasses.replace(part, dtype=dtype)
                moved.append(dataclasses.replace(one, name=f"{line[1]}/{number}"))
                moved[-1].transfer = Transfer(part, sliced, groups)
                moved[-1].num_bytes = 0.0
            one.needs += tuple(part.name for part in moved)
            one.kind, one.begins = "joined", False
            if len(moved) == 1:  # it has the collective's own name
                moved[0].name = line[1]
                return moved
            return [*moved, one]
        elif kind not in FREE and not one.awaits:
            self.compute(name, line, one)
        return [one]

    def compute(self, name: str, line: re.Match, one: Operation) -> None:
        """Fills in what an operation computes, reads and writes."""
        if one.kind == "custom-call" and "AllocateBuffer" in line[4]:
            return
        for dtype, flops in self.products(name, line).items():
            one.flops[dtype] = one.flops.get(dtype, 0) + flops
        if "rematted_computation" in one.scope:
            one.again = sum(one.flops.values())
        if cycles := re.search(r'"estimated_cycles":"(\d+)"', line[4]):
            one.cycles = int(cycles[1])
        if one.kind == "custom-call" and not one.flops and not one.cycles:
            target = re.search(r'custom_call_target="([^"]*)"', line[4])
            self.unpriced.add(target[1] if target else "custom-call")
        if not (self.simulated and self.is_copy(line)):
            one.num_bytes = self.traffic(name, line)

    def origin(self, line: re.Match) -> str:
        """Returns the source line of an operation, or of what a fusion ends in."""
        if source := self.program.source(line):
            return source
        inside = self.inside(line)
        places = [self.program.source(part) for part in reversed(inside)]
        return next(filter(None, places), "")

    def scope(self, line: re.Match) -> str:
        lines = [line, *reversed(self.inside(line))]
        found = (re.search(r'op_name="([^"]*)"', part[4]) for part in lines)
        return next((name[1] for name in found if name), "")

    def inside(self, line: re.Match) -> list[re.Match]:
        """Returns the operations of a fusion."""
        if line[3] not in ("fusion", "async-start"):
            return []
        return self.program.computations[called(line[4])[0]]

    def is_copy(self, line: re.Match) -> bool:
        return {part[3] for part in self.inside(line) or [line]} <= COPIES

    def is_pointwise(self, line: re.Match) -> bool:
        kinds = {part[3] for part in self.inside(line) or [line]}
        return line[3] not in FREE and kinds <= POINTWISE

    def joins(self, user: re.Match, line: re.Match) -> bool:
        """Tells whether a compiler would fuse an operation into its user."""
        kinds = {part[3] for part in self.inside(user) or [user]}
        reads = kinds <= POINTWISE | {"reduce"} and user[3] not in FREE
        return reads and self.is_pointwise(line)

    def melts(self, name: str, line: re.Match) -> bool:
        """Tells whether a result is never written: its users compute it themselves."""
        users = self.uses[name][line[1]]
        return bool(users) and all(self.joins(user, line) for user in users)

    def in_kernel(self, name: str, line: re.Match) -> bool:
        """Tells whether an operation is in the scope that one kernel computes."""
        if not self.fused:
            return False
        if scope := self.scope(line):
            return self.fused in scope
        # What the compiler put in names no scope: it belongs to what uses it.
        users = self.uses[name][line[1]]
        return bool(users) and all(self.in_kernel(name, user) for user in users)

    # Bytes ----------------------------------------------------------------------------

    def size(self, name: str, result: str) -> float:
        """Bytes of memory that a result takes, in the dtype in which it would be kept.

        What a TPU keeps in its vector memory takes none.
        """
        line = self.program.named[name][result]
        total = 0.0
        for dtype, shape, layout in LAYOUT.findall(line[2]):
            if re.search(r"S\([1-9]", layout):
                continue
            bits = bits_of("bool" if dtype == "pred" else dtype)
            sizes = [int(size) for size in shape.split(",") if size]
            total += math.prod(sizes) * bits / 8
        return total / 2 if self.is_narrow(name, result) else total

    def traffic(self, name: str, line: re.Match) -> float:
        """Bytes that an operation reads and writes."""
        named, kernel = self.program.named[name], self.in_kernel(name, line)
        inside = self.inside(line)
        if line[3] in PARTS:
            return 2 * self.size(name, line[1])
        if updates := self.updates(name, line):
            read = 2 * sum(updates.values())
        else:
            users = self.uses[name][line[1]]
            kept = (
                kernel and users and all(self.in_kernel(name, user) for user in users)
            )
            kept = kept or self.melts(name, line)
            read = 0.0 if kept else self.size(name, line[1])
        places = {
            part[4].split(")")[0]: part for part in inside if part[3] == "parameter"
        }
        for number, one in enumerate(operands(line)):
            producer = named[one]
            if one in updates or producer[3] == "constant":
                continue
            if self.joins(line, producer) or (
                kernel and self.in_kernel(name, producer)
            ):
                continue
            whole = self.size(name, one)
            if inside and str(number) in places:
                callee = called(line[4])[0]
                parts = self.parts(callee, places[str(number)][1])
                if parts is not None:
                    whole = min(whole, parts)
            read += whole
        return read

    def updates(self, name: str, line: re.Match) -> dict[str, float]:
        """Returns what an operation updates in place, and the bytes that it writes."""
        if line[3] == "dynamic-update-slice":
            whole, part, *_ = operands(line)
            return {whole: self.size(name, part)}
        if line[3] != "fusion":
            return {}
        callee = called(line[4])[0]
        found = {}
        for part in self.program.computations[callee]:
            if part[3] == "dynamic-update-slice":
                whole, piece, *_ = operands(part)
                if (place := self.parameter(callee, whole)) is not None:
                    found[operands(line)[place]] = self.size(callee, piece)
        return found

    def parameter(self, name: str, result: str) -> int | None:
        """Returns the number of the parameter that a result is, as it is."""
        line = self.program.named[name][result]
        while line[3] in ("bitcast", "convert", "copy"):
            line = self.program.named[name][operands(line)[0]]
        return int(line[4].split(")")[0]) if line[3] == "parameter" else None

    def parts(self, name: str, result: str) -> float | None:
        """Bytes of the parts that are cut out of a result; None: all of it is read."""
        total = 0.0
        for user in self.uses[name][result]:
            if user[3] in PARTS and operands(user)[0] == result:
                total += self.size(name, user[1])
            elif user[3] in ("bitcast", "convert", "copy"):
                inner = self.parts(name, user[1])
                if inner is None:
                    return None
                total += inner
            else:
                return None
        return total

    # Dtypes ---------------------------------------------------------------------------

    def is_narrow(self, name: str, result: str, outer: tuple = ()) -> bool:
        """Tells whether 32-bit numbers only hold 16-bit ones, as the CPU keeps them."""
        line = self.program.named[name][result]
        if not self.simulated or not line[2].startswith("f32["):
            return False
        return self.came_narrow(name, line, outer) or self.goes_narrow(name, result)

    def came_narrow(self, name: str, line: re.Match, outer: tuple) -> bool:
        kind, named = line[3], self.program.named[name]
        if line[2].startswith(("bf16[", "f16[")):
            return True
        if kind == "parameter" and outer:
            (caller, above), *rest = outer
            argument = operands(above)[int(line[4].split(")")[0])]
            return self.is_narrow(caller, argument, tuple(rest))
        if kind == "fusion":
            callee = called(line[4])[0]
            root = self.program.computations[callee][-1]
            return self.came_narrow(callee, root, ((name, line), *outer))
        if kind in KEEPS_NUMBERS:
            argument = named[operands(line)[-1 if kind == "select" else 0]]
            return self.came_narrow(name, argument, outer)
        return False

    def goes_narrow(self, name: str, result: str) -> bool:
        users = self.uses[name][result]
        for user in users:
            if user[2].startswith(("bf16[", "f16[")) and user[3] == "convert":
                continue
            if user[3] in PASSES:
                if self.goes_narrow(name, user[1]):
                    continue
            elif user[3] == "fusion":
                callee = called(user[4])[0]
                lines = self.program.computations[callee]
                places = [n for n, one in enumerate(operands(user)) if one == result]
                inner = [
                    line[1]
                    for line in lines
                    if line[3] == "parameter" and int(line[4].split(")")[0]) in places
                ]
                if all(self.goes_narrow(callee, one) for one in inner):
                    continue
            return False
        return bool(users)

    # FLOPs ----------------------------------------------------------------------------

    def products(
        self, name: str, line: re.Match, outer: tuple = ()
    ) -> dict[str, float]:
        """FLOPs of the matrix products of one operation, by dtype."""
        if line[3] in ("fusion", "async-start"):
            total: dict[str, float] = {}
            callee = called(line[4])[0]
            for part in self.program.computations[callee]:
                inner = self.products(callee, part, ((name, line), *outer))
                for dtype, flops in inner.items():
                    total[dtype] = total.get(dtype, 0) + flops
            return total
        if line[3] not in ("dot", "convolution"):
            return {}
        left, right = operands(line)[:2]
        named = self.program.named[name]
        (dtype, shape), (_, kernel) = (
            arrays(named[left][2])[0],
            arrays(named[right][2])[0],
        )
        if dtype == "f32" and self.is_narrow(name, left, outer):
            dtype = "bf16"
        if dtype == "f32" and re.search(r"operand_precision=\{high", line[4]):
            self.precise.add(self.program.source(line) or "a line unknown")
        if line[3] == "dot":
            return {dtype: self.program.flops_of_dot(name, line)}
        result = arrays(line[2])[0][1]
        return {dtype: convolution(line[4], shape, kernel, result)}

    def only_sliced(self, name: str, result: str) -> bool:
        """Tells whether only slices of a result are used."""
        users = self.uses[name][result]
        for user in users:
            if user[3] in ("dynamic-slice", "slice"):
                continue
            if user[3] in ("get-tuple-element", "bitcast", "convert", "copy"):
                if self.only_sliced(name, user[1]):
                    continue
            elif user[3] == "fusion":
                callee = called(user[4])[0]
                if {part[3] for part in self.inside(user)} <= COPIES:
                    if self.only_sliced(name, user[1]):
                        continue
                    return False
                inner = [
                    line[1]
                    for line in self.program.computations[callee]
                    if line[3] == "parameter"
                    and operands(user)[int(line[4].split(")")[0])] == result
                ]
                if inner and all(self.only_sliced(callee, one) for one in inner):
                    continue
            return False
        return bool(users)


def convolution(text: str, shape: tuple, kernel: tuple, result: tuple) -> float:
    """Counts the FLOPs of a convolution, without those of its padding.

    The compiler of TPUs writes matrix products so.
    """
    inputs, kernels, outputs = re.search(
        r"dim_labels=(\w+)_(\w+)->(\w+)", text
    ).groups()
    options = {
        word: [part.split("_") for part in sizes.split("x")]
        for word, sizes in re.findall(r"(\w+)=([\dx_-]+)", text.split("window=")[-1])
    }
    flops = 2.0 * result[outputs.index("b")] * result[outputs.index("f")]
    flops *= kernel[kernels.index("i")]
    for axis in range(len(options.get("size", ()))):

        def option(word, default, axis=axis):
            return int(options[word][axis][0]) if word in options else default

        size, out = option("size", 1), result[outputs.index(str(axis))]
        length = shape[inputs.index(str(axis))]
        spread = option("lhs_dilate", 1)
        starts = np.arange(out)[:, None] * option("stride", 1) - option("pad", 0)
        places = starts + np.arange(size) * option("rhs_dilate", 1)
        inside = (places >= 0) & (places <= (length - 1) * spread)
        flops *= (inside & (places % spread == 0)).sum()
    return flops


def work(operations: list[Operation]) -> tuple[float, float]:
    """Sums the FLOPs and the bytes of memory of operations, loops with all rounds."""
    flops = num_bytes = 0.0
    for one in operations:
        inner = work(one.body)
        flops += one.times * (sum(one.flops.values()) + inner[0])
        num_bytes += one.times * (one.num_bytes + inner[1])
    return flops, num_bytes

"""What the text of a compiled program says of its operations."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict

from ..compiled_program import CompiledProgram, called, operands
from ..observation import Collective, bits_of

# What neither computes nor moves anything: it names a part, or is written in place.
FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
    *("partition-id", "replica-id", "iota", "opt-barrier", "optimization-barrier"),
    *("add-dependency", "domain", "get-dimension-size"),
}
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


class ProgramText:
    """A compiled program's lines, and what they say.

    Args:
        program: read from the executable.
        simulated: whether the CPU's compiler made it. It computes 16-bit numbers in 32
            bits and copies more than others; both are taken back.
        fused: what `jax.named_scope`s are kept on the chip by one kernel, such as
            flash attention: only what enters and leaves them goes through memory.

    Attributes:
        uses: the lines that use a result, by computation and name.
    """

    def __init__(self, program: CompiledProgram, simulated: bool, fused: str = ""):
        self.program, self.simulated, self.fused = program, simulated, fused
        self.uses: dict[str, dict[str, list[re.Match]]] = {}
        for name, lines in program.computations.items():
            users = self.uses[name] = defaultdict(list)
            for line in lines:
                for one in dict.fromkeys(operands(line)):
                    users[one].append(line)

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

"""What each operation of a compiled program costs: FLOPs, bytes, what it sends."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from ..compiled_program import CompiledProgram, arrays, called, operands
from ..traced_program import KINDS
from .memory import Buffers, most_held
from .operations import FREE, PARTS, Operation, ProgramText, Transfer

CALLBACK = re.compile(r'custom_call_target="(\w*callback\w*)"')


class Costs:
    """The costs of a program's operations.

    Args:
        program: read from the executable.
        simulated, fused: as in `ProgramText`.

    Attributes:
        operations: in the compiler's order, loops with one round in their `body`.
        buffers: which results take memory.
        endless: where the loops are whose number of rounds is not known.
        callbacks: where the program calls back into Python.
        unpriced: kernels of which the text says nothing.
        precise: where products ask for more than the default precision.
    """

    def __init__(self, program: CompiledProgram, simulated: bool, fused: str = ""):
        self.program = program
        self.text = ProgramText(program, simulated, fused)
        self.endless: set[str] = set()
        self.callbacks: set[str] = set()
        self.unpriced: set[str] = set()
        self.precise: set[str] = set()
        self.buffers = Buffers(self.text)
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
        one = Operation(line[1], kind, self.text.origin(line), self.text.scope(line))
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
            return self.exchange(name, plain, line, one)
        elif kind not in FREE and not one.awaits:
            self.compute(name, line, one)
        return [one]

    def exchange(
        self, name: str, kind: str, line: re.Match, one: Operation
    ) -> list[Operation]:
        """Reads a collective: an operation for each of its arrays, and their end.

        Its arrays share a group: one message, each sent once a call.
        """
        groups = tuple(map(tuple, self.program.groups(line)))
        sliced = kind == "all-reduce" and self.text.only_sliced(name, line[1])
        promoted = kind == "all-reduce" and "promoted" in line[4]
        moved = []
        parts = self.program.collective(name, kind, line)
        for operand, part in zip(one.needs, parts, strict=False):
            if part.dtype == "f32" and self.text.simulated:
                # Sums of 16-bit numbers that are rounded again go in 16 bits.
                given = self.program.named[name][operand]
                if promoted or (
                    self.text.goes_narrow(name, line[1])
                    and self.text.came_narrow(name, given, ())
                ):
                    part = dataclasses.replace(part, dtype="bf16")
            each = dataclasses.replace(one, name=f"{line[1]}/{len(moved)}")
            each.transfer = Transfer(part, sliced, groups)
            moved.append(each)
        one.needs += tuple(each.name for each in moved)
        one.kind, one.begins = "joined", False
        if len(moved) == 1:  # it has the collective's own name
            moved[0].name = line[1]
            return moved
        return [*moved, one]

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
        if not (self.text.simulated and self.text.is_copy(line)):
            one.num_bytes = self.traffic(name, line)

    def traffic(self, name: str, line: re.Match) -> float:
        """Bytes that an operation reads and writes."""
        named, kernel = self.program.named[name], self.text.in_kernel(name, line)
        inside = self.text.inside(line)
        if line[3] in PARTS:
            return 2 * self.text.size(name, line[1])
        if updates := self.text.updates(name, line):
            read = 2 * sum(updates.values())
        else:
            users = self.text.uses[name][line[1]]
            stays = [self.text.in_kernel(name, user) for user in users]
            kept = kernel and users and all(stays)
            kept = kept or self.text.melts(name, line)
            read = 0.0 if kept else self.text.size(name, line[1])
        places = {
            part[4].split(")")[0]: part for part in inside if part[3] == "parameter"
        }
        for number, one in enumerate(operands(line)):
            producer = named[one]
            if one in updates or producer[3] == "constant":
                continue
            if self.text.joins(line, producer) or (
                kernel and self.text.in_kernel(name, producer)
            ):
                continue
            whole = self.text.size(name, one)
            if inside and str(number) in places:
                callee = called(line[4])[0]
                parts = self.text.parts(callee, places[str(number)][1])
                if parts is not None:
                    whole = min(whole, parts)
            read += whole
        return read

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
        if dtype == "f32" and self.text.is_narrow(name, left, outer):
            dtype = "bf16"
        if dtype == "f32" and re.search(r"operand_precision=\{high", line[4]):
            self.precise.add(self.program.source(line) or "a line unknown")
        if line[3] == "dot":
            return {dtype: self.program.flops_of_dot(name, line)}
        result = arrays(line[2])[0][1]
        return {dtype: convolution(line[4], shape, kernel, result)}


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

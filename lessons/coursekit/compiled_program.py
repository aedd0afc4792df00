"""Reads a compiled program: what the compiler made the devices send and hold."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

from .observation import Collective, shape_of_numbers
from .traced_program import KINDS, REDUCTIONS, Counts, added, repeated

OPERATION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (.+?) ([a-z][\w-]*)\((.*)")
ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d\w*)?)\[([\d,]*)\]")
OPERAND = re.compile(r"(?:\S+\[\S* )?%?([\w.-]+)")  # of older versions: with its type
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


class CompiledProgram:
    """What one device's part of a compiled program holds.

    Args:
        executable: what `jax.jit(f).lower(...).compile()` returns.

    Attributes:
        collectives: what the devices send each other, the compiler's included. The
            compiler may merge several into one, and a backend may choose others than
            one expects: the CPU's makes no reduce-scatter of its own.
        shapes: shape of every array that one device computes, in numbers.
        flops: floating-point operations of one device; in a loop that runs an unknown
            number of times, those of one round.
    """

    def __init__(self, executable: Any):
        text = executable.as_text()
        self.num_devices = int((re.search(r"num_partitions=(\d+)", text) or [0, 1])[1])
        self.computations: dict[str, list[re.Match]] = {}
        for line in text.splitlines():
            if line.endswith("{") and "=" not in line.split("(")[0]:
                name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
                operations = self.computations[name] = []
                if line.startswith("ENTRY"):
                    entry = name
            elif found := OPERATION.match(line):
                operations.append(found)
        counts = self.count(entry)
        self.collectives = tuple(
            dataclasses.replace(one, times=times) for one, times in counts.items()
        )
        self.shapes = {
            shape_of_numbers(dtype, shape)
            for operations in self.computations.values()
            for found in operations
            for dtype, shape in arrays(found[2])
        }
        costs = executable.cost_analysis() or {}  # without "flops" where there are none
        # XLA counts a loop's body once.
        self.flops = max(float(costs.get("flops", 0)), 2.0 * self.products(entry))

    def count(self, name: str) -> Counts:
        """Counts the collectives of one computation, with those that it calls."""
        counts: Counts = {}
        for found in self.computations[name]:
            kind, rest = found[3].removesuffix("-start"), found[4]
            inside: Counts = {}
            if kind in KINDS.values():
                for one in self.collective(kind, found):
                    inside[one] = inside.get(one, 0) + 1
            for callee in called(rest) if not inside else ():
                for one, times in self.count(callee).items():
                    inside[one] = added(inside.get(one, 0), times)
            if kind == "while":
                trips = TRIPS.search(rest)
                inside = repeated(inside, int(trips[1]) if trips else None)
            for one, times in inside.items():
                counts[one] = added(counts.get(one, 0), times)
        return counts

    def products(self, name: str) -> int:
        """Counts the multiplications in a computation's products of matrices."""
        total, types = 0, {one[1]: one[2] for one in self.computations[name]}
        for found in self.computations[name]:
            kind, rest = found[3], found[4]
            if kind == "dot":
                first = OPERAND.match(rest)
                [(_, shape)] = arrays(types[first[1]])
                axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)[1]
                summed = [shape[int(axis)] for axis in axes.split(",") if axis]
                total += math.prod(arrays(found[2])[0][1]) * math.prod(summed)
            inside = sum(map(self.products, called(rest)))
            trips = TRIPS.search(rest) if kind == "while" else None
            total += inside * int(trips[1] if trips else 1)
        return total

    def collective(self, kind: str, found: re.Match) -> Iterator[Collective]:
        rest = found[4]
        size = self.group_size(rest)
        reduction = ""
        if reducer := re.search(r"to_apply=%?([\w.-]+)", rest):
            last = self.computations[reducer[1]][-1][3]
            reduction = REDUCTIONS.get(last, "other")
        axis = re.search(r"dimensions=\{(\d+)\}", rest)
        parts = arrays(found[2])
        if kind == "all-to-all" and len(parts) > 1:  # one operand, cut into pieces
            parts = [(parts[0][0], (len(parts), *parts[0][1]))]
        for dtype, shape in parts:
            shape = list(shape)
            if kind == "all-gather" and axis:
                shape[int(axis[1])] //= size
            elif kind == "reduce-scatter" and axis:
                shape[int(axis[1])] *= size
            yield Collective(kind, reduction, dtype, tuple(shape), size)

    def group_size(self, text: str) -> int:
        """Counts the devices that exchange data with each other."""
        if pairs := re.search(r"source_target_pairs=\{(.*?)\}\}", text):
            return len(pairs[1].split("},{"))
        if groups := re.search(r"replica_groups=\[\d+,(\d+)\]", text):
            return int(groups[1])
        if groups := re.search(r"replica_groups=\{\{([\d,]*)\}", text):
            return len(groups[1].split(","))
        if groups := re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", text):
            sizes = dict(re.findall(r"'([^']*)'=(\d+)", groups[1]))
            # A part of an axis has its own size: 'data':(2)4.
            names = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", groups[2])
            return math.prod(int(part or sizes[name]) for name, part in names)
        return self.num_devices


def called(text: str) -> list[str]:
    words = r"\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.-]+)"
    branches = re.search(r"branch_computations=\{(.*?)\}", text)
    found = re.findall(r"[\w.-]+", branches[1]) if branches else []
    return [*re.findall(words, text), *found]


def arrays(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Lists dtype and shape of each array in a type; a tuple holds several."""
    return [
        (
            "bool" if dtype == "pred" else dtype.replace("s", "i"),
            tuple(int(size) for size in sizes.split(",") if size),
        )
        for dtype, sizes in ARRAY.findall(text)
    ]

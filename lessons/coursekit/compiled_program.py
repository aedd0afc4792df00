"""Reads a compiled program: what the compiler made the devices send and hold."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from .observation import Collective, shape_of_numbers
from .traced_program import KINDS, REDUCTIONS, Counts, added, repeated

OPERATION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (.+?) ([a-z][\w-]*)\((.*)")
ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d\w*)?)\[([\d,]*)\]")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
# The tables that say where an operation comes from: files, places in them, frames.
FILES = re.compile(r'(?m)^(\d+) "(.*)"$')
PLACES = re.compile(r"(?m)^(\d+) \{file_name_id=(\d+) .*?line=(\d+)")
FRAMES = re.compile(r"(?m)^(\d+) \{file_location_id=(\d+)")


class CompiledProgram:
    """What one device's part of a compiled program holds.

    Args:
        executable: what `jax.jit(f).lower(...).compile()` returns.
        trips: how often a loop runs that may run any number of times.

    Attributes:
        collectives: what the devices send each other, the compiler's included. The
            compiler may merge several into one, and a backend may choose others than
            one expects: the CPU's makes no reduce-scatter of its own.
        shapes: shape of every array that one device computes, in numbers.
        flops: floating-point operations of one device: XLA's count, with one round of
            each loop, or that of matrix products in all known rounds, if it is larger.
        computations: the operations of each computation, in the compiler's order.
        named: the same, each by its name.
        entry: the name of the computation that runs first.
    """

    def __init__(self, executable: Any, trips: int | None = None):
        self.text = text = executable.as_text()
        self.trips = trips
        self.num_devices = int((re.search(r"num_partitions=(\d+)", text) or [0, 1])[1])
        self.computations: dict[str, list[re.Match]] = {}
        for line in text.splitlines():
            if line.endswith("{") and "=" not in line.split("(")[0]:
                name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
                operations = self.computations[name] = []
                if line.startswith("ENTRY"):
                    self.entry = name
            elif operation := OPERATION.match(line):
                operations.append(operation)
        self.named = {
            name: {operation[1]: operation for operation in operations}
            for name, operations in self.computations.items()
        }
        counts = self.count(self.entry)
        self.collectives = tuple(
            dataclasses.replace(collective, times=times)
            for collective, times in counts.items()
        )
        self.shapes = {
            shape_of_numbers(dtype, shape)
            for operations in self.computations.values()
            for operation in operations
            for dtype, shape in arrays(operation[2])
        }
        costs = executable.cost_analysis() or {}  # without "flops" where there are none
        # XLA counts a loop's body once.
        products = self.flops_of_products(self.entry)
        self.flops = max(float(costs.get("flops", 0)), products)

    def count(self, name: str) -> Counts:
        """Counts the collectives of one computation, with those that it calls."""
        counts: Counts = {}
        for operation in self.computations[name]:
            kind, rest = operation[3].removesuffix("-start"), operation[4]
            inside: Counts = {}
            if kind in KINDS.values():
                for collective in self.collective(name, kind, operation):
                    inside[collective] = inside.get(collective, 0) + 1
            for callee in called(rest) if not inside else ():
                for collective, times in self.count(callee).items():
                    inside[collective] = added(inside.get(collective, 0), times)
            if kind == "while":
                inside = repeated(inside, self.rounds(name, operation))
            for collective, times in inside.items():
                counts[collective] = added(counts.get(collective, 0), times)
        return counts

    def flops_of_products(self, name: str) -> float:
        """Counts the FLOPs of a computation's products of matrices, loops included."""
        total = 0.0
        for operation in self.computations[name]:
            if operation[3] == "dot":
                total += self.flops_of_dot(name, operation)
            inside = sum(map(self.flops_of_products, called(operation[4])))
            rounds = self.rounds(name, operation) if operation[3] == "while" else None
            total += inside * (1 if rounds is None else rounds)
        return total

    def flops_of_dot(self, name: str, dot: re.Match) -> float:
        [(_, shape)] = arrays(self.named[name][operands(dot)[0]][2])
        axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", dot[4])
        summed = (
            [shape[int(axis)] for axis in axes[1].split(",") if axis] if axes else ()
        )
        return 2.0 * math.prod(arrays(dot[2])[0][1]) * math.prod(summed)

    def collective(
        self, name: str, kind: str, operation: re.Match
    ) -> Iterator[Collective]:
        """Yields what a device puts in, an array each."""
        size = len(self.groups(operation)[0])
        if kind == "collective-permute":
            size = len(self.groups(operation))
        reduction = ""
        if reducer := re.search(r"to_apply=%?([\w.-]+)", operation[4]):
            last = self.computations[reducer[1]][-1][3]
            reduction = REDUCTIONS.get(last, "other")
        named = self.named[name]
        parts = [
            a for operand in operands(operation) for a in arrays(named[operand][2])
        ]
        if kind == "all-to-all" and len(parts) > 1:  # one operand, cut into pieces
            parts = [(parts[0][0], (len(parts), *parts[0][1]))]
        for dtype, shape in parts:
            yield Collective(kind, reduction, dtype, shape, size)

    def rounds(self, name: str, loop: re.Match) -> int | None:
        """Returns how often a loop of a computation runs; None: any number of times.

        The compiler of TPUs does not write it down: there, a counter runs up to a
        constant.
        """
        if trips := TRIPS.search(loop[4]):
            return int(trips[1])
        condition, body = (
            self.named[re.search(rf"{word}=%?([\w.-]+)", loop[4])[1]]
            for word in ("condition", "body")
        )
        test = list(condition.values())[-1]
        if test[3] != "compare" or "direction=LT" not in test[4]:
            return self.trips
        counter, stop = (condition[operand] for operand in operands(test))
        place = re.search(r"index=(\d+)", counter[4])
        if not place:
            return self.trips
        place = int(place[1])
        outside = self.named[name]
        start = outside[operands(outside[operands(loop)[0]])[place]]
        step = body[operands(list(body.values())[-1])[place]]
        added = (
            [body[operand] for operand in operands(step)] if step[3] == "add" else []
        )
        numbers = [constant(outside, start), constant(condition, stop)]
        numbers += [
            constant(body, operand) for operand in added if operand[3] == "constant"
        ]
        if len(numbers) != 3 or None in numbers:
            return self.trips
        first, last, by = numbers
        return max(0, -(-(last - first) // by)) if by else self.trips

    def source(self, operation: re.Match) -> str:
        """Returns the line that an operation comes from: `train.py:12`, or ""."""
        if place := re.search(r'source_file="(.*?)" source_line=(\d+)', operation[4]):
            return f"{place[1].rpartition('/')[2]}:{place[2]}"
        frame = re.search(r"stack_frame_id=(\d+)", operation[4])
        return self.frames.get(frame[1], "") if frame else ""

    @functools.cached_property
    def frames(self) -> dict[str, str]:
        head = self.text[: self.text.index("\n%") if "\n%" in self.text else None]
        names = head.partition("FunctionNames")[0]
        files, places = dict(FILES.findall(names)), {}
        for number, file, line in PLACES.findall(head):
            places[number] = f"{files.get(file, '').rpartition('/')[2]}:{line}"
        return {frame: places.get(at, "") for frame, at in FRAMES.findall(head)}

    def groups(self, found: re.Match) -> list[list[int]]:
        """Lists the groups of devices that exchange data, or (from, to) pairs."""
        text = found[4]
        if pairs := re.search(
            r"(?:source_target_pairs|replica_groups)=\{(\{.*?\})\}", text
        ):
            return [
                [int(one) for one in group.split(",")]
                for group in re.findall(r"\{([\d,]+)\}", pairs[1])
            ]
        iota = r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?"
        if groups := re.search(iota, text):
            return tiled(groups[3], groups[4]).reshape(int(groups[1]), -1).tolist()
        order = r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))?"
        if found := re.search(rf"=mesh\[(.*?)\]{order} \{{(.*?)\}}", text):
            mesh, sizes, turned, axes = found.groups()
            groups = mesh_groups(mesh, axes)
            if not sizes:
                return groups
            return tiled(sizes, turned).reshape(-1)[np.array(groups)].tolist()
        return [list(range(self.num_devices))]


def tiled(sizes: str, turned: str | None) -> np.ndarray:
    """Returns the numbers of devices in the order that `[8,4]T(1,0)` writes."""
    sizes = [int(size) for size in sizes.split(",")]
    devices = np.arange(math.prod(sizes)).reshape(sizes)
    return devices.transpose([*map(int, turned.split(","))]) if turned else devices


def mesh_groups(mesh: str, axes: str) -> list[list[int]]:
    """Groups the devices of `'data'=8,'model'=2` along `'data':(2)4`, say.

    A part of an axis has the product of the sizes before it in parentheses.
    """
    parts: dict[str, list[int]] = {}  # where each axis is cut
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", mesh)}
    chosen = []
    for name, before, size in re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", axes):
        first = int(before or 1)
        last = first * int(size or sizes[name])
        parts[name] = sorted({*parts.get(name, ()), first, last})
        chosen.append((name, first))
    shape, places = [], {}
    for name, size in sizes.items():
        cuts = sorted({1, *parts.get(name, ()), size})
        for first, last in itertools.pairwise(cuts) if size > 1 else [(1, 1)]:
            places[name, first] = len(shape)
            shape.append(last // first)
    inner = [places[part] for part in chosen]
    outer = [axis for axis in range(len(shape)) if axis not in inner]
    devices = np.arange(math.prod(shape)).reshape(shape).transpose(outer + inner)
    return devices.reshape(-1, math.prod(shape[axis] for axis in inner)).tolist()


def operands(operation: re.Match) -> list[str]:
    """Names what an operation takes."""
    return re.findall(r"%([\w.-]+)", operation[4].split("), ")[0])


def constant(named: dict[str, re.Match], operation: re.Match) -> int | None:
    """Returns the integer that an operation gives, if it is a constant or its copy."""
    while operation[3] in ("copy", "bitcast", "convert"):
        operation = named[operands(operation)[0]]
    value = re.match(r"(-?\d+)\)", operation[4])
    return int(value[1]) if operation[3] == "constant" and value else None


def called(text: str) -> list[str]:
    words = r"\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.-]+)"
    branches = re.search(r"branch_computations=\{(.*?)\}", text)
    callees = re.findall(r"[\w.-]+", branches[1]) if branches else []
    return [*re.findall(words, text), *callees]


def arrays(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Lists dtype and shape of each array in a type; a tuple holds several."""
    return [
        (
            "bool" if dtype == "pred" else dtype.replace("s", "i"),
            tuple(int(size) for size in sizes.split(",") if size),
        )
        for dtype, sizes in ARRAY.findall(text)
    ]

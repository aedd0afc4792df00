"""Which results of a compiled program take memory, and for how long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ..compiled_program import arrays, operands
from ..observation import bits_of
from .operations import FREE, Operation, ProgramText

# What has the memory of its operands.
ALIASES = {"tuple", "get-tuple-element", "bitcast"}


class Buffers:
    """The memory of a program's results, in the compiler's order.

    A result has an owner: the operation that made the memory in which it is. Loops and
    donated arguments are written over where nothing reads them any more, as compilers
    do.

    The results of a program that replace no donated argument have memory of their own
    from the start, which is not counted here.
    """

    def __init__(self, text: ProgramText):
        self.text, self.program = text, text.program
        # By (computation, owner): the array as which a loop's own memory begins.
        self.carried: dict[tuple[str, str], str] = {}
        head = self.program.text.partition("\n")[0]
        self.donated = {  # by the place of the result that may take its memory
            int(place or 0): int(number)
            for place, number in re.findall(r"\{(\d*)\}: \((\d+), ", head)
        }

    def hold(self, name: str, found: list[Operation], of: str) -> None:
        """Finds what each operation of a computation allocates, and for how long.

        Args:
            name: the computation.
            found: its operations.
            of: what it is: a "program", the body of a "loop", or what a "call" runs.
        """
        lines = self.program.named[name]
        places = {one.name: number for number, one in enumerate(found)}
        taken: dict[str, Operation] = {}
        for one in found:
            if one.kind == "while":
                for owner in self.carry(name, lines[one.name], one, taken):
                    places[owner] = places[one.name]
        owners = {
            one.name: self.owners(name, one.name) for one in found if one.name in lines
        }
        for number, one in enumerate(found):
            for need in one.needs:
                for owner in owners.get(need, ()):
                    if owner in places:
                        found[places[owner]].last_use = number
        for owner, loop in taken.items():  # zeros say nothing of what they are for
            if owner in places and not found[places[owner]].source:
                begin = found[places[owner]]
                begin.source, begin.scope = loop.source, loop.scope
        own = {one for one, its in owners.items() if its == {one}}
        own |= {owner for owner in places if (name, owner) in self.carried}
        kept, elsewhere = self.results(name, of)
        for owner in own:
            one, like = found[places[owner]], self.carried.get((name, owner), owner)
            if owner in elsewhere:
                continue
            if lines[like][3] == "constant" or self.text.in_kernel(name, lines[like]):
                continue
            size = self.text.size(name, like)
            if one.begins and one.transfer:
                size /= 2  # its type names the operand, too
            if owner != like and size > one.holds:
                one.shape = lines[like][2].split("{")[0]
            one.holds += size
            if owner in kept:
                one.last_use = len(found)

    def results(self, name: str, of: str) -> tuple[set[str], set[str]]:
        """Finds the owners of a computation's results.

        Returns:
            Those that need memory until the end, since what they will replace is still
            read; and those whose memory is counted elsewhere.
        """
        lines = self.program.computations[name]
        order = {line[1]: number for number, line in enumerate(lines)}
        root, kept, elsewhere = lines[-1], set(), set()
        results = operands(root) if root[3] == "tuple" else [root[1]]
        for place, result in enumerate(results):
            over = [*self.overwritten(name, of, place)]
            for owner in self.owners(name, result):
                free = [self.is_free(name, one, owner, order) for one in over]
                (elsewhere if all(free) else kept).add(owner)
        return kept, elsewhere - kept

    def overwritten(self, name: str, of: str, place: int) -> Iterator[str]:
        """Yields the names of what a result may be written over."""
        for line in self.program.computations[name]:
            if of == "program" and line[3] == "parameter":
                if int(line[4].split(")")[0]) == self.donated.get(place):
                    yield line[1]
            elif of == "loop" and self.is_passed_on(name, line[1], place):
                yield line[1]

    def is_free(
        self, name: str, argument: str, owner: str, order: dict[str, int]
    ) -> bool:
        """Tells whether nothing reads an argument's memory once an owner writes to it.

        What computes each element from those at its place may write over them.
        """
        operation, _, carried = owner.partition("/")
        for line in self.readers(name, argument):
            if order[line[1]] > order[operation]:
                return False
            if order[line[1]] == order[operation]:
                like = self.carried.get((name, owner), "")
                begins = carried and self.source(name, like) == argument
                if not begins and not self.text.is_pointwise(line):
                    return False
        return True

    def readers(self, name: str, result: str) -> Iterator[re.Match]:
        """Yields the operations that read a result, or what has its memory."""
        root = self.program.computations[name][-1][1]
        for user in self.text.uses[name][result]:
            if user[1] == root:
                continue
            is_copy = self.text.simulated and self.text.is_copy(user)
            if user[3] in ALIASES or (is_copy and user[3] != "fusion"):
                yield from self.readers(name, user[1])
            else:
                yield user

    def source(self, name: str, result: str) -> str:
        """Returns what a result is a copy of."""
        line = self.program.named[name][result]
        while line[3] in ("copy", "bitcast"):
            line = self.program.named[name][operands(line)[0]]
        return line[1]

    def carry(
        self, name: str, line: re.Match, loop: Operation, taken: dict[str, Operation]
    ) -> Iterator[str]:
        """Yields what a loop carries in memory of its own, under names made for it.

        It writes over the memory in which an array begins, but for an argument of the
        program, and where an earlier one has `taken` it: several may begin as the same
        zeros.
        """
        given = self.program.named[name][operands(line)[0]]
        body = re.search(r"body=%?([\w.-]+)", line[4])[1]
        root = self.program.computations[body][-1]
        if given[3] != "tuple" or root[3] != "tuple":
            return
        pairs = zip(operands(given), operands(root), strict=True)
        for place, (like, result) in enumerate(pairs):
            if self.is_passed_on(body, result, place):
                continue
            owners = self.owners(name, like)
            if not owners and name != self.program.entry:
                owners = {like}  # an outer loop's, or a caller's
            if owners and not owners & taken.keys():
                taken |= dict.fromkeys(owners, loop)
                continue
            owner = f"{line[1]}/{place}"
            self.carried[name, owner] = like
            yield owner

    def is_passed_on(self, body: str, result: str, place: int) -> bool:
        """Tells whether a result is what a loop's body got at a place."""
        line = self.program.named[body][self.source(body, result)]
        if line[3] != "get-tuple-element":
            return False
        given = self.program.named[body][operands(line)[0]]
        return given[3] == "parameter" and f"index={place}" in line[4].split(", ")

    def owners(self, name: str, result: str, index: int | None = None) -> set[str]:
        """Returns the operations whose memory holds a result; none if an argument."""
        line, text = self.program.named[name][result], self.text
        kind, needs = line[3], operands(line)
        if kind == "parameter" or kind in ("constant", "iota"):
            return set()
        if kind == "get-tuple-element":
            place = int(re.search(r"index=(\d+)", line[4])[1])
            if (name, owner := f"{needs[0]}/{place}") in self.carried:
                return {owner}
            return self.owners(name, needs[0], place)
        if kind == "tuple":
            needs = needs if index is None else needs[index : index + 1]
            return {own for one in needs for own in self.owners(name, one)}
        if kind in ("while", "opt-barrier") or kind.endswith("-done"):
            return self.owners(name, needs[0], index)
        if kind in FREE:
            return self.owners(name, needs[0]) if needs else set()
        if text.simulated and text.is_copy(line) and needs:
            biggest = max(needs, key=lambda one: text.size(name, one))
            if text.size(name, biggest) >= text.size(name, result):
                above = self.owners(name, biggest)
                is_new = not above and self.narrows_for_a_loop(name, line)
                return {result} if is_new else above
        if text.melts(name, line):  # so what it takes lives on until then
            return {own for one in needs for own in self.owners(name, one)}
        if updates := text.updates(name, line):
            return {own for one in updates for own in self.owners(name, one)} or (
                set() if self.is_argument(name, updates) else {result}
            )
        return {result}

    def narrows_for_a_loop(self, name: str, line: re.Match) -> bool:
        """Tells whether a copy in fewer bits enters a loop, so that it is written once.

        Elsewhere others convert where they use it, unlike the CPU's compiler.
        """
        if not any(user[3] == "tuple" for user in self.text.uses[name][line[1]]):
            return False
        given = self.program.named[name][operands(line)[0]]
        [(dtype, shape)] = arrays(given[2])
        size = math.prod(shape) * bits_of("bool" if dtype == "pred" else dtype) / 8
        return self.text.size(name, line[1]) < size

    def is_argument(self, name: str, results: dict[str, float]) -> bool:
        """Tells whether results are parameters, whose memory belongs to the caller."""
        return all(not self.owners(name, one) for one in results)


def most_held(operations: list[Operation]) -> float:
    """Returns the bytes in use at the worst moment of operations."""
    most = 0.0
    for number, one in enumerate(operations):
        live = [o for o in operations[: number + 1] if o is one or o.last_use >= number]
        most = max(most, sum(o.holds for o in live) + most_held(one.body))
    return most

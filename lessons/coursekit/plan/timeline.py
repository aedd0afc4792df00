"""What happens when on one chip, and how much memory is in use meanwhile."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from .chips import Cluster
from .operations import Operation

COMPUTE = "compute"
MOST = 4000  # events of one timeline; longer loops are kept as one round, repeated


@dataclasses.dataclass(frozen=True)
class Event:
    """A time on a lane of one chip, in seconds from the start of the step.

    Attributes:
        lane: "compute", or a kind of link.
        waits: of a computation: for what link it stood still before.
        live: bytes of temporary arrays in use.
    """

    lane: str
    start: float
    length: float
    name: str
    source: str
    live: float
    waits: str = ""
    times: int = 1


@dataclasses.dataclass
class Price:
    """Seconds of a program's operations on a cluster.

    Args:
        on: the chips.
        places: where the devices of the mesh are, in its order.
        scheduled: whether the compiler is the chip's own: then collectives without a
            start and an end of their own keep the chip busy, and `estimated_cycles`
            are those of the chip.
    """

    on: Cluster
    places: Sequence[tuple[int, ...]]
    scheduled: bool

    def compute(self, one: Operation) -> float:
        """Seconds of a computation at the rates that chips were measured to reach."""
        chip = self.on.chip
        if self.scheduled and one.cycles and chip.clock:
            return one.cycles / chip.clock
        products = self.ideal(one) / chip.reached
        return max(products, one.num_bytes / chip.memory_rate)

    def ideal(self, one: Operation) -> float:
        """Seconds of an operation's matrix products at the chip's peak."""
        chip = self.on.chip
        return sum(flops / chip.rate(dtype) for dtype, flops in one.flops.items())

    def link(self, one: Operation) -> tuple[str, float]:
        """Returns over what a collective goes, and its seconds: its slowest group's."""
        found = ("", 0.0)
        for group in dict.fromkeys(one.transfer.groups):
            link = self.on.link(
                one.transfer.kind,
                one.transfer.num_bytes,
                [self.places[i] for i in group],
            )
            found = max(found, (link.name, link.seconds), key=lambda pair: pair[1])
            found = found if found[0] else (link.name, link.seconds)
        return found


class Timeline:
    """Runs operations in the compiler's order, each lane one after the other.

    A collective starts when its operands are there and its link is free; a computation
    waits for what it takes. No round of a loop begins before the last one has ended.

    Attributes:
        events: in the order of their starts.
        seconds: of the step.
        most: bytes of temporary arrays in use at the worst moment.
        held: what these are: bytes by (shape, source, scope).
    """

    def __init__(self, operations: Sequence[Operation], price: Price):
        self.price = price
        self.prices: dict[int, tuple[str, float]] = {}
        self.most, self.held = 0.0, {}
        self.events, self.seconds = self.run(operations, 0.0, {})

    def run(
        self, operations: Sequence[Operation], base: float, below: dict
    ) -> tuple[list[Event], float]:
        ready: dict[str, float] = {}
        free: dict[str, float] = defaultdict(float)
        reason: dict[str, str] = {}
        live: dict[int, Operation] = {}
        events: list[Event] = []
        for number, one in enumerate(operations):
            live = {n: kept for n, kept in live.items() if kept.last_use >= number}
            if one.holds:
                live[number] = one
            now = base + sum(kept.holds for kept in live.values())
            if not one.body:
                self.note(now, live.values(), below)
            needed = max(one.needs, key=lambda need: ready.get(need, 0.0), default="")
            start = ready.get(needed, 0.0)
            if one.body:
                start = max(start, *free.values(), 0.0)
                held = below | {id(kept): kept for kept in live.values()}
                inner, length = self.run(one.body, now, held)
                events += repeated(inner, start, length, one.times)
                end = start + one.times * length
                for lane in (*free, COMPUTE):
                    free[lane] = end
            elif one.transfer:
                lane, length = self.price.link(one)
                blocks = self.price.scheduled and not one.begins
                start = max(start, free[lane])
                if self.price.scheduled:  # the compiler's order says when it begins
                    start = max(start, free[COMPUTE])
                end = free[lane] = start + length
                if blocks:
                    free[COMPUTE] = end
                name = one.transfer.kind
                if length:
                    events.append(Event(lane, start, length, name, one.source, now))
                reason[one.name] = lane
            elif length := self.price.compute(one):
                waits = ""
                if start > free[COMPUTE]:
                    waits = reason.get(needed, "")
                start = max(start, free[COMPUTE])
                end = free[COMPUTE] = start + length
                events.append(
                    Event(COMPUTE, start, length, one.kind, one.source, now, waits)
                )
            else:
                end = start
                if needed in reason:
                    reason[one.name] = reason[needed]
                if one.awaits and self.price.scheduled:
                    free[COMPUTE] = max(free[COMPUTE], end)
            ready[one.name] = end
        return events, max([*free.values(), *ready.values(), 0.0])

    def note(self, now: float, live: Sequence[Operation], below: dict) -> None:
        """Keeps what is in use where that is the most so far."""
        if now > self.most:
            self.most, self.held = now, {}
            for kept in (*below.values(), *live):
                key = kept.shape, kept.source, kept.scope
                self.held[key] = self.held.get(key, 0.0) + kept.holds


def repeated(
    events: list[Event], start: float, length: float, times: int
) -> list[Event]:
    """Repeats a round's events; where these would be too many, as one long round."""
    if len(events) * times <= MOST:
        return [
            dataclasses.replace(one, start=start + one.start + number * length)
            for number in range(times)
            for one in events
        ]
    return [
        dataclasses.replace(
            one,
            start=start + times * one.start,
            length=times * one.length,
            times=times * one.times,
        )
        for one in events
    ]

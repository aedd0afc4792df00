"""Writes what a program did as plain JSON, and reads it without trusting who wrote it.

A child of the judge writes it, which a program may have taken over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from coursekit.observation import Collective, Shard
from grader.judging.observation_reader import read_layout, text
from grader.kernel.inside.wire import decode, encode, require

MAX_WORD = 100  # characters of a name: a kind, a dtype
MAX_SIZE = 2**63
FACTS = ("array_shapes", "collectives", "dtypes", "flops")


def encode_facts(
    facts: Mapping[str, Any], value: Any, layout: Mapping[str, tuple[Shard, ...]]
) -> dict[str, Any]:
    """Writes the facts of a program that has run, its value, and where that lies."""
    written = dict(facts)
    written["collectives"] = [[*vars(one).values()] for one in facts["collectives"]]
    places = {
        path: [[shard.device, shard.index] for shard in pieces]
        for path, pieces in layout.items()
    }
    return {"facts": written, "value": encode(value), "layout": places}


def decode_facts(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what `encode_facts` wrote: the facts, with "value" and "layout".

    Raises:
        WireError: anything else.
    """
    require(answer.keys() == {"facts", "value", "layout"}, "other facts of a program")
    value = decode(answer["value"], plain=True)
    facts, found = answer["facts"], {}
    require(type(facts) is dict and set(facts) <= set(FACTS), "unknown facts")
    require({"array_shapes", "collectives"} <= set(facts), "too few facts")
    for name, fact in facts.items():
        found[name] = globals()[f"read_{name}"](fact)
    return {**found, "value": value, "layout": read_layout(answer["layout"], value)}


def read_array_shapes(fact: Any) -> tuple[tuple[int, ...], ...]:
    """Reads the shapes of a program's arrays."""
    require(type(fact) is list, "no shapes")
    return tuple(map(shape, fact))


def read_collectives(fact: Any) -> tuple[Collective, ...]:
    """Reads a program's collectives."""
    require(type(fact) is list, "no collectives")
    return tuple(map(read_collective, fact))


def read_collective(fact: Any) -> Collective:
    """Reads one collective."""
    require(type(fact) is list and len(fact) == 7, "no collective")
    kind, reduction, dtype, sizes, devices, in_loop, times = fact
    words = [text(word, MAX_WORD) for word in (kind, reduction, dtype)]
    require(type(in_loop) is bool, "no truth value")
    devices, times = size(devices), None if times is None else size(times)
    return Collective(*words, shape(sizes), devices, in_loop, times)


def read_dtypes(fact: Any) -> dict[str, tuple[str, ...]]:
    """Reads in which dtypes a program computes."""
    require(type(fact) is dict and len(fact) <= MAX_WORD, "no dtypes")
    require(all(type(names) is list for names in fact.values()), "no list of dtypes")
    return {
        text(role, MAX_WORD): tuple(text(name, MAX_WORD) for name in names)
        for role, names in fact.items()
    }


def read_flops(fact: Any) -> float:
    """Reads how much a program computes."""
    require(type(fact) is float and math.isfinite(fact), "no number of operations")
    return fact


def shape(sizes: Any) -> tuple[int, ...]:
    """Reads a shape."""
    require(type(sizes) is list, "no shape")
    return tuple(map(size, sizes))


def size(number: Any) -> int:
    """Reads a count."""
    require(type(number) is int and 0 <= number <= MAX_SIZE, "no count")
    return number

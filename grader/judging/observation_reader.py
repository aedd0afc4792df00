"""Reads what a learner's process says that a call did, and trusts none of it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from coursekit.observation import Failure, Observation, Shard, leaves
from grader.kernel.inside.wire import (
    ERROR_TEXT,
    MAX_ITEMS,
    MAX_TRACE,
    MAX_TRACE_LINE,
    WireError,
    decode,
    require,
)

FACTS = {"value", "layout", "error", "printed", "changed", "num_compiles"}
MAX_LINE, MAX_BRACKETS = 2**25, 2**19
MAX_KINDS, MAX_NAME, MAX_PRINTED = 20, 200, 4000
MAX_ARGUMENTS = 100


def loads(line: str) -> dict[str, Any]:
    """Reads one message: a JSON object.

    Raises:
        WireError: it is none, or far larger than any that is written.
    """
    require(isinstance(line, str) and len(line) <= MAX_LINE, "too long a text")
    require(line.count("[") + line.count("{") <= MAX_BRACKETS, "too many brackets")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError("The answer is no JSON.") from None
    require(isinstance(message, dict), "no object")
    return message


def decode_observation(facts: Any, function: str, call: str) -> Observation:
    """Reads what `encode_observation` wrote about `call`.

    Raises:
        WireError: anything else, and a layout that does not fit the value.
    """
    require(
        type(facts) is dict and facts.keys() == FACTS, "other facts than were asked"
    )
    value = decode(facts["value"], plain=True)
    layout = read_layout(facts["layout"], value)
    error = read_error(facts["error"])
    require(error is None or (value is None and not layout), "an error and a result")
    changed = read_changed(facts["changed"])
    printed = text(facts["printed"], MAX_PRINTED)
    compiles = facts["num_compiles"]
    require(type(compiles) is int and 0 <= compiles < 2**31, "no number of programs")
    return Observation(function, call, value, layout, error, printed, changed, compiles)


def read_changed(places: Any) -> tuple[int, ...]:
    """Reads the positions of arguments that a function has changed."""
    require(type(places) is list and len(places) <= MAX_ARGUMENTS, "no positions")
    known = all(type(n) is int and 0 <= n < MAX_ARGUMENTS for n in places)
    require(known and sorted(set(places)) == places, "an unknown position")
    return tuple(places)


def read_error(facts: Any) -> Failure | None:
    """Reads the description of an exception."""
    if facts is None:
        return None
    names = {"kinds", "message", "function", "trace"}
    require(type(facts) is dict and facts.keys() == names, "no description of an error")
    kinds, trace = facts["kinds"], facts["trace"]
    several = type(kinds) is list and 1 <= len(kinds) <= MAX_KINDS
    require(several, "an error without a class, or with too many")
    require(type(trace) is list and len(trace) <= MAX_TRACE, "no lines of code")
    return Failure(
        tuple(text(kind, MAX_NAME) for kind in kinds),
        trace=tuple(text(line, MAX_TRACE_LINE) for line in trace),
        **{name: text(facts[name], most) for name, most in ERROR_TEXT.items()},
    )


def read_layout(facts: Any, value: Any) -> Mapping[str, tuple[Shard, ...]]:
    """Reads which device holds which part of `value`'s arrays."""
    require(type(facts) is dict, "no layout")
    shapes = {p: a.shape for p, a in leaves(value) if isinstance(a, np.ndarray)}
    require(facts.keys() <= shapes.keys(), "a layout of what is no array of the value")
    require(all(type(pieces) is list for pieces in facts.values()), "no shards")
    require(sum(map(len, facts.values())) <= MAX_ITEMS, "too many shards")
    return {path: read_shards(pieces, shapes[path]) for path, pieces in facts.items()}


def read_shards(pieces: list, shape: tuple[int, ...]) -> tuple[Shard, ...]:
    """Reads one array's shards, which must cover it, one for each of some devices."""
    found = tuple(read_shard(piece, shape) for piece in pieces)
    devices = [shard.device for shard in found]
    require(bool(found) and len(set(devices)) == len(devices), "a device named twice")
    blocks = {shard.index for shard in found}
    sizes = (math.prod(stop - start for start, stop in block) for block in blocks)
    require(sum(sizes) == math.prod(shape), "shards that do not make up their array")
    apart = (
        any(b <= c or d <= a for (a, b), (c, d) in zip(one, other, strict=True))
        for one, other in itertools.combinations(blocks, 2)
    )
    require(all(apart), "shards that overlap")
    return found


def read_shard(piece: Any, shape: tuple[int, ...]) -> Shard:
    """Reads one device's part of an array."""
    require(type(piece) is list and len(piece) == 2, "no shard")
    device, index = piece
    known = type(device) is int and 0 <= device < jax.device_count()
    require(known, "an unknown device")
    require(type(index) is list and len(index) == len(shape), "a shard without bounds")
    for bounds, size in zip(index, shape, strict=True):
        pair = type(bounds) is list and [type(n) for n in bounds] == [int, int]
        require(pair and 0 <= bounds[0] <= bounds[1] <= size, "a shard out of bounds")
    return Shard(device, tuple((start, stop) for start, stop in index))


def text(value: Any, most: int) -> str:
    """Reads a text of a bounded length."""
    require(isinstance(value, str) and len(value) <= most, "no text, or too long a one")
    return value

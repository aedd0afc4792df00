"""Reads what a process that ran a learner's code reports, and trusts none of it.

A learner's process reports what a call did; a child of the judge, what a program did.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from coursekit.observation import Collective, Failure, Observation, Shard, leaves
from grader.kernel.inside.wire import (
    ERROR_TEXT,
    MAX_ITEMS,
    MAX_TRACE,
    MAX_TRACE_LINE,
    WireError,
    decode,
    encode,
    require,
)

MAX_LINE, MAX_BRACKETS = 2**25, 2**19


class Text(int):
    """The form of a text of at most so many characters."""


COUNT, WORD = range(2**63 + 1), Text(100)
LAYOUT = {str: [(COUNT, [(COUNT, COUNT)])]}  # by path: devices with bounds of each axis
CHANGED = [range(100)]
OBSERVATION = {
    "value": object,
    "layout": LAYOUT,
    "error": object,
    "printed": Text(4000),
    "changed": CHANGED,
    "num_compiles": range(2**31),
}
ERROR = {name: Text(most) for name, most in ERROR_TEXT.items()} | {
    "kinds": [Text(200), 1, 20],
    "trace": [Text(MAX_TRACE_LINE), 0, MAX_TRACE],
}
COLLECTIVE = (WORD, WORD, WORD, [COUNT], COUNT, bool, object)
SHAPES = [[COUNT]]
PROGRAM = {"collectives": [COLLECTIVE], "array_shapes": SHAPES}
PROGRAM |= {"steps": [(WORD, SHAPES)], "pairs": [(COUNT, COUNT)]}
PROGRAM |= {"whole_inputs": [WORD]}
TRACED = PROGRAM | {"dtypes": {str: [WORD]}, "multiplied": SHAPES, "joined": SHAPES}
TRACED |= {"most_held": COUNT, "needs": [(WORD, [range(-2, 2**31)])]}
COMPILED = PROGRAM | {"flops": float}


def fits(document: Any, form: Any) -> bool:
    """Tells whether a JSON document has a form.

    A form is a type, `Text`, a range of integers, a tuple of the forms of a list's
    items, `[form of all items, fewest, most]`, or a dict of the forms of its values,
    with the key `str` where a document may have any keys.
    """
    match form:
        case Text():
            return type(document) is str and len(document) <= form
        case range():
            return type(document) is int and document in form
        case type():
            return form is object or type(document) is form
        case dict():
            if type(document) is not dict:
                return False
            forms = dict.fromkeys(document, form[str]) if str in form else form
            return document.keys() == forms.keys() and all(
                fits(document[key], forms[key]) for key in forms
            )
    if type(document) is not list:
        return False
    if isinstance(form, tuple):
        return len(document) == len(form) and all(map(fits, document, form))
    item, fewest, most = (*form, 0, MAX_ITEMS)[:3]
    return fewest <= len(document) <= most and all(fits(one, item) for one in document)


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
    require(fits(facts, OBSERVATION), "other facts than were asked")
    value = decode(facts["value"], plain=True)
    layout = read_layout(facts["layout"], value)
    if (error := facts["error"]) is not None:
        require(fits(error, ERROR), "no description of an error")
        require(value is None and not layout, "an error and a result")
        lists = {name: tuple(error[name]) for name in ("kinds", "trace")}
        error = Failure(**error | lists)
    changed = read_changed(facts["changed"])
    printed, num_compiles = facts["printed"], facts["num_compiles"]
    return Observation(
        function, call, value, layout, error, printed, changed, num_compiles
    )


def read_changed(places: Any) -> tuple[int, ...]:
    require(fits(places, CHANGED) and sorted({*places}) == places, "no positions")
    return tuple(places)


def read_layout(facts: Any, value: Any) -> dict[str, tuple[Shard, ...]]:
    """Reads which device holds which part of `value`'s arrays."""
    require(fits(facts, LAYOUT), "no layout")
    shapes = {p: a.shape for p, a in leaves(value) if isinstance(a, np.ndarray)}
    require(facts.keys() <= shapes.keys(), "a layout of what is no array of the value")
    require(sum(map(len, facts.values())) <= MAX_ITEMS, "too many shards")
    return {path: read_shards(pieces, shapes[path]) for path, pieces in facts.items()}


def read_shards(pieces: list, shape: tuple[int, ...]) -> tuple[Shard, ...]:
    """Reads one array's shards, which must cover it, one for each of some devices."""
    found = [Shard(device, tuple(map(tuple, index))) for device, index in pieces]
    devices = {shard.device for shard in found}
    known = bool(found) and max(devices) < jax.device_count()
    require(known and len(devices) == len(found), "an unknown device, or one twice")
    times = np.zeros(shape, np.uint8)  # that an element is in a block
    for block in {shard.index for shard in found}:
        inside = len(block) == len(shape) and all(
            start <= stop <= size
            for (start, stop), size in zip(block, shape, strict=True)
        )
        require(inside, "a shard out of bounds")
        times[tuple(slice(*bounds) for bounds in block)] += 1
    require((times == 1).all(), "shards that do not make up their array")
    return tuple(found)


def encode_facts(
    facts: Mapping[str, Any], value: Any, layout: Mapping[str, tuple[Shard, ...]]
) -> dict[str, Any]:
    """Writes the facts of a program that has run, its value, and the value's layout."""
    collectives = [[*vars(one).values()] for one in facts["collectives"]]
    places = {
        path: [[shard.device, shard.index] for shard in pieces]
        for path, pieces in layout.items()
    }
    written = {**facts, "collectives": collectives}
    return {"facts": written, "value": encode(value), "layout": places}


def decode_facts(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what `encode_facts` wrote: the facts, with "value" and "layout".

    Raises:
        WireError: anything else.
    """
    require(answer.keys() == {"facts", "value", "layout"}, "other facts of a program")
    facts = answer["facts"]
    require(fits(facts, TRACED) or fits(facts, COMPILED), "unknown facts")
    value = decode(answer["value"], plain=True)
    found = {"value": value, "layout": read_layout(answer["layout"], value)}
    found |= {name: tuples(fact) for name, fact in facts.items()}
    collectives = []
    for kind, reduction, dtype, shape, *rest, times in facts["collectives"]:
        require(times is None or fits(times, COUNT), "no count")
        one = Collective(kind, reduction, dtype, tuple(shape), *rest, times)
        collectives.append(one)
    found["collectives"] = tuple(collectives)
    require(math.isfinite(facts.get("flops", 0)), "no number of operations")
    return found


def tuples(fact: Any) -> Any:
    """Makes tuples of the lists in a fact."""
    if isinstance(fact, dict):
        return {name: tuples(item) for name, item in fact.items()}
    return tuple(map(tuples, fact)) if isinstance(fact, list) else fact

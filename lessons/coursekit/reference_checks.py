"""Compares what a learner's function does with what the solution does, case by case.

Hidden tests alone use it. A check says which statement of the exercise each compared
fact proves; what the exercise leaves open it names with a reason, so that nothing is
demanded by accident and nothing is forgotten.
"""

from __future__ import annotations

import builtins
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from .expect import (
    Difference,
    difference,
    expect_error,
    expect_result,
    leaf_difference,
    wrong,
)
from .expect_program import expect_parts, expect_traced, placed
from .hidden_cases import Case, altered, named, rounded
from .observation import Collective, Observation, leaves
from .observe import observe, values
from .outcomes import current, statement

FACTS = (
    *("value", "error", "layout", "collectives", "sent"),
    *("arrays", "compiles", "arguments"),
)
OF_PROGRAM = {"collectives", "sent", "put_in", "arrays"}
SENT, ARRAYS = 1.02, 1.25  # how much more than the solution is still like it
LARGEST = 1e30  # of what an altered case gives
LIKE_OURS = "what the solution gives here, up to rounding"  # values stay hidden
NOISE = 8  # times what rounding the inputs does to the solution's result
solutions: Mapping[str, Any] = {}  # by name: see `CheckModule.compare_with`
learner: Mapping[str, Any] = {}  # what the learner's names mean
ways = {"learner": observe, "solution": observe}  # how both are observed
seed = 0  # of the generated cases
_known: dict[tuple, Observation] = {}  # what the solution does in each case


def expect_like_solution(
    function: Callable,
    cases: Callable[[np.random.Generator], Iterable[Case]],
    *,
    free: Mapping[str, str] | None = None,
    compiled: bool = False,
    scales: Iterable[float] = (0, 1000),
    one_by_one: float = 0,
    **facts: str | Iterable[str],
) -> None:
    """Raises unless `function` does what the solution of the same name does.

    Args:
        function: what a learner wrote, or a function of the lesson that calls it.
        cases: yields the calls to compare, from a generator of random numbers.
        free: what the exercise leaves open: facts, parted by blanks, and the reason.
        compiled: compare the compiled program, not the traced one.
        scales: one of the cases is tried again with all numbers of its float arrays so
            many times as large, where the solution's result is bounded, and with other
            keys; () where the contract bounds them, or rounding decides too much.
            (Each float that is no array is halved in any case; with scales, also 0.)
        one_by_one: with scales, by what each float array alone is multiplied, or those
            of each argument where there are many; not 0 where gradients at 0 are free.
        facts: for each fact that is compared, the statements that it proves:
            value (structure, shapes, dtypes and numbers), error (its class and what it
            must name), layout (which device holds what), collectives (kinds, how often,
            in a loop or not), sent (bytes that a device sends, at most 2 % more than
            the solution) or in its place put_in (numbers that it puts into
            collectives: a gathering of sums puts in what their sum does, and sends
            more), arrays (the largest in the program, at most 25 % larger),
            compiles (programs that a call compiles whose shapes an earlier call had),
            arguments (unchanged and alive).

    Raises:
        ValueError: a fact is neither compared nor free, or unknown; or the solution
            raises, and what it raises is not compared.
    """
    open_facts = {one for names in free or {} for one in names.split()}
    compared = {"sent" if fact == "put_in" else fact for fact in facts}
    if compared | open_facts != {*FACTS} or open_facts & compared:
        raise ValueError(f"each of {', '.join(FACTS)} is either compared or free")
    facts = {fact: named(names) for fact, names in facts.items()}
    # What a learner has bound to a name may have another one, or none.
    names = [name for name, value in learner.items() if value is function]
    name = getattr(function, "__name__", "")
    name = names[0] if names and name not in names else name
    if name not in solutions:
        raise ValueError(f"the solution of {name} is known to the grader only")
    solution = solutions[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    how = {"traced": not compiled and bool(OF_PROGRAM & {*facts}), "compiled": compiled}
    earlier: set[str] = set()
    returned: list[Case] = []  # where the solution raises nothing
    drawn = sorted(cases(rng), key=lambda one: one.size)
    all_named = tuple(dict.fromkeys(one for names in facts.values() for one in names))
    for case in itertools.chain(drawn, altered(returned, scales, one_by_one)):
        run = current()
        if run and run.is_decided({*all_named, *case.statements}):
            return
        ours = solved(solution, case, how)
        if case.is_altered and not (ours.error is None and is_bounded(ours.value)):
            continue
        if ours.error is not None and "error" not in facts:
            raise ValueError(f"the solution raises {ours.error.text} for {ours.call}")
        first = case.shapes not in earlier
        earlier.add(case.shapes)
        theirs = ways["learner"](function, *case.arguments, axis=case.axis, **how)
        if ours.error is not None:
            # The contract names one of Python's classes, JAX may raise its own.
            kind = next(k for k in ours.error.kinds if hasattr(builtins, k))
            with statement(*(case.statements or facts["error"])):
                expect_error(theirs, kind, case.mentions)
            if "arguments" in facts:
                with statement(*facts["arguments"]):
                    compare_arguments(theirs, ours)
            continue
        if not case.is_altered:
            returned.append(case)
        with statement(*(case.statements or facts.get("value", all_named[:1]))):
            expect_result(theirs)
            if "value" in facts:
                compare_value(theirs, ours, case, solution)
        if theirs.error is not None:
            continue
        for fact, compare in COMPARE.items():
            if fact in facts and not (fact == "compiles" and first):
                with statement(*facts[fact]):
                    compare(theirs, ours)
    with statement(*all_named):
        pass  # a fact that no case of this class has shown, such as an error


def is_bounded(value: Any) -> bool:
    """Tells whether a plain result holds no inf, no nan, and nothing close to inf.

    Close to it, rounding decides which of two right answers is finite.
    """
    floats = (leaf for _, leaf in leaves(value) if is_float(leaf))
    return all(
        (np.abs(np.asarray(leaf, np.float64)) < LARGEST).all() for leaf in floats
    )


def solved(solution: Callable, case: Case, how: Mapping[str, bool]) -> Observation:
    """Observes the solution."""
    run = ways["solution"]
    key = solution, run, case.digest, *how.values()
    if key not in _known:
        _known[key] = run(solution, *case.arguments, axis=case.axis, **how)
    return _known[key]


def near(solution: Callable, case: Case) -> list[dict[str, Any]]:
    """Returns the solution's results where each number of the arguments is rounded."""
    calls = [rounded(case.arguments, sign) for sign in (1, -1)]
    return [dict(leaves(value)) for value in values(solution, calls, case.axis)]


def compare_value(
    theirs: Observation, ours: Observation, case: Case, solution: Callable
) -> None:
    """Compares the result: exactly in form, its numbers within the tolerance.

    What rounding does to the solution is only asked where the numbers differ by more
    than some roundings of the largest.
    """
    form = difference(theirs.value, ours.value, 0, None, theirs.layout)
    if not form and containers(theirs.value) != containers(ours.value):
        was, wanted = containers(theirs.value), containers(ours.value)
        form = Difference("The result has other containers.", was, wanted)
    if form:
        expected = LIKE_OURS if form.is_value else form.expected
        wrong(theirs, form.headline, seen=form.seen, expected=expected)
    mine, others = dict(leaves(theirs.value)), None
    for path, leaf in leaves(ours.value):
        name = f"result{path}" if path else "The result"
        pieces, close = theirs.layout.get(path, ()), (case.rtol or 0, case.atol or 0)
        is_rounded = case.rtol is None and is_float(leaf)
        if is_rounded:
            close = 0, tolerance(leaf, [])
        found = leaf_difference(name, mine[path], leaf, *close, pieces)
        if found and is_rounded:
            others = near(solution, case) if others is None else others
            close = 0, tolerance(leaf, [other.get(path) for other in others])
            found = leaf_difference(name, mine[path], leaf, *close, pieces)
        if found:
            wrong(theirs, found[0], seen=found[1], expected=LIKE_OURS)


def containers(value: Any) -> str:
    """Writes the containers of a result: dicts, lists and tuples, a leaf as a dot."""
    if isinstance(value, Mapping):
        pairs = (f"{key!r}: {containers(value[key])}" for key in sorted(value, key=str))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(containers, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return "."


def is_float(leaf: Any) -> bool:
    """Tells whether a leaf holds numbers that are rounded."""
    is_array = isinstance(leaf, np.ndarray | float)
    return is_array and jax.numpy.issubdtype(np.asarray(leaf).dtype, np.inexact)


def tolerance(leaf: Any, others: list[Any]) -> float:
    """Bounds what rounding alone explains, of any number of an array.

    It is what moving each input by one rounding does to the solution's result, several
    times, and some roundings of the largest number.
    """
    kind = np.complex128 if np.iscomplexobj(leaf) else np.float64
    wide, others = np.asarray(leaf, kind), [np.asarray(one, kind) for one in others]
    with np.errstate(invalid="ignore"):  # inf - inf
        moved = [np.abs(other - wide) for other in others]
    largest = [np.max(one, where=np.isfinite(one), initial=0) for one in moved]
    precision = float(jax.numpy.finfo(np.asarray(leaf).dtype).eps)
    if np.asarray(leaf).dtype == np.float64:
        precision = 2.0**-23  # of what was computed in 32 bits on the way
    finite = np.abs(wide[np.isfinite(wide)])
    return NOISE * max(largest, default=0) + 16 * precision * finite.max(initial=0)


def compare_layout(theirs: Observation, ours: Observation) -> None:
    """Compares which device holds which part of each array."""
    shapes = {path: np.shape(leaf) for path, leaf in leaves(ours.value)}
    for path, wanted in ours.layout.items():
        found = placed(theirs.layout.get(path, ()))
        name = f"result{path}" if path else "the result"
        expect_parts(theirs, name, shapes[path], found, placed(wanted))
    for path in theirs.layout.keys() - ours.layout.keys():
        name = f"result{path}" if path else "The result"
        wrong(theirs, f"{name} is on a device.", expected="a NumPy array on the host")


def compare_collectives(theirs: Observation, ours: Observation) -> None:
    """Compares the kinds of collectives, how often each runs, and whether in a loop."""
    found, wanted = kinds(expect_traced(theirs)), kinds(expect_traced(ours))
    if found != wanted:
        was = "; ".join(map(str, theirs.collectives)) or "no collective"
        expected = ", ".join(
            f"{times or 'some'} x {kind}{', in a loop' if loop else ''}"
            for (kind, loop), times in wanted.items()
        )
        headline = "The program runs other collectives than it should."
        wrong(theirs, headline, seen=was, expected=expected or "no collective")


def kinds(collectives: Iterable[Collective]) -> dict[tuple[str, bool], int | None]:
    """Counts collectives by kind, in loops and outside."""
    found: Counter = Counter()
    for one in collectives:
        key = one.kind, one.in_loop
        unknown = one.times is None or found[key] is None
        found[key] = None if unknown else found[key] + one.times
    return dict(found)


def compare_sent(theirs: Observation, ours: Observation) -> None:
    """Compares the bytes that a device sends."""
    most, moved = (
        math.inf
        if any(one.times is None for one in seen)
        else sum(one.bytes_moved for one in seen)
        for seen in (expect_traced(ours), expect_traced(theirs))
    )
    if moved > SENT * most:
        headline = f"Each device sends {moved:,.0f} bytes."
        if math.isinf(moved):
            headline = "Each device sends an unknown number of bytes."
        was = "; ".join(map(str, theirs.collectives))
        wrong(theirs, headline, seen=was, expected=f"at most {most:,.0f} bytes")


def compare_put_in(theirs: Observation, ours: Observation) -> None:
    """Compares the numbers that a device puts into collectives."""
    most, found = (
        sum(math.prod(one.shape) * (one.times or math.inf) for one in seen)
        for seen in (expect_traced(ours), expect_traced(theirs))
    )
    if found > most:
        headline = f"Each device puts {found:,.0f} numbers into collectives."
        was = "; ".join(map(str, theirs.collectives))
        wrong(theirs, headline, seen=was, expected=f"at most {most:,.0f} numbers")


def compare_arrays(theirs: Observation, ours: Observation) -> None:
    """Compares the largest array that the program builds."""
    expect_traced(theirs)
    largest = max(theirs.array_shapes, key=math.prod, default=())
    most = ARRAYS * max(map(math.prod, ours.array_shapes or ()), default=0)
    if math.prod(largest) > most:
        headline = f"The program builds an array of shape {list(largest)}."
        wrong(
            theirs,
            headline,
            seen=f"{math.prod(largest)} elements",
            expected=f"no array of more than {int(most)} elements",
        )


def compare_compiles(theirs: Observation, ours: Observation) -> None:
    """Compares how many programs a call compiles whose shapes an earlier call had."""
    if theirs.num_compiles > ours.num_compiles:
        many = theirs.num_compiles
        headline = f"The call compiled {many} program{'s' if many > 1 else ''} again."
        expected = "the program that an earlier call with these shapes compiled"
        wrong(theirs, headline, expected=expected)


def compare_arguments(theirs: Observation, ours: Observation) -> None:
    """Compares which arguments are another after the call."""
    for position in theirs.changed:
        if position not in ours.changed:
            headline = f"Argument {position + 1} was changed, donated or deleted."
            wrong(theirs, headline, expected="the caller's arguments stay as they were")


COMPARE = {
    "layout": compare_layout,
    "collectives": compare_collectives,
    "sent": compare_sent,
    "put_in": compare_put_in,
    "arrays": compare_arrays,
    "compiles": compare_compiles,
    "arguments": compare_arguments,
}

"""Compares what a learner's function does with what the solution does, case by case.

Hidden tests alone use it. A check says which statement of the exercise each compared
fact proves; what the exercise leaves open it names with a reason, so that nothing is
demanded by accident and nothing is forgotten.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import linecache
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from .cases import Case, altered, named, rounded
from .check import statement
from .expect import difference, expect_error, expect_result, wrong
from .expect_program import expect_traced
from .observation import Collective, Observation, leaves
from .observe import observe, values

FACTS = (
    *("value", "error", "layout", "collectives", "sent"),
    *("arrays", "compiles", "arguments"),
)
OF_PROGRAM = {"collectives", "sent", "put_in", "arrays"}
SENT, ARRAYS = 1.02, 1.25  # how much more than the solution is still like it
LARGEST = 1e30  # of what an altered case gives
NOISE = 8  # times what rounding the inputs does to the solution's result
SOLVED = "### BEGIN SOLUTION"
solutions: dict[str, Callable] = {}  # by name; a judge and the tests fill it
learner: Mapping[str, Any] = {}  # what their names mean; the tests fill it
ways = {"learner": observe, "solution": observe}  # how both are observed
seed = 0  # of the generated cases
_known: dict[tuple, Any] = {}  # what the solution does in each case


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
    # A learner's partial or callable object does not know its name.
    names = (name for name, value in learner.items() if value is function)
    name = getattr(function, "__name__", None) or next(names)
    solution = solution_of(function, name)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    how = {"traced": not compiled and bool(OF_PROGRAM & {*facts}), "compiled": compiled}
    earlier: set[str] = set()
    returned: list[Case] = []  # where the solution raises nothing
    drawn = sorted(cases(rng), key=lambda one: one.size)
    for case in itertools.chain(drawn, altered(returned, scales, one_by_one)):
        ours, near = solved(solution, case, how, bounded=function is not solution)
        if case.is_altered and not (ours.error is None and is_bounded(ours.value)):
            continue
        if ours.error is not None and "error" not in facts:
            raise ValueError(f"the solution raises {ours.error.text} for {ours.call}")
        first = case.shapes not in earlier
        earlier.add(case.shapes)
        theirs = ours
        if function is not solution:  # as it is in a solved notebook
            theirs = ways["learner"](function, *case.arguments, axis=case.axis, **how)
        if ours.error is not None:
            statement(*(case.statements or facts["error"]))
            # The contract names one of Python's classes, JAX may raise its own.
            kind = next(k for k in ours.error.kinds if hasattr(builtins, k))
            expect_error(theirs, kind, case.mentions)
            if "arguments" in facts:
                statement(*facts["arguments"])
                compare_arguments(theirs, ours)
            continue
        if not case.is_altered:
            returned.append(case)
        statement(*(case.statements or facts.get("value", ())))
        expect_result(theirs)
        if "value" in facts:
            compare_value(theirs, ours, case, near)
        for fact, compare in COMPARE.items():
            if fact in facts and not (fact == "compiles" and first):
                statement(*facts[fact])
                compare(theirs, ours)
    statement(*dict.fromkeys(one for names in facts.values() for one in names))


def is_bounded(value: Any) -> bool:
    """Tells whether a plain result holds no inf, no nan, and nothing close to inf.

    Close to it, rounding decides which of two right answers is finite.
    """
    floats = (leaf for _, leaf in leaves(value) if is_float(leaf))
    return all(
        (np.abs(np.asarray(leaf, np.float64)) < LARGEST).all() for leaf in floats
    )


def solution_of(function: Callable, name: str) -> Callable:
    """Finds the solution of a name.

    In a solved notebook it is the function itself, or what a function of the lesson
    calls.

    Raises:
        ValueError: it is not here.
    """
    if name in solutions:
        return solutions[name]
    todo, known = [function], []
    while todo:
        one = inspect.unwrap(todo.pop())
        code, names = getattr(one, "__code__", None), getattr(one, "__globals__", {})
        if code is None or one in known:
            continue
        known.append(one)
        if any(SOLVED in line for line in linecache.getlines(code.co_filename)):
            return function
        inside = [part for part in code.co_consts if hasattr(part, "co_names")]
        called = {name for part in (code, *inside) for name in part.co_names}
        todo += [names[name] for name in called if is_of(names.get(name), names)]
    raise ValueError(f"the solution of {name} is known to the grader only")


def is_of(value: Any, notebook: Mapping[str, Any]) -> bool:
    """Tells whether a value is a function that a notebook's cells define."""
    return getattr(inspect.unwrap(value), "__globals__", None) is notebook


def solved(
    solution: Callable, case: Case, how: Mapping[str, bool], bounded: bool
) -> tuple[Observation, Any]:
    """Observes the solution: what it does and, if `bounded`, what rounding changes."""
    run = ways["solution"]
    key = solution, run, case.digest, bounded, *how.values()
    if key not in _known:
        ours, near = run(solution, *case.arguments, axis=case.axis, **how), []
        if bounded and ours.error is None and case.rtol is None:
            calls = [rounded(case.arguments, sign) for sign in (1, -1)]
            near = values(solution, calls, case.axis)
        _known[key] = ours, near
    return _known[key]


def solved_cases() -> dict[tuple, Any]:
    """Returns what the solutions do in each case, by name, for another process."""
    names = {function: name for name, function in solutions.items()}
    return {
        (names[solution], *rest): found
        for (solution, run, *rest), found in _known.items()
        if solution in names and run is ways["solution"]
    }


def take_solved_cases(found: Mapping[tuple, Any]) -> None:
    """Believes what `solved_cases` returned in another process."""
    for (name, *rest), known in found.items():
        _known[solutions[name], ways["solution"], *rest] = known


def compare_value(
    theirs: Observation, ours: Observation, case: Case, near: list[Any]
) -> None:
    """Compares the result: exactly in form, its numbers within the tolerance."""
    form = difference(theirs.value, ours.value, 0, None, theirs.layout)
    if not form and containers(theirs.value) != containers(ours.value):
        was, wanted = containers(theirs.value), containers(ours.value)
        form = "The result has other containers.", was, wanted
    if form:
        is_value = form[0].endswith("another value.")  # which hidden cases do not show
        wrong(theirs, form[0], seen=form[1], expected="" if is_value else form[2])
    others = [dict(leaves(value)) for value in near]
    mine = dict(leaves(theirs.value))
    for path, leaf in leaves(ours.value):
        rtol, atol = case.rtol or 0, case.atol or 0
        if case.rtol is None and is_float(leaf):
            rtol, atol = 0, tolerance(leaf, [other.get(path) for other in others])
        part = {path: mine[path]}, {path: leaf}
        layout = {f'["{path}"]': theirs.layout.get(path, ())}
        found = difference(*part, rtol, atol, layout)
        if found:
            headline = found[0].replace(f'["{path}"]', path or "The result")
            wrong(theirs, headline, seen=found[1], seed=seed)


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


def tolerance(leaf: Any, near: list[Any]) -> float:
    """Bounds what rounding alone explains, of any number of an array.

    It is what moving each input by one rounding does to the solution's result, several
    times, and some roundings of the largest number.
    """
    kind = np.complex128 if np.iscomplexobj(leaf) else np.float64
    wide, others = np.asarray(leaf, kind), [np.asarray(one, kind) for one in near]
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
    for path, wanted in ours.layout.items():
        name, pieces = path or "the result", theirs.layout.get(path, ())
        found = {piece.device: piece.index for piece in pieces}
        expected = {piece.device: piece.index for piece in wanted}
        for device in sorted({*found, *expected}):
            if found.get(device) != expected.get(device):
                was = part(found.get(device))
                headline = f"Device {device} holds {was} of {name}."
                wrong(theirs, headline, expected=part(expected.get(device)))
    for path in theirs.layout.keys() - ours.layout.keys():
        headline = f"{path or 'The result'} lies on devices."
        wrong(theirs, headline, expected="an array of the host")


def part(index: tuple | None) -> str:
    """Writes a device's part of an array."""
    if index is None:
        return "nothing"
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in index) + "]"


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

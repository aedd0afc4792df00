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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .context import current_context
from .expect import (
    Difference,
    cause_of_nan_and_inf,
    difference,
    expect,
    expect_error,
    expect_result,
    leaf_difference,
    wrong,
)
from .expect_program import (
    expect_arrays,
    expect_collectives,
    expect_kept_program,
    expect_moved,
    expect_own_rows,
    expect_parts,
    expect_traced,
    placed,
)
from .hidden_cases import Case, altered, named, rounded
from .observation import Observation, leaves, same
from .observe import observe
from .outcomes import Wrong, current, statement
from .traced_program import added

OF_PROGRAM = {"collectives", "sent", "put_in", "arrays", "own_rows"}
# An answer may send, build and compute at most so many times what the solution does.
SENT, ARRAYS, FLOPS = 1.02, 1.25, 1.5
SHARE = 4  # times its FLOPs on a device of eight: all rows on each would take 8
LARGEST = 1e30  # of what an altered case gives
LIKE_SOLUTION = "what the solution gives here, up to rounding"  # values stay hidden
NOISE = 8  # times what rounding the inputs does to the solution's result
PATTERNS = 6  # in which each input is rounded up or down: of one, effects may cancel


def __getattr__(name: str) -> Any:
    if name == "seed":  # by which a lesson's check draws cases of its own
        return current_context().seed
    raise AttributeError(name)


def expect_like_solution(
    function: Callable,
    cases: Callable[[np.random.Generator], Iterable[Case]],
    *,
    free: Mapping[str, str] | None = None,
    compiled: bool = False,
    scales: Iterable[float] = (0, 1000),
    one_by_one: float = 0,
    **facts: str | Iterable[str] | Mapping[str, str],
) -> None:
    """Raises unless `function` does what the solution of the same name does.

    Example: `expect_like_solution(double, cases, value="twice", free=FREE)`

    Args:
        function: what a learner wrote, or a function of the lesson that calls it.
        cases: yields the calls to compare, from a generator of random numbers.
        free: what the exercise leaves open: facts, separated by spaces, and the reason.
        compiled: compare the compiled program, not the traced one.
        scales: one case is tried again with all its float arrays multiplied by each of
            these, where the solution's result is bounded, and with other keys; () where
            the contract bounds the numbers, or rounding decides too much. (Each float
            that is not an array is always halved; with scales, it is also set to 0.)
        one_by_one: with scales, what each float array alone is multiplied by, or those
            of each argument where there are many; not 0 where gradients at 0 are free.
        facts: for each fact that is compared, the statements that it proves:
            value (structure, shapes, dtypes and numbers), error (its class and what it
            must name), layout (which device holds what), collectives (kinds, how often,
            in a loop or not), sent (bytes that a device sends, at most 2 % more than
            the solution) or instead put_in (numbers that it puts into collectives: an
            all-gather of sums puts in as many as an all-reduce, and sends more), arrays
            (the largest in the program, at most 25 % larger), flops (of one device in
            the compiled program, at most half as many again), own_rows (each device
            works on its own rows of what the solution splits), compiles (programs that
            a call compiles although an earlier call had its shapes), arguments (neither
            changed nor deleted), memory (no result is that of an earlier call with
            other numbers). Where parts of a value prove different statements, it is a
            dict of them by the path of the part, such as "[0]".

    Raises:
        ValueError: a fact is neither compared nor free, or unknown; or the solution
            raises, and what it raises is not compared.
    """
    open_facts = {name for names in free or {} for name in names.split()}
    compared = {"sent" if fact == "put_in" else fact for fact in facts} - OPTIONAL
    if compared | open_facts != {*FACTS} or open_facts & compared:
        raise ValueError(f"each of {', '.join(FACTS)} is either compared or free")
    comparison = Comparison(function, facts, compiled)
    seed = current_context().seed, zlib.crc32(comparison.name.encode())
    drawn = cases(np.random.default_rng(seed))
    for case in comparison.in_order(drawn, scales, one_by_one):
        comparison.compare(case)
    with statement(*comparison.all_named):
        pass  # a fact that no case of this class has shown, such as an error


def expect_own_share(function: Callable, *arguments: Any) -> None:
    """Raises unless each of eight devices computes its own share, or little more.

    Whichever way a device has got the rows of others, its FLOPs tell.

    Example: `expect_own_share(train_step, copies(params, 8), x, y, 0.1)`
    """
    case, how = Case(*arguments), {"compiled": True}
    solved = observed_solution(name_of(function), case, how)
    watch = current_context().observe_learner or observe
    compare_flops(watch(function, *case.arguments, **how), solved, SHARE)


class Comparison:
    """A function's calls beside those of its solution; see `expect_like_solution`."""

    def __init__(self, function: Callable, facts: dict[str, Any], compiled: bool):
        self.function, self.compiled = function, compiled
        self.name = name_of(function)
        parts = facts.pop("value", {})
        self.parts = parts if isinstance(parts, Mapping) else {"": parts}
        proven = [*map(named, self.parts.values()), *map(named, facts.values())]
        self.all_named = tuple(dict.fromkeys(itertools.chain(*proven)))
        self.facts = {fact: named(names) for fact, names in facts.items()}
        self.returned: list[Case] = []  # where the solution raises nothing
        # By the shapes of the calls so far: right results, each with the solution's.
        self.results: dict[str, list[tuple]] = {}

    def is_side(self, case: Case) -> bool:
        essential = {*current().essential} if current() else set()
        return essential.isdisjoint(case.statements or self.all_named)

    def in_order(
        self, drawn: Iterable[Case], scales: Iterable[float], one_by_one: float
    ) -> Iterator[Case]:
        """Yields cases, then altered ones: first what the exercise is about.

        A side statement is about right answers.
        """
        yield from sorted(drawn, key=lambda case: (self.is_side(case), case.size))
        about = [case for case in self.returned if not self.is_side(case)]
        yield from altered(about or self.returned, scales, one_by_one)

    def compare(self, case: Case) -> None:
        """Compares one call, unless nothing is left that it could decide."""
        run, shapes = current(), case.shapes
        if run and run.is_decided({*self.all_named, *case.statements}):
            return
        is_new = shapes not in self.results
        of_program = OF_PROGRAM & {*self.facts}
        # Only a call, not a trace, may show a result that was kept for these shapes.
        is_known = of_program == {"own_rows"} and not is_new
        traced = bool(of_program) and not (self.compiled or is_known)
        how = {"traced": traced, "compiled": self.compiled}
        solved = observed_solution(self.name, case, how)
        if case.is_altered and not (solved.error is None and is_bounded(solved.value)):
            return
        if solved.error is not None and "error" not in self.facts:
            text = f"the solution raises {solved.error.text} for {solved.call}"
            raise ValueError(text)
        watch = current_context().observe_learner or observe
        seen = watch(self.function, *case.arguments, axis=case.axis, **how)
        self.results.setdefault(shapes, [])
        comparable = {*self.facts} - {"own_rows" if is_known else ""}
        comparable -= {"compiles"} if is_new else set()
        if solved.error is not None:
            self.compare_error(seen, solved, case)
            comparable &= {"arguments"}
        else:
            self.compare_result(seen, solved, case)
            comparable -= set() if seen.error is None else {*COMPARE}
        for fact in [fact for fact in COMPARE if fact in comparable]:
            with statement(*self.facts[fact]):
                COMPARE[fact](seen, solved)

    def compare_error(self, seen: Observation, solved: Observation, case: Case) -> None:
        """Demands the error's class: one of Python's, where JAX may raise its own."""
        kind = next(k for k in solved.error.kinds if hasattr(builtins, k))
        with statement(*(case.statements or self.facts["error"])):
            expect_error(seen, kind, case.mentions)

    def compare_result(
        self, seen: Observation, solved: Observation, case: Case
    ) -> None:
        """Compares each part of a result, and the whole with earlier ones."""
        if not case.is_altered:
            self.returned.append(case)
        alike = self.results[case.shapes]
        if "memory" in self.facts and any(
            same(seen.value, was) and not same(solved.value, wanted)
            for wanted, was in alike
        ):
            with statement(*self.facts["memory"]):
                compare_memory(seen, solved, case, self.name)
        for part, names in (self.parts or {"": self.all_named[:1]}).items():
            with statement(*(case.statements or named(names))):
                expect_result(seen)
                if self.parts:
                    compare_value(seen, solved, case, self.name, part)
                alike.append((solved.value, seen.value))


def name_of(function: Callable) -> str:
    """Returns the name by which the solution of a function is known.

    What a learner has bound to a name may have another one, or none.

    Raises:
        ValueError: there is no solution.
    """
    context = current_context()
    names = [name for name, value in context.functions.items() if value is function]
    name = getattr(function, "__name__", "")
    name = names[0] if names and name not in names else name
    if name not in context.solutions:
        raise ValueError(f"the solution of {name} is known to the grader only")
    return name


def observed_solution(name: str, case: Case, how: Mapping[str, bool]) -> Observation:
    context = current_context()
    key = name, case.digest, *how.items()
    if key not in context.known:
        watch, solution = context.observe_solution or observe, context.solutions[name]
        context.known[key] = watch(solution, *case.arguments, axis=case.axis, **how)
    return context.known[key]


def rounded_results(name: str, case: Case) -> list[dict[str, Any]]:
    """Returns the solution's results where each number of the arguments is rounded."""
    moved = (rounded(case.arguments, pattern) for pattern in range(PATTERNS))
    results = [
        observed_solution(name, case.altered(arguments), {}) for arguments in moved
    ]
    return [dict(leaves(result.value)) for result in results]


def is_bounded(value: Any) -> bool:
    """Tells whether a plain result holds no inf, no nan, and nothing close to inf.

    Close to it, rounding decides which of two right answers is finite.
    """
    floats = (leaf for _, leaf in leaves(value) if is_float(leaf))
    return all(
        (np.abs(np.asarray(leaf, np.float64)) < LARGEST).all() for leaf in floats
    )


def compare_value(
    seen: Observation, solved: Observation, case: Case, name: str, part: str
) -> None:
    """Compares a part of the result: exactly in form, its numbers within the tolerance.

    What rounding does to the solution is measured only where the numbers differ by more
    than some roundings of the largest.
    """
    form = difference(seen.value, solved.value, 0, None, seen.layout, part)
    was, wanted = containers(seen.value), containers(solved.value)
    if form is None and was != wanted:
        form = Difference("The result has other containers.", was, wanted)
    if form:
        expected = LIKE_SOLUTION if form.is_value else form.expected
        wrong(seen, form.headline, seen=form.seen, expected=expected)
    found, moved = dict(leaves(seen.value)), None
    for path, leaf in leaves(solved.value):
        if not path.startswith(part):
            continue

        def differs(atol, path=path, leaf=leaf):
            name = f"result{path}" if path else "The result"
            close = case.rtol or 0, atol
            pieces = seen.layout.get(path, ())
            return leaf_difference(name, found[path], leaf, *close, pieces)

        atol = case.atol or 0
        if case.rtol is not None or not is_float(leaf):
            problem = differs(atol)
        elif problem := differs(atol + tolerance(leaf, [])):
            moved = moved or rounded_results(name, case)
            others = [result.get(path) for result in moved]
            problem = differs(atol + tolerance(leaf, others))
        if problem:
            general = cause_of_nan_and_inf(seen.value, solved.value)
            rows = {"seen": problem[1], "expected": LIKE_SOLUTION}
            wrong(seen, problem[0], general=general, **rows)


def compare_memory(*compared: Any) -> None:
    """Says of a result that equals an earlier one, and is wrong, that it was kept."""
    try:
        compare_value(*compared, part="")
    except Wrong:
        headline = "The result is that of an earlier call."
        wrong(compared[0], headline, expected="that of this call's arguments")


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
    """Bounds what rounding alone explains, for each number of an array.

    It is some roundings of the largest number, and several times what moving each input
    by one rounding does to the solution's result.
    """
    kind = np.complex128 if np.iscomplexobj(leaf) else np.float64
    wide, others = (
        np.asarray(leaf, kind),
        [np.asarray(change, kind) for change in others],
    )
    with np.errstate(invalid="ignore"):  # inf - inf
        moved = [np.abs(other - wide) for other in others]
    largest = [np.max(change, where=np.isfinite(change), initial=0) for change in moved]
    precision = float(jax.numpy.finfo(np.asarray(leaf).dtype).eps)
    if np.asarray(leaf).dtype == np.float64:
        precision = 2.0**-23  # of what was computed in 32 bits on the way
    finite = np.abs(wide[np.isfinite(wide)])
    return NOISE * max(largest, default=0) + 16 * precision * finite.max(initial=0)


def compare_layout(seen: Observation, solved: Observation) -> None:
    shapes = {path: np.shape(leaf) for path, leaf in leaves(solved.value)}
    for path, wanted in solved.layout.items():
        found = placed(seen.layout.get(path, ()))
        name = f"result{path}" if path else "the result"
        expect_parts(seen, name, shapes[path], found, placed(wanted))
    for path in seen.layout.keys() - solved.layout.keys():
        name = f"result{path}" if path else "The result"
        wrong(seen, f"{name} is on a device.", expected="a NumPy array on the host")


def compare_own_rows(seen: Observation, solved: Observation) -> None:
    """Demands that what the solution splits before it uses it is split so.

    Where the solution sends nothing, no row of another device may arrive, either.
    """
    if all(len(pieces) < 2 for pieces in solved.layout.values()):
        return
    expect_traced(seen)
    if not solved.collectives:
        expect_collectives(seen, {})
    for place, use in enumerate(solved.whole_inputs):
        if not use and place < len(seen.whole_inputs):
            expect_own_rows(seen, place)


def compare_collectives(seen: Observation, solved: Observation) -> None:
    """Compares the kinds of collectives, how often each runs, and whether in a loop."""
    found, wanted = {}, {}
    for counts, program in ((found, seen), (wanted, solved)):
        for collective in expect_traced(program):
            key = collective.kind, collective.in_loop
            counts[key] = added(counts.get(key, 0), collective.times)
    if found != wanted:
        was = "; ".join(map(str, seen.collectives)) or "no collective"
        expected = ", ".join(
            f"{times or 'some'} x {kind}{', in a loop' if loop else ''}"
            for (kind, loop), times in wanted.items()
        )
        headline = "The program runs other collectives than it should."
        wrong(seen, headline, seen=was, expected=expected or "no collective")


def compare_sent(seen: Observation, solved: Observation) -> None:
    if all(collective.times is not None for collective in expect_traced(solved)):
        most = sum(collective.bytes_moved for collective in solved.collectives)
        expect_moved(seen, at_most=SENT * most)


def compare_put_in(seen: Observation, solved: Observation) -> None:
    """Compares the numbers that a device puts into collectives."""
    most, sent = (
        sum(collective.numbers for collective in collectives)
        for collectives in (expect_traced(solved), expect_traced(seen))
    )
    if sent > most:
        headline = f"Each device puts {sent:,.0f} numbers into collectives."
        was = "; ".join(map(str, seen.collectives))
        wrong(seen, headline, seen=was, expected=f"at most {most:,.0f} numbers")


def compare_arrays(seen: Observation, solved: Observation) -> None:
    most = max(map(math.prod, solved.array_shapes or ()), default=0)
    expect_arrays(seen, largest=int(ARRAYS * most))


def compare_flops(seen: Observation, solved: Observation, times: float = FLOPS) -> None:
    """Compares what a device computes: it shows whose part of the work it does."""
    expect_traced(seen)
    headline = f"A device computes {seen.flops:,.0f} floating-point operations."
    rows = {"expected": f"about {solved.flops:,.0f} floating-point operations"}
    expect(seen, seen.flops <= times * solved.flops, headline, **rows)


def compare_arguments(seen: Observation, solved: Observation) -> None:
    for position in seen.changed:
        if position not in solved.changed:
            headline = f"Argument {position + 1} was changed, donated or deleted."
            wrong(seen, headline, expected="the caller's arguments stay as they were")


COMPARE = {
    "layout": compare_layout,
    "own_rows": compare_own_rows,
    "collectives": compare_collectives,
    "sent": compare_sent,
    "put_in": compare_put_in,
    "arrays": compare_arrays,
    "flops": compare_flops,
    "compiles": lambda seen, solved: expect_kept_program(seen, solved.num_compiles),
    "arguments": compare_arguments,
}
OPTIONAL = {"put_in", "own_rows", "flops", "memory"}
FACTS = ("value", "error", *(fact for fact in COMPARE if fact not in OPTIONAL))

"""Checks observations and says what is wrong in terms of devices and shapes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from .context import current_context
from .i18n import plural
from .observation import Observation, Opaque, describe, leaves, plain, ranges, same
from .outcomes import NOT_WRITTEN, NotAttempted, Raised, Wrong
from .processes import count_devices

MAX_NUMBERS = 30  # that an error's text may name
CAUSES = (  # what errors of Python's and JAX's mean in a lesson
    (
        r"Sharding passed to jit does not match .*_internal_pmap",
        "an array is not sharded over the devices as pmap splits it; a replicated one"
        " takes in_axes=None",
    ),
    (
        r"Received incompatible devices",
        "the arrays of one program are on different sets of devices",
    ),
    (
        r"_internal_pmap|pmap was requested to map|pmap got inconsistent sizes"
        r"|select an axis to squeeze out"
        r"|flat_args\[\d+\] is incompatible .* rank at least",
        "pmap looked for a device axis in an argument that has none, or another one;"
        " in_axes=None replicates an argument",
    ),
    (
        r"unbound axis name",
        "a collective names an axis that is not bound: use the argument axis_name, or"
        " the name that pmap was given",
    ),
    (
        r"context mesh .* should match the mesh",
        "it maps over another mesh than the one that is in use where it is called: that"
        " of a check that maps it already, or of set_mesh",
    ),
    (
        r"NonConcreteBooleanIndex|boolean indices must be concrete",
        "in traced code the size of an array cannot depend on values: jnp.where(mask,"
        " x, 0) in place of x[mask]",
    ),
    (
        r"TracerBoolConversion|boolean conversion of traced",
        "in traced code `if` cannot depend on a value: jnp.where chooses there",
    ),
    (
        r"must have __hash__",
        "the pairs of ppermute hold traced values: they must be plain numbers, in the"
        " same list on every device",
    ),
    (
        r"TracerArrayConversion|__array__\(\) method was called on traced",
        "a NumPy function inside traced code: use jnp there",
    ),
    (
        r"ConcretizationTypeError|TracerIntegerConversion",
        "traced code has no numbers yet, so int() and float() find none: compute with"
        " the value as it is",
    ),
    (
        r"Differentiation rule for 'pm(ax|in)'",
        "pmax and pmin have no derivative: put lax.stop_gradient around what goes in",
    ),
    (
        r"only defined for scalar-output",
        "only a single number can be differentiated: is a sum or a mean missing?",
    ),
    (
        r"(?s)carry input and carry output.*(varying|pcast|\{V:)",
        "shard_map tracks what differs between devices, and what the loop starts with"
        " does not yet: check_vma=False, or jax.lax.pcast",
    ),
    (
        r"body function carry input and carry output",
        "a loop carries on what its first round got, and this round returned something"
        " else: another order, shape, dtype or layout?",
    ),
    (
        r"require replication which can't be statically inferred",
        "out_specs say that the result is the same on all devices, but it differs:"
        " pmean it, and the loss inside what you differentiate",
    ),
    (
        r"does not match the specs of the input",
        "jax.make_mesh made explicit axes, its default in newer versions: use"
        " Mesh(devices, names), or axis_types=(AxisType.Auto,)",
    ),
    (
        r"contracting dimensions to have the same shape, got .*\(1,\)",
        "an axis of length 1 is left over: the blocks of shard_map keep their leading"
        " axis",
    ),
    (
        r"scatter dimension size \d+ must match shard count",
        "without tiled=True, psum_scatter takes an axis with one entry for each device,"
        " and drops it",
    ),
    (
        r"pytree structure error.*\bout_shardings",
        "out_shardings need the structure of what the function returns: a tuple of two"
        " for two results",
    ),
    (
        r"_specs entry which is too long",
        "a spec names more axes than its array has: P() for a single number",
    ),
)
NAN_CAUSE = (
    "nan comes from 0 / 0, inf - inf or 0 * inf, or from the root or logarithm of a"
    " negative number"
)
INF_CAUSE = (
    "inf comes from a division by 0, or from a number that is too large for its dtype"
)
__all__ = [
    "expect",
    "expect_child_devices",
    "expect_close",
    "expect_entries",
    "expect_error",
    "expect_result",
    "expect_shapes",
    "expect_unchanged",
]


# A cause that a learner may be shown, and the test that an observation shows it.
Causes = Mapping[str, Callable[[Observation], Any]]


def expect(
    seen: Observation,
    holds: Any,
    headline: str,
    /,
    *,
    causes: Causes | None = None,
    **rows: Any,
) -> None:
    """Raises `Wrong(headline)` unless `holds` is true.

    Example: `expect(seen, not seen.layout, "The result is on a device.")`

    Args:
        seen: an observation, of a call that must have returned.
        holds: what must be true.
        headline: what is wrong otherwise, in a sentence.
        causes: likely causes; the first whose test is true of `seen` is shown.
        rows: what else is shown: seen, expected.
    """
    expect_result(seen)
    if not holds:
        wrong(seen, headline, causes=causes, **rows)


def expect_result(seen: Observation) -> None:
    """Raises unless the call returned: `NotAttempted` for a stub, else `Raised`."""
    if seen.error is None:
        return
    _expect_attempt(seen)
    error = seen.error
    raise Raised(
        error.text,
        seen_in=seen,
        likely=explained(f"{error.kinds[0]}: {error.message}"),
        called=seen.call,
        where="\n".join(error.trace),
    )


def explained(said: str) -> str:
    causes = (cause for pattern, cause in CAUSES if re.search(pattern, said, re.DOTALL))
    return next(causes, "")


def expect_error(
    seen: Observation,
    kind: str,
    mentions: Sequence[Any] = (),
    *,
    causes: Causes | None = None,
) -> None:
    """Raises unless the call raised `kind` and its text names all of `mentions`.

    Example: `expect_error(observe(shard_batch, rows, 3), "ValueError", [len(rows), 3])`

    A text that names more than `MAX_NUMBERS` different numbers names none.
    """
    if not isinstance(kind, str):
        raise TypeError(
            'expect_error takes the name of one kind of error, such as "ValueError", '
            f"not {kind!r}."
        )
    _expect_attempt(seen)
    expected = kind
    if mentions:
        expected = f"{kind} whose text names {' and '.join(map(str, mentions))}"
    shown = {"expected": expected, "causes": causes}
    if seen.error is None:
        was = describe(seen.value)
        wrong(seen, f"No {kind} was raised.", seen=f"returned {was}", **shown)
    shown["seen"] = seen.error.text
    if kind not in seen.error.kinds:
        headline = f"{seen.error.kinds[0]} was raised where {kind} was expected."
        wrong(seen, headline, **shown)
    for value in mentions:
        pattern = rf"(?<![\w.]){re.escape(str(value))}(?!\w|\.\d)"
        if not re.search(pattern, seen.error.message):
            wrong(seen, f"The {kind} does not name {value}.", **shown)
    numbers = len({*re.findall(r"\d+", seen.error.message)})
    if mentions and numbers > MAX_NUMBERS:
        wrong(seen, f"The {kind} names {numbers} different numbers.", **shown)


def expect_unchanged(seen: Observation) -> None:
    """Raises `Wrong` where the call modified one of its arguments in place."""
    expect_result(seen)
    for position in seen.changed:
        headline = f"Argument {position + 1} was modified in place."
        wrong(seen, headline, expected="a new object; the caller's stays as it was")


def expect_entries(seen: Observation, entries: Mapping[str, Any]) -> None:
    """Raises `Wrong` unless the result is a dict that holds all of `entries`.

    Example: `expect_entries(observe(launch_env, env, 8), {"HOME": "/home/ada"})`
    """
    headline = f"The result is {describe(seen.value)}, not a dict."
    expect(seen, isinstance(seen.value, dict), headline, expected="a dict")
    for key, wanted in entries.items():
        headline = f'The result has no entry "{key}".'
        expect(seen, key in seen.value, headline, expected=describe(wanted))
        was = seen.value[key]
        rows = {"seen": describe(was), "expected": describe(wanted)}
        headline = f'result["{key}"] differs from what is expected.'
        expect(seen, same(plain(wanted), was), headline, **rows)


def expect_child_devices(seen: Observation, num_devices: int) -> None:
    """Raises unless a process in the returned environment sees `num_devices`."""
    expect_entries(seen, {})
    count = (current_context().count_devices or count_devices)(seen.value)
    headline = f"A fresh process saw {count} device{plural(count)}."
    if isinstance(count, str):
        headline = "JAX did not start in a fresh process with this environment."
    flags = f'XLA_FLAGS="{seen.value.get("XLA_FLAGS", "")}"'
    flags += f"; it said: {count}" if isinstance(count, str) else ""
    rows = {"seen": flags, "expected": f"{num_devices} devices"}
    expect(seen, count == num_devices, headline, **rows)


def expect_shapes(seen: Observation, expected: Any, part: str = "") -> None:
    """Compares the result's structure, shapes and dtypes, not its values.

    Example: `expect_shapes(seen, {"w": np.zeros((8, 64), np.float32)})`
    """
    expect_result(seen)
    problem = difference(seen.value, plain(expected), 0, None, seen.layout, part)
    if problem:
        wrong(seen, problem.headline, seen=problem.seen, expected=problem.expected)


def expect_close(
    seen: Observation,
    expected: Any,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    part: str = "",
    mistakes: Mapping[str, Any] | None = None,
    causes: Causes | None = None,
) -> None:
    """Compares the result with `expected`: structure, shapes, dtypes, values.

    Example: `expect_close(seen, x.mean(0), mistakes={"a sum, not a mean": x.sum(0)})`

    Only the leaves below `part` count, a path such as "[0]". A float64 leaf of
    `expected` is a reference for any floating dtype; other dtypes must agree.
    `mistakes` maps a likely cause to the value that it leads to: the cause that matches
    the result is shown. For `causes` see `expect`.
    """
    expect_result(seen)
    expected = plain(expected)
    compared = seen.value, expected
    form = difference(*compared, 0, None, seen.layout, part)
    problem = form or difference(*compared, rtol, atol, seen.layout, part)
    if problem is None:
        return
    likely = ""
    for cause, value in (mistakes or {}).items():
        if difference(seen.value, plain(value), rtol, atol, {}) is None:
            likely = cause
    rows = {"seen": problem.seen, "expected": problem.expected, "likely": likely}
    if not form:  # what these look at are values
        rows["general"] = cause_of_nan_and_inf(seen.value, expected)
        rows["causes"] = causes
    wrong(seen, problem.headline, **rows)


def cause_of_nan_and_inf(value: Any, expected: Any) -> str:
    """Explains a nan or inf that `expected` lacks; "" if there is none."""

    def holds(test: Callable, tree: Any) -> bool:
        return any(
            test(leaf).any()
            for _, leaf in leaves(tree)
            if np.asarray(leaf).dtype.kind in "fc"
        )

    if holds(np.isnan, value) and not holds(np.isnan, expected):
        return NAN_CAUSE
    is_new = holds(np.isinf, value) and not holds(np.isinf, expected)
    return INF_CAUSE if is_new else ""


def _expect_attempt(seen: Observation) -> None:
    error = seen.error
    is_stub = error and error.kinds[0] == "NotImplementedError"
    if is_stub and error.message == NOT_WRITTEN:
        raise NotAttempted(
            f"{error.function or seen.function} still holds its stub.",
            likely="replace its last line by your answer, run the cell, then this one.",
        )


def wrong(
    seen: Observation,
    headline: str,
    /,
    *,
    causes: Causes | None = None,
    general: str = "",
    layouts: tuple | None = None,
    **rows: Any,
) -> NoReturn:
    """Raises `Wrong`, with the call and the cause that it shows, or a `general` one."""
    for text, shows in (causes or {}).items():
        with contextlib.suppress(Exception):  # a result that the test does not fit
            if not rows.get("likely") and shows(seen):
                rows["likely"] = text
    rows["likely"] = rows.get("likely") or general
    raise Wrong(headline, seen_in=seen, layouts=layouts, called=seen.call, **rows)


class Difference(NamedTuple):
    """The first difference of two plain values, in words.

    Attributes:
        headline: what differs.
        seen, expected: the two values there.
        is_value: whether `expected` is a value, not a form.
    """

    headline: str
    seen: str
    expected: str
    is_value: bool = False


def difference(
    value: Any,
    expected: Any,
    rtol: float,
    atol: float | None,
    layout: Mapping,
    part: str = "",
) -> Difference | None:
    """Finds the first difference of two plain values, in the leaves below a path.

    Without `atol` only structure, shapes and dtypes count.
    """
    # A float64 reference stands for f32, the dtype that JAX computes in.
    whole = describe(value), describe(expected).replace("f64[", "f32[")
    if value is None and expected is not None:
        return Difference("The function returned None: is a return missing?", *whole)
    found, wanted = dict(leaves(value)), dict(leaves(expected))
    if found.keys() != wanted.keys():
        return Difference("The result has another structure.", *whole)
    for path, leaf in wanted.items():
        if not path.startswith(part):
            continue
        name = f"result{path}" if path else "The result"
        pieces = layout.get(path, ())
        if said := leaf_difference(name, found[path], leaf, rtol, atol, pieces):
            headline, *rest = said
            return Difference(headline, *(rest or whole))
    return None


def leaf_difference(
    name: str,
    was: Any,
    wanted: Any,
    rtol: float,
    atol: float | None,
    pieces: Sequence,
) -> tuple | None:
    """Finds how the leaf `name` differs: a headline, then what `Difference` holds."""
    if isinstance(was, Opaque) or (was is None and wanted is not None):
        return (f"{name} is {describe(was)}, not {describe(wanted)}.",)
    if isinstance(wanted, str) or not isinstance(was, np.ndarray | int | float):
        if np.ndarray in (type(was), type(wanted)) or was != wanted:
            headline = f"{name} differs from what is expected."
            return headline, describe(was), describe(wanted), True
        return None
    if np.shape(was) != np.shape(wanted):
        shapes = f"{list(np.shape(was))}, not {list(np.shape(wanted))}"
        return (f"{name} has shape {shapes}.",)
    a, b = np.asarray(was), np.asarray(wanted)
    is_reference = b.dtype == np.float64  # which stands for any floating dtype
    is_float = jax.numpy.issubdtype(a.dtype, jax.numpy.floating)
    is_whole = type(was) is int and type(wanted) is float
    if not (is_whole or a.dtype == b.dtype or (is_reference and is_float)):
        wanted_dtype = "float32" if is_reference else b.dtype
        return (f"{name} has dtype {a.dtype}, not {wanted_dtype}.",)
    if atol is None:
        return None
    wide = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
    a, b = a.astype(wide), b.astype(wide)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f" at {list(first)}" if first else ""
    headline = _where_wrong(wrong, name, pieces)
    return headline, f"{a[first]:.6g}{at}", f"{b[first]:.6g}{at}", True


def _where_wrong(wrong: np.ndarray, name: str, pieces: Sequence) -> str:
    if len(pieces) > 1 and len({piece.index for piece in pieces}) == len(pieces):
        parts = [tuple(slice(*bounds) for bounds in piece.index) for piece in pieces]
        bad = [
            piece.device
            for piece, part in zip(pieces, parts, strict=True)
            if wrong[part].any()
        ]
        if len(bad) == len(pieces):
            return f"{name} is wrong on all {len(bad)} devices."
        return f"{name} is wrong on {len(bad)} of {len(pieces)} devices: {ranges(bad)}."
    if wrong.size == 1:
        return f"{name} is wrong."
    if wrong.ndim > 1 and (num_blocks := len(wrong)) > 1:
        bad = [row for row, block in enumerate(wrong) if block.any()]
        if len(bad) == num_blocks:
            return f"{name} is wrong in all {len(bad)} blocks along axis 0."
        num, rows = len(bad), ranges(bad)
        return f"{name} is wrong in {num} of {num_blocks} blocks along axis 0: {rows}."
    return f"{name} is wrong in {wrong.sum()} of {wrong.size} values."

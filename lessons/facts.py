"""The plain facts that an observation consists of, and how they are written."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

SHORT_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


@dataclasses.dataclass(frozen=True)
class Shard:
    """One device's piece of an array: `index` holds a (start, stop) pair per axis."""

    device: int
    index: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Failure:
    """An exception, and the line of the learner's code that it came through."""

    kinds: tuple[str, ...]  # its class first, then the classes it derives from
    message: str
    line: int | None
    code: str

    @property
    def text(self) -> str:
        """The exception in one line: its class and the start of its message."""
        message = " ".join(self.message.split())
        return f"{self.kinds[0]}: {message[:200]}{' ...' if len(message) > 200 else ''}"


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Stands for a value that is no plain data; only its type's name is kept."""

    type_name: str


@dataclasses.dataclass(frozen=True)
class Observation:
    """What one call did, as plain host data.

    Attributes:
        function: the function's name as the exercise gives it.
        call: the call as text, arrays as dtype and shape: `f(f32[8,2], 3)`.
        value: the result: dicts, lists and tuples of NumPy arrays and plain values.
        layout: per array of the result (by its path), which device holds which part;
            a host array has no entry.
        error: what the call raised, or None.
        printed: what the call wrote to stdout and stderr.
        changed: positions of the arguments that the call modified in place.
        traced_shapes: shape of every array in the traced program, on all devices
            together outside of the mapped function and per device inside; None where
            no trace was asked for or tracing failed.
    """

    function: str
    call: str
    value: Any = None
    layout: Mapping[str, tuple[Shard, ...]] = dataclasses.field(default_factory=dict)
    error: Failure | None = None
    printed: str = ""
    changed: tuple[int, ...] = ()
    traced_shapes: tuple[tuple[int, ...], ...] | None = None


def describe(value: Any, limit: int = 120) -> str:
    """Names a value in JAX's short form: `{"x": f32[8,2]}`; long text is cut."""
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", 0), tuple):
        text = f"{short_dtype(value.dtype)}[{','.join(map(str, value.shape))}]"
    elif isinstance(value, Mapping):
        pairs = (f'"{key}": {describe(item)}' for key, item in value.items())
        text = "{" + ", ".join(pairs) + "}"
    elif isinstance(value, tuple):
        items = ", ".join(describe(item) for item in value)
        text = f"({items},)" if len(value) == 1 else f"({items})"
    elif isinstance(value, list):
        text = "[" + ", ".join(describe(item) for item in value) + "]"
    elif isinstance(value, Opaque):
        text = f"an object of type {value.type_name}"
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = repr(value)
    else:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def short_dtype(dtype: Any) -> str:
    """Writes a dtype as JAX prints it: `f32`, `bf16`, `i8`, `bool`, `key`."""
    name = str(dtype)
    letters = name.rstrip("0123456789")
    if letters.startswith("key"):
        return "key"
    return SHORT_DTYPES.get(letters, letters) + name[len(letters) :]


def plain(value: Any) -> Any:
    """Turns a result into containers of NumPy arrays, plain values and `Opaque`s."""
    if isinstance(value, jax.core.Tracer):
        return Opaque("tracer")
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return Opaque("deleted array") if value.is_deleted() else np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value) if value.dtype != object else Opaque("object array")
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    return Opaque(type(value).__name__)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, leaf) in a fixed order; a path reads like Python: `["w"][0]`."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from leaves(value[key], f'{path}["{key}"]')
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from leaves(item, f"{path}[{position}]")
    else:
        yield path, value


def same(before: Any, after: Any) -> bool:
    """Tells whether two plain values are equal, dtypes and shapes included."""
    pairs = list(leaves(before)), list(leaves(after))
    return [path for path, _ in pairs[0]] == [path for path, _ in pairs[1]] and all(
        type(a) is type(b)
        and (np.array_equal(a, b) or _equal_numbers(a, b))
        and getattr(a, "dtype", None) == getattr(b, "dtype", None)
        for (_, a), (_, b) in zip(*pairs, strict=True)
    )


def _equal_numbers(a, b) -> bool:
    kinds = {np.asarray(value).dtype.kind for value in (a, b)}
    return kinds <= set("fc") and np.array_equal(a, b, equal_nan=True)


def difference(
    value: Any, expected: Any, rtol: float, atol: float | None, layout: Mapping
) -> tuple[str, str, str] | None:
    """Finds the first difference of two plain values: (headline, seen, expected).

    Without `atol` only structure, shapes and dtypes count.
    """
    # A float64 reference stands for f32, the dtype that JAX computes in.
    whole = describe(value), describe(expected).replace("f64[", "f32[")
    if value is None and expected is not None:
        return "The function returned None: is a return missing?", *whole
    ours, theirs = dict(leaves(expected)), dict(leaves(value))
    if ours.keys() != theirs.keys():
        return "The result has another structure.", *whole
    for path, wanted in ours.items():
        was, name = theirs[path], path or "The result"
        if isinstance(was, Opaque) or (was is None and wanted is not None):
            return f"{name} is {describe(was)}, not {describe(wanted)}.", *whole
        if isinstance(wanted, str) or not isinstance(was, np.ndarray | int | float):
            arrays = np.ndarray in (type(was), type(wanted))
            if arrays or was != wanted:
                return f"{name} is another value.", describe(was), describe(wanted)
            continue
        if np.shape(was) != np.shape(wanted):
            shapes = f"{list(np.shape(was))}, not {list(np.shape(wanted))}"
            return f"{name} has shape {shapes}.", *whole
        a, b = np.asarray(was), np.asarray(wanted)
        if not _same_kind(a.dtype, b.dtype):
            wanted_dtype = "float32" if b.dtype == np.float64 else b.dtype
            return f"{name} has dtype {a.dtype}, not {wanted_dtype}.", *whole
        if atol is None:
            continue
        wide = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
        a, b = a.astype(wide), b.astype(wide)
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            at = f" at {list(first)}" if first else ""
            headline = _where_wrong(wrong, name, layout.get(path, ()))
            return headline, f"{a[first]:.6g}{at}", f"{b[first]:.6g}{at}"
    return None


def _same_kind(seen, expected) -> bool:
    if expected == np.float64:  # a reference; bfloat16 is no subtype of np.floating
        return np.issubdtype(seen, np.floating) or seen.name.startswith("bfloat")
    return seen == expected


def _where_wrong(wrong: np.ndarray, name: str, pieces: Sequence) -> str:
    if len(pieces) > 1 and len({piece.index for piece in pieces}) == len(pieces):
        blocks = [wrong[tuple(slice(*b) for b in piece.index)] for piece in pieces]
        bad = [p.device for p, block in zip(pieces, blocks, strict=True) if block.any()]
        return f"{name} is wrong on {_listing(bad, len(pieces), 'devices')}."
    if not wrong.ndim:
        return f"{name} is wrong."
    if wrong.ndim > 1 and len(wrong) > 1:
        bad = [row for row, block in enumerate(wrong) if block.any()]
        return f"{name} is wrong in {_listing(bad, len(wrong), 'leading-axis blocks')}."
    return f"{name} is wrong in {wrong.sum()} of {wrong.size} values."


def _listing(bad: Sequence[int], total: int, noun: str) -> str:
    if len(bad) == total:
        return f"all {total} {noun}"
    return f"{noun} {ranges(bad)} of {total}"


def ranges(numbers: Sequence[int]) -> str:
    """Writes ascending numbers in short: `0-3, 6`."""
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in run]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(runs)

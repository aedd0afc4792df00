"""The plain facts that an observation consists of, and how they are written."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .i18n import translated

SHORT_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


@dataclasses.dataclass(frozen=True)
class Shard:
    """One device's piece of an array: `index` holds a (start, stop) pair per axis."""

    device: int
    index: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective in a traced or compiled program, as one device takes part in it.

    Attributes:
        kind: XLA's name: all-reduce, all-gather, reduce-scatter, all-to-all,
            collective-permute or collective-broadcast.
        reduction: what a reducing kind does: add, max, min or product; else "".
        dtype, shape: of the array that the device puts in, dtype in short: f32.
        devices: how many devices exchange data with each other.
        in_loop: whether a loop repeats it.
        times: how often it runs in one call; None: its loop may take any number.
    """

    kind: str
    reduction: str
    dtype: str
    shape: tuple[int, ...]
    devices: int
    in_loop: bool = False
    times: int | None = 1

    @property
    def bits(self) -> int:
        return bits_of(self.dtype)

    @property
    def numbers(self) -> float:
        """Counts the numbers that a device puts in; one of 64 bits counts as two."""
        each = max(1, self.bits // 32)
        return each * math.prod(self.shape) * (self.times or math.inf)

    @property
    def bytes_moved(self) -> float:
        """Bytes that a device sends in all, by ring algorithms.

        Source: the usual cost model; a collective-permute sends the array once.
        """
        num_bytes = math.prod(self.shape) * self.bits / 8 * (self.times or 1)
        others = self.devices - 1
        once = min(1, others)  # a device alone sends nothing
        shares = {"collective-permute": once, "collective-broadcast": once}
        shares |= {"all-gather": others, "all-reduce": 2 * others / self.devices}
        return num_bytes * shares.get(self.kind, others / self.devices)

    def __str__(self) -> str:
        repeats = "" if self.times == 1 else f"{self.times or 'some'} x "
        kind = f"{self.kind} ({self.reduction})" if self.reduction else self.kind
        sizes = ",".join(map(str, self.shape))
        loop = ", in a loop" if self.in_loop else ""
        return f"{repeats}{kind} of {self.dtype}[{sizes}]{loop}"


def bits_of(dtype: str) -> int:
    """Bits of an element, from its dtype in short; a bool takes a byte."""
    return int((re.findall(r"\d+", dtype) or [8])[0])


def shape_of_numbers(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Adds an axis of two to the shape of a complex64 array, which holds two numbers.

    So it is for all elements of more than 32 bits, but u64: JAX counts in it what it
    draws at random.
    """
    each = 1 if dtype == "u64" else bits_of(dtype) // 32
    return (*shape, each) if each > 1 else tuple(shape)


@dataclasses.dataclass(frozen=True)
class Failure:
    """An exception, and the lines of the learner's code that it came through."""

    kinds: tuple[str, ...]  # its class first, then the classes it derives from
    message: str
    function: str = ""  # of the notebook's, that it came through last
    trace: tuple[str, ...] = ()  # the last lines of the notebook's code, in words

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
        num_compiles: how many programs were compiled during the call.
        refused: why JAX could not trace the function, in one line of its own.
        collectives: the collectives in the traced program, or in the compiled one where
            that was asked for; None where neither was, or tracing failed.
        array_shapes: shape of every array in the same program: of the trace, on all
            devices together outside of a mapped function and per device inside; of the
            compiled program, per device.
        dtypes: of the traced program: in which dtypes, in short, it multiplies matrices
            ("matmul"), adds up elements ("sum") and takes exponentials ("exp"); None
            where it was not asked for.
        multiplied, joined, most_held, needs: of the traced program; see
            `TracedProgram`.
        whole_inputs, steps, pairs: the same, also where the compiled one was asked for.
        flops: floating-point operations of one device in the compiled program.
    """

    function: str
    call: str
    value: Any = None
    layout: Mapping[str, tuple[Shard, ...]] = dataclasses.field(default_factory=dict)
    error: Failure | None = None
    printed: str = ""
    changed: tuple[int, ...] = ()
    num_compiles: int = 0
    refused: str = ""
    collectives: tuple[Collective, ...] | None = None
    array_shapes: tuple[tuple[int, ...], ...] | None = None
    dtypes: Mapping[str, tuple[str, ...]] | None = None
    whole_inputs: tuple[str, ...] | None = None
    multiplied: tuple[tuple[int, ...], ...] | None = None
    joined: tuple[tuple[int, ...], ...] | None = None
    most_held: int | None = None
    needs: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    steps: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] | None = None
    pairs: tuple[tuple[int, int], ...] | None = None
    flops: float | None = None

    def __repr__(self) -> str:
        """What one reads first: what came back, from which devices, what was sent."""
        result = f"returned {describe(self.value)}"
        lines = [self.call, f"raised {self.error.text}" if self.error else result]
        for path, shards in self.layout.items():
            held = {str([end - start for start, end in s.index]) for s in shards}
            devices = ranges(sorted(shard.device for shard in shards))
            each = " or ".join(sorted(held))
            lines.append(f"result{path}: {each} on each of the devices {devices}")
        if self.collectives is not None:
            sent = "; ".join(map(str, self.collectives)) or "none"
            lines.append(f"collectives: {sent}")
        if self.printed:
            lines.append(f"printed {self.printed!r}")
        return "\n  ".join(map(translated, lines))


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
    elif isinstance(value, bytes) and len(value) > limit:
        text = "<bytes>"  # files; what they begin with may be a time
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = repr(value)
    else:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def describe_call(name: str, arguments: Sequence, axis: str | None = None) -> str:
    """Writes a call; under an axis, as one device sees it: without the leading axis."""
    if axis is None:
        return f"{name}({', '.join(map(describe, arguments))})"
    sizes = [len(a) for a in jax.tree.leaves(arguments) if np.shape(a)]
    blocks = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype) if np.shape(a) else a,
        list(arguments),
    )
    inside, count = describe_call(name, blocks), sizes[0] if sizes else 0
    return f'{inside} on each of {count} devices, axis "{axis}"'


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
        if value.is_deleted():
            return Opaque("deleted array")
        # JAX cannot put an empty array together that a pmap has made.
        return np.array(value) if value.size else np.empty(value.shape, value.dtype)
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


def bounds(index: tuple, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Writes a shard's index as (start, stop) pairs; pmap in 0.7.2 gives numbers."""
    return tuple(
        (part, part + 1) if isinstance(part, int) else part.indices(size)[:2]
        for part, size in zip(index, shape, strict=True)
    )


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
        and getattr(a, "dtype", None) == getattr(b, "dtype", None)
        and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
        for (_, a), (_, b) in zip(*pairs, strict=True)
    )


def ranges(numbers: Sequence[int]) -> str:
    """Writes ascending numbers in short: `0-3, 6`."""
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in run]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(runs)

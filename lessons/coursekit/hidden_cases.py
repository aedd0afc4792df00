"""Calls on which a function is compared with the solution, and others made of them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from .observation import describe, leaves, plain

MANY = 4  # arrays are changed one by one where there are no more


class Case:
    """One call on which a function is compared with the solution.

    Example: `Case(x, mask, axis="i", statements="any shape", rtol=1e-4)`

    Attributes:
        arguments: of the call, in order.
        axis: see `observe`.
        statements: what this case's value or error proves, where that is not what
            `expect_like_solution` says of all cases.
        mentions: values that the error's text must name, where the solution raises.
        rtol, atol: tolerance of the values, where rounding alone does not decide it.
            An `atol` alone is added to what rounding the arguments explains.
        is_altered: whether it is another case with larger or smaller numbers.
    """

    def __init__(
        self,
        *arguments: Any,
        axis: str | None = None,
        statements: str | Iterable[str] = (),
        mentions: Iterable[Any] = (),
        rtol: float | None = None,
        atol: float | None = None,
    ):
        self.arguments, self.axis = arguments, axis
        self.statements, self.mentions = named(statements), tuple(mentions)
        self.rtol, self.atol = rtol, atol
        self.is_altered = False

    @property
    def shapes(self) -> str:
        """Tells calls apart that need not share a compiled program.

        Floats, such as a learning rate, are values; other numbers may decide shapes.
        """
        kinds = jax.tree.map(
            lambda leaf: np.float32(0) if type(leaf) is float else leaf, self.arguments
        )
        return f"{describe(list(kinds), 10**6)} {self.axis}"

    @property
    def digest(self) -> str:
        found = hashlib.sha256(self.shapes.encode())
        for path, leaf in leaves(plain(list(self.arguments))):
            is_array = isinstance(leaf, np.ndarray)
            found.update(leaf.tobytes() if is_array else f"{path}{leaf!r}".encode())
        return found.hexdigest()

    @property
    def size(self) -> int:
        """Counts the elements of the arguments: small cases are tried first."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.arguments))

    def altered(self, arguments: Iterable[Any]) -> Case:
        case = copy.copy(self)
        case.arguments, case.is_altered = tuple(arguments), True
        return case


def altered(
    cases: list[Case], scales: Iterable[float], one_by_one: float
) -> Iterator[Case]:
    """Yields cases again with other numbers.

    Float arrays are scaled, all and one by one. A float that is not an array, a
    learning rate maybe, is halved, and with scales also set to 0: this finds an answer
    that remembers what all other arguments gave. With scales, keys become other keys.
    """
    scales = tuple(scales)
    zero = [0.0] if scales else []
    if scales and (case := middle(cases, is_float_array)):
        for scale in scales:
            other = case.altered(scaled(case.arguments, scale))
            if case.atol is not None:
                other.atol = case.atol * max(scale, 1)
            yield other
        yield from parts_alone(case, scaled(case.arguments, one_by_one))
    if case := middle(cases, is_float):
        numbers, tree = jax.tree.flatten(case.arguments)
        for place, number in enumerate(numbers):
            tried = [number / 2, *zero] if is_float(number) else []
            for other in tried:
                others = [*numbers[:place], other, *numbers[place + 1 :]]
                yield case.altered(jax.tree.unflatten(tree, others))
    if scales and (case := middle(cases, is_key)):
        yield case.altered(jax.tree.map(folded, case.arguments))


def middle(cases: list[Case], is_meant: Callable[[Any], bool]) -> Case | None:
    """Returns the case in the middle of those that hold such a leaf."""
    holding = [
        case for case in cases if any(map(is_meant, jax.tree.leaves(case.arguments)))
    ]
    return holding[len(holding) // 2] if holding else None


def scaled(arguments: Any, scale: float) -> Any:
    def times(leaf):
        with np.errstate(all="ignore"):  # 0 times inf
            return leaf * leaf.dtype.type(scale) if is_float_array(leaf) else leaf

    return jax.tree.map(times, arguments)


def parts_alone(case: Case, arguments: Iterable[Any]) -> Iterator[Case]:
    """Yields a case with one of its float arrays at a time from other arguments.

    Where it has many, all of one argument at a time.
    """
    was, tree = jax.tree.flatten(case.arguments)
    now = jax.tree.leaves(arguments)
    sizes = [len(jax.tree.leaves(one)) for one in case.arguments]
    owners = [place for place, size in enumerate(sizes) for _ in range(size)]
    arrays = [k for k, leaf in enumerate(was) if is_float_array(leaf)]
    parts = {k: owners[k] if len(arrays) > MANY else k for k in arrays}
    several = len({*parts.values()}) > 1
    for part in dict.fromkeys(parts.values()) if several else ():
        mixed = [now[k] if parts.get(k) == part else one for k, one in enumerate(was)]
        yield case.altered(jax.tree.unflatten(tree, mixed))


def is_float(leaf: Any) -> bool:
    return type(leaf) is float


def is_float_array(leaf: Any) -> bool:
    is_array = isinstance(leaf, np.ndarray | jax.Array)
    return is_array and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


def is_key(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array)
    return is_array and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def folded(leaf: Any) -> Any:
    """Makes other keys of keys, whose data fill all words; leaves all else."""
    if not is_key(leaf):
        return leaf
    keys = [jax.random.fold_in(key, 7) for key in leaf.ravel()]
    return jax.numpy.stack(keys).reshape(leaf.shape)


def rounded(arguments: tuple, pattern: int) -> list:
    """Moves each number of float arrays by one rounding to 32 bits, at random."""
    signs = np.random.default_rng(pattern)

    def move(leaf):
        if not is_float_array(leaf):
            return leaf
        step = 1 + signs.choice([-1, 1], leaf.shape) * 2.0**-23
        moved = (np.asarray(leaf, np.float64) * step).astype(leaf.dtype)
        return moved if isinstance(leaf, np.ndarray) else jax.device_put(moved)

    return jax.tree.map(move, list(arguments))


def named(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)

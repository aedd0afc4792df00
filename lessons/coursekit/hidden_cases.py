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

    Attributes:
        arguments: of the call, in order.
        axis: see `observe`.
        statements: what this case's value or error proves, where it is something else
            than `expect_like_solution` says of all.
        mentions: values that the error's text must name, where the solution raises.
        rtol, atol: tolerance of the values, where rounding alone does not decide it.
        is_altered: it is another case with larger or smaller numbers.
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
        """Hashes the arguments with their values."""
        found = hashlib.sha256(self.shapes.encode())
        for path, leaf in leaves(plain(list(self.arguments))):
            is_array = isinstance(leaf, np.ndarray)
            found.update(leaf.tobytes() if is_array else f"{path}{leaf!r}".encode())
        return found.hexdigest()

    def altered(self, arguments: Iterable[Any]) -> Case:
        """Makes the same case of other arguments."""
        case = copy.copy(self)
        case.arguments, case.is_altered = tuple(arguments), True
        return case

    @property
    def size(self) -> int:
        """Counts the elements of the arguments: small cases are tried first."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.arguments))


def altered(
    cases: list[Case], scales: Iterable[float], one_by_one: float
) -> Iterator[Case]:
    """Yields cases again with other numbers, each time one in the middle of its kind.

    Its float arrays are scaled; or one of its floats that are no array, a learning rate
    maybe, is halved, then 0 (with scales): so is found who remembers what all other
    arguments gave; or something is folded into its keys, as into those that a program
    makes of others.
    """

    def holds(tree: Any, is_meant: Callable) -> bool:
        return any(map(is_meant, jax.tree.leaves(tree)))

    def scale_by(scale: float) -> Callable:
        def scaled(leaf):
            with np.errstate(all="ignore"):  # 0 times inf
                return leaf * leaf.dtype.type(scale) if is_float_array(leaf) else leaf

        return scaled

    filled = [case for case in cases if holds(case.arguments, is_float_array)]
    middle = filled[len(filled) // 2] if filled else None
    for scale in scales if filled else ():
        case = middle.altered(jax.tree.map(scale_by(scale), middle.arguments))
        if middle.atol is not None:
            case.atol = middle.atol * max(scale, 1)
        yield case
    if scales and filled:
        changed = jax.tree.map(scale_by(one_by_one), middle.arguments)
        yield from parts_alone(middle, changed)

    def is_tuned(leaf: Any) -> bool:
        return type(leaf) is float

    tuned = [case for case in cases if holds(case.arguments, is_tuned)]
    zero = [0.0] if scales else []
    if tuned:
        middle = tuned[len(tuned) // 2]
        numbers, tree = jax.tree.flatten(middle.arguments)
        for place, number in enumerate(numbers):
            for other in (number / 2, *zero) if is_tuned(number) else ():
                others = [*numbers[:place], other, *numbers[place + 1 :]]
                yield middle.altered(jax.tree.unflatten(tree, others))

    keyed = [case for case in cases if holds(case.arguments, is_key)]
    if scales and keyed:
        middle = keyed[len(keyed) // 2]
        yield middle.altered(jax.tree.map(folded, middle.arguments))


def parts_alone(case: Case, arguments: Iterable[Any]) -> Iterator[Case]:
    """Yields a case with one of its float arrays at a time from other arguments.

    Where it has many, all of one argument at a time.
    """
    was, tree = jax.tree.flatten(case.arguments)
    now = jax.tree.leaves(arguments)
    sizes = [len(jax.tree.leaves(one)) for one in case.arguments]
    owners = [place for place, size in enumerate(sizes) for _ in range(size)]
    own = [k for k, leaf in enumerate(was) if is_float_array(leaf)]
    parts = {k: owners[k] if len(own) > MANY else k for k in own}
    several = len({*parts.values()}) > 1
    for part in dict.fromkeys(parts.values()) if several else ():
        mixed = [now[k] if parts.get(k) == part else one for k, one in enumerate(was)]
        yield case.altered(jax.tree.unflatten(tree, mixed))


def is_key(leaf: Any) -> bool:
    """Tells whether a leaf is a random key, or an array of keys."""
    is_array = isinstance(leaf, jax.Array)
    return is_array and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def folded(leaf: Any) -> Any:
    """Makes other keys of keys, whose data fill all words; leaves all else."""
    if not is_key(leaf):
        return leaf
    keys = [jax.random.fold_in(key, 7) for key in leaf.ravel()]
    return jax.numpy.stack(keys).reshape(leaf.shape)


def is_float_array(leaf: Any) -> bool:
    """Tells whether a leaf is an array of floating point numbers."""
    is_array = isinstance(leaf, np.ndarray | jax.Array)
    return is_array and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


def rounded(arguments: tuple, sign: int) -> list:
    """Moves each number of float arrays by one rounding, up and down by turns."""

    def move(leaf):
        if not is_float_array(leaf):
            return leaf
        signs = np.where(np.arange(leaf.size) % 3 % 2, sign, -sign)
        step = 1 + signs.reshape(leaf.shape) * 2.0**-23
        moved = (np.asarray(leaf, np.float64) * step).astype(leaf.dtype)
        return moved if isinstance(leaf, np.ndarray) else jax.device_put(moved)

    return jax.tree.map(move, list(arguments))


def named(names: str | Iterable[str]) -> tuple[str, ...]:
    """Reads one name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)

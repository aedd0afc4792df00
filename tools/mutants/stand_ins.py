"""What mutants call in place of what the solution does.

A decorator may find nothing to act on, say no argument to delete: then the mutant is
the solution itself. So each says in `acted` when it did something.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

acted: set[str] = set()
_made: list[Any] = []
ARRAYS = jax.Array | np.ndarray | np.generic


def reset() -> None:
    """Forgets what an earlier mutant did."""
    acted.clear()
    _made.clear()


def is_concrete(leaf: Any) -> bool:
    """Tells whether a leaf is an array that holds values."""
    return isinstance(leaf, ARRAYS) and not isinstance(leaf, jax.core.Tracer)


def on_result(change: Callable) -> Callable:
    """Makes a decorator that changes each array of a result."""

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*arguments, **options):
            return on_arrays(change, function(*arguments, **options))

        return wrapper

    return decorator


def on_arrays(change: Callable, tree: Any) -> Any:
    """Changes the arrays of a tree; what is something else stays."""
    return jax.tree.map(lambda a: change(a) if isinstance(a, ARRAYS) else a, tree)


def rounded(dtype: str) -> Callable:
    """Makes a function that takes an array through a dtype with fewer digits."""

    def change(array):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            return array
        acted.add("rounded")
        return array.astype(dtype).astype(array.dtype)

    return change


def result_through(dtype: str) -> Callable:
    """Makes a decorator that rounds the result."""
    return on_result(rounded(dtype))


def arguments_through(dtype: str) -> Callable:
    """Makes a decorator that rounds the arguments."""

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*arguments, **options):
            return function(*on_arrays(rounded(dtype), arguments), **options)

        return wrapper

    return decorator


def result_as(dtype: str) -> Callable:
    """Makes a decorator that gives numbers another dtype."""

    def change(array):
        if not jnp.issubdtype(array.dtype, jnp.number) or array.dtype == dtype:
            return array
        acted.add("cast")
        return array.astype(dtype)

    return on_result(change)


@on_result
def through_the_host(array):
    """Fetches a result to the host and places it as it lay."""
    acted.add("fetched")
    fetched = np.asarray(array)
    if isinstance(array, jax.Array):
        return jax.device_put(fetched, array.sharding)
    return fetched


@on_result
def left_on_the_host(array):
    """Fetches a result to the host."""
    acted.add("fetched")
    return np.asarray(array)


def remembers(key_of: Callable) -> Callable:
    """Makes a decorator that gives the same result for arguments of the same key."""

    def decorator(function):
        kept = {}

        @functools.wraps(function)
        def wrapper(*arguments):
            key = key_of(arguments)
            if key in kept:
                return kept[key]
            result = function(*arguments)
            leaves = jax.tree.leaves((arguments, result))
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                kept[key] = result
                # Without arrays, a result by its arguments' values is the right one.
                if key is None or any(map(is_concrete, jax.tree.leaves(arguments))):
                    acted.add("kept")
            return result

        return wrapper

    return decorator


def shapes_of(arguments: Any) -> Any:
    """Describes arguments by the arrays' shapes and dtypes, all else by its value."""
    leaves, tree = jax.tree.flatten(arguments)
    parts = [
        (leaf.shape, str(leaf.dtype)) if isinstance(leaf, ARRAYS) else repr(leaf)
        for leaf in leaves
    ]
    return str(tree), *parts


remembers_the_first = remembers(lambda arguments: None)
remembers_by_shapes = remembers(shapes_of)


def deletes_arguments(function: Callable) -> Callable:
    """Deletes the JAX arrays among a function's arguments after the call."""

    @functools.wraps(function)
    def wrapper(*arguments):
        result = jax.block_until_ready(function(*arguments))
        for leaf in filter(is_concrete, jax.tree.leaves(arguments)):
            acted.add("deleted")
            if isinstance(leaf, jax.Array):
                leaf.delete()
        return result

    return wrapper


def writes_into_arguments(function: Callable) -> Callable:
    """Overwrites the first NumPy array among a function's arguments after the call."""

    @functools.wraps(function)
    def wrapper(*arguments):
        result = jax.block_until_ready(function(*arguments))
        leaves = filter(is_concrete, jax.tree.leaves(arguments))
        for leaf in itertools.islice(leaves, 1):
            acted.add("written")
            if isinstance(leaf, np.ndarray):
                leaf[...] = 0
        return result

    return wrapper


def gathered(reduce: Callable) -> Callable:
    """Makes a reduction that gathers all blocks first."""

    def reduction(tree, axis):
        acted.add("gathered")
        return jax.tree.map(lambda x: reduce(lax.all_gather(x, axis), axis=0), tree)

    return reduction


gathered_psum = gathered(jnp.sum)
gathered_pmean = gathered(jnp.mean)
gathered_pmax = gathered(jnp.max)
gathered_pmin = gathered(jnp.min)


def gathered_psum_scatter(x: Any, axis: str, tiled: bool = False) -> Any:
    """Sums all of the blocks on every device, and keeps its piece."""
    acted.add("gathered")
    rows = len(x) // lax.axis_size(axis)
    start = rows * lax.axis_index(axis)
    return lax.dynamic_slice_in_dim(lax.psum(x, axis), start, rows)


def gathered_all_to_all(x, axis, split_axis, concat_axis, tiled=True):
    """Gathers all blocks on every device, and keeps its piece."""
    acted.add("gathered")
    whole = lax.all_gather(x, axis, axis=concat_axis, tiled=True)
    size = x.shape[split_axis] // lax.axis_size(axis)
    start = size * lax.axis_index(axis)
    return lax.dynamic_slice_in_dim(whole, start, size, split_axis)


def with_useless_sum(result: Any, axis: str) -> Any:
    """Adds nothing to a result, and asks all devices for it."""
    acted.add("sent")
    return on_arrays(lambda a: a + lax.psum(a * 0, axis).astype(a.dtype), result)


def with_useless_gather(result: Any, axis: str, argument: Any) -> Any:
    """Gathers an argument, and adds nothing of it to a result."""
    acted.add("sent")
    blocks = [lax.all_gather(a, axis) for a in jax.tree.leaves(argument)]
    nothing = sum(jnp.where(block == block, 0, 0).sum() for block in blocks)
    return on_arrays(lambda a: a + nothing.astype(a.dtype), result)


def reduce_but(which: int, reduce: Callable, tree: Any, axis: str) -> Any:
    """Reduces all leaves of a tree but one."""
    return with_leaf(which, reduce(tree, axis), tree)


def map_but(which: int, function: Callable, tree: Any, *rest: Any, **options) -> Any:
    """Maps a function over all leaves of a tree but one, which stays."""
    return with_leaf(which, jax.tree.map(function, tree, *rest, **options), tree)


def with_leaf(which: int, new: Any, old: Any) -> Any:
    """Takes one leaf from the old tree, all others from the new."""
    acted.add("leaf")
    leaves, tree = jax.tree.flatten(new)
    leaves[which] = jax.tree.leaves(old)[which]
    return jax.tree.unflatten(tree, leaves)


def reversed_mesh(mesh: Mesh) -> Mesh:
    """Copies a mesh with its devices in the other order."""
    acted.add("mesh")
    return Mesh(np.flip(mesh.devices), mesh.axis_names, axis_types=mesh.axis_types)


def mesh_of_the_last(mesh: Mesh) -> Mesh:
    """Copies a mesh with as many of the last devices, in order."""
    acted.add("mesh")
    devices = np.array(jax.devices()[-mesh.size :]).reshape(mesh.devices.shape)
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


def num_rows(arguments: Any, in_axes: Any) -> int:
    """Returns the length of the leading axis that a mapping splits."""
    axes = in_axes if isinstance(in_axes, tuple) else [in_axes] * len(arguments)
    mapped = [a for a, axis in zip(arguments, axes, strict=True) if axis is not None]
    return len(jax.tree.leaves(mapped)[0])


def pmap_reversed(function: Callable, axis_name=None, in_axes=0) -> Callable:
    """Maps over the first devices, in the other order."""

    def run(*arguments):
        acted.add("devices")
        devices = jax.devices()[: num_rows(arguments, in_axes)][::-1]
        return jax.pmap(function, axis_name, in_axes=in_axes, devices=devices)(
            *arguments
        )

    return run


def pmap_on_the_last(function: Callable, axis_name=None, in_axes=0) -> Callable:
    """Maps over the last devices."""

    def run(*arguments):
        acted.add("devices")
        devices = jax.devices()[-num_rows(arguments, in_axes) :]
        return jax.pmap(function, axis_name, in_axes=in_axes, devices=devices)(
            *arguments
        )

    return run


def vmap_and_spread(function: Callable, axis_name=None, in_axes=0) -> Callable:
    """Maps on one device, and spreads the rows of the result over many."""
    mapped = jax.jit(jax.vmap(function, in_axes=in_axes, axis_name=axis_name))

    def run(*arguments):
        acted.add("spread")
        devices = jax.devices()[: num_rows(arguments, in_axes)]
        rows = NamedSharding(Mesh(np.array(devices), ("rows",)), P("rows"))
        return jax.device_put(mapped(*arguments), rows)

    return run


def once(make: Callable) -> Any:
    """Makes something at its first call alone."""
    acted.add("kept")
    if not _made:
        _made.append(make())
    return _made[0]


def unrolled_scan(step: Callable, carry: Any, xs: Any, length=None) -> tuple:
    """Does what `lax.scan` does in a Python loop."""
    acted.add("unrolled")
    results = []
    for number in range(len(jax.tree.leaves(xs)[0])):
        carry, result = step(carry, jax.tree.map(lambda x, n=number: x[n], xs))
        results.append(result)
    return carry, jax.tree.map(lambda *rows: jnp.stack(rows), *results)


def unrolled_fori_loop(start: int, stop: int, step: Callable, value: Any) -> Any:
    """Does what `lax.fori_loop` does in a Python loop."""
    acted.add("unrolled")
    for number in range(start, stop):
        value = step(number, value)
    return value


def first(count: int, items: Iterable) -> list:
    """Takes the first items."""
    acted.add("rounds")
    return list(itertools.islice(items, count))

"""Traces a learner's function and reads the program that JAX makes of it."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

from .observation import Collective
from .traced_program import TracedProgram


def traced(function: Callable, arguments: Sequence) -> TracedProgram | None:
    """Reads the program of `function(*arguments)`; None where it does not trace."""
    program = lowered(function, arguments)
    return program and TracedProgram(program.compiler_ir("stablehlo"))


def lowered(function: Callable, arguments: Sequence) -> Any | None:
    """Lowers `function` for its arrays' shapes; None where it does not trace."""
    run, arrays = program_of(function, arguments)
    kinds = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    flat = jax.jit(lambda *blocks: list(filter_arrays(run(*blocks))))
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        try:
            with tracing(function), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 0.7.2 warns of pmap inside jit
                return flat.lower(*kinds)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None


def collectives(function: Callable, *arguments: Any) -> tuple[Collective, ...]:
    """Lists the collectives in the traced program of `function(*arguments)`.

    Raises:
        ValueError: JAX cannot trace the function.
    """
    program = traced(function, arguments)
    if program is None:
        raise ValueError("JAX cannot trace this function: NumPy or float() inside?")
    return program.collectives


def copy_of(value: Any) -> Any:
    """Copies containers and host arrays, so that a call cannot change the original."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else copy.copy(leaf), value
    )


def program_of(function: Callable, arguments: Sequence) -> tuple[Callable, list]:
    """Makes `function` one of its arrays alone: (function of them, the arrays).

    Numbers, texts and containers stay as they are: a program is traced for them.
    """
    values, tree = jax.tree.flatten([copy_of(argument) for argument in arguments])
    kinds = jax.Array | np.ndarray | jax.ShapeDtypeStruct
    places = [place for place, v in enumerate(values) if isinstance(v, kinds)]

    def run(*arrays):
        filled = dict(zip(places, arrays, strict=True))
        leaves = [filled.get(place, value) for place, value in enumerate(values)]
        return function(*jax.tree.unflatten(tree, leaves))

    return run, [values[place] for place in places]


def filter_arrays(result: Any) -> Iterator[Any]:
    """Yields the arrays of a result, whatever else is in it."""
    kinds = jax.Array | np.ndarray
    yield from (leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, kinds))


@contextlib.contextmanager
def tracing(function: Callable) -> Iterator[None]:
    """Lets code trace that waits for its results, prints them or places them.

    None of these changes what is computed: waiting and printing do nothing, and
    `device_put` with a sharding constrains the traced value to it.
    """
    put, settings = jax.device_put, getattr(inspect.unwrap(function), "__globals__", {})

    def place(x, device=None, **options):
        targets = jax.tree.leaves(device)  # one sharding, or a tree of them
        placed = [isinstance(one, jax.sharding.Sharding) for one in targets]
        traced = [isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x)]
        if not (placed and all(placed) and any(traced)):
            return put(x, device, **options)
        return jax.lax.with_sharding_constraint(x, device)

    names = {name: place for name, value in settings.items() if value is put}
    with contextlib.ExitStack() as changes:
        for owner, name, stand_in in (
            (jax, "device_put", place),
            (jax.debug, "print", lambda *_, **__: None),
            (jax.debug, "callback", lambda *_, **__: None),
            (jax.core.Tracer, "block_until_ready", lambda tracer: tracer),
        ):
            changes.enter_context(mock.patch.object(owner, name, stand_in, create=True))
        changes.enter_context(mock.patch.dict(settings, names))
        yield

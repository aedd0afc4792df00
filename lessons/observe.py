"""Runs a learner's function and returns plain facts about what it did."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import linecache
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

from facts import Failure, Observation, Shard, describe, leaves, plain, same


def observe(function: Callable, *arguments: Any, traced: bool = False) -> Observation:
    """Calls `function` on copies of `arguments` and reports what happened.

    Nothing that the function raises escapes, except a keyboard interrupt; what it
    prints is shown after the call. `traced=True` also lists the arrays of the program
    that JAX traces.
    """
    name = getattr(function, "__name__", type(function).__name__)
    call = f"{name}({', '.join(describe(argument) for argument in arguments)})"
    inputs = [copy_of(argument) for argument in arguments]
    printed = io.StringIO()
    result, error = None, None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            result = jax.block_until_ready(function(*inputs))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit too: an exit is an outcome here
            error = failure(raised, function)
    show(printed.getvalue())
    changed = tuple(
        position
        for position, (before, after) in enumerate(zip(arguments, inputs, strict=True))
        if not same(plain(before), plain(after))
    )
    return Observation(
        function=name,
        call=call,
        value=plain(result),
        layout={path: shards(leaf) for path, leaf in leaves(result) if on_device(leaf)},
        error=error,
        printed=printed.getvalue(),
        changed=changed,
        traced_shapes=traced_shapes(function, arguments) if traced else None,
    )


def show(text: str, limit: int = 2000) -> None:
    """Prints what a function printed, shortened."""
    if text:
        print(text[:limit].rstrip() + (" ..." if len(text) > limit else ""))


def count_devices(
    environments: Sequence[Mapping[str, str]], timeout_s: float = 60
) -> list[int | str]:
    """Counts the CPU devices that a fresh Python process sees in each environment.

    Only the variables that JAX and XLA read are taken from it. The processes run side
    by side; where one fails, its last line of error text stands in the count's place.
    """
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    command = [sys.executable, "-c", "import jax; print(len(jax.devices('cpu')))"]
    children = []
    for env in environments:
        read = (item for item in env.items() if str(item[0])[:4] in ("XLA_", "JAX_"))
        theirs = {key: str(value) for key, value in read}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        try:
            child = subprocess.Popen(command, env={**ours, **theirs}, **pipes)
        except (OSError, TypeError, ValueError) as error:  # no environment of a process
            child = str(error)
        children.append(child)
    counts = []
    for child in children:
        if isinstance(child, str):
            counts.append(child)
            continue
        try:
            out, errors = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            out, errors = "", f"no answer within {timeout_s} s"
        last = (errors.strip().splitlines() or ["no error text"])[-1]
        counts.append(last if child.wait() else int(out))
    return counts


def copy_of(value: Any) -> Any:
    """Copies containers and host arrays, so that a call cannot change the original."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else copy.copy(leaf), value
    )


def on_device(leaf: Any) -> bool:
    """Tells whether `leaf` is a JAX array with data behind it."""
    is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_array and not leaf.is_deleted()


def shards(array: jax.Array) -> tuple[Shard, ...]:
    """Lists which device holds which part of `array`, numbered as `jax.devices()`."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    numbers = {device: number for number, device in enumerate(jax.devices())}
    return tuple(
        sorted(
            (
                Shard(numbers[shard.device], bounds(shard.index, array.shape))
                for shard in array.addressable_shards
            ),
            key=lambda shard: shard.device,
        )
    )


def bounds(index: tuple, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Writes a shard's index as (start, stop) pairs; pmap in 0.7.2 gives numbers."""
    return tuple(
        (part, part + 1) if isinstance(part, int) else part.indices(size)[:2]
        for part, size in zip(index, shape, strict=True)
    )


def traced_shapes(function, arguments) -> tuple[tuple[int, ...], ...] | None:
    """Shapes of all arrays in the traced program, or None where it does not trace."""
    run, arrays = program_of(function, arguments)
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        try:
            with tracing(function):
                program = jax.make_jaxpr(lambda *a: list(filter_arrays(run(*a))))(
                    *arrays
                )
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
    constants = [np.shape(constant) for constant in program.consts]
    computed = [v.aval.shape for v in variables(program.jaxpr)]
    return tuple(sorted({tuple(shape) for shape in [*constants, *computed]}))


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
        if not isinstance(device, jax.sharding.Sharding) or not any(
            isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x)
        ):
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


def variables(jaxpr: Any) -> Iterator[Any]:
    """Yields every variable that a program computes, nested programs included."""
    for equation in jaxpr.eqns:
        yield from (v for v in equation.outvars if hasattr(v.aval, "shape"))
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from variables(inner)


def failure(error: BaseException, function: Callable) -> Failure:
    """Describes an exception by the last line of the learner's own code in it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if code is not None and frame.filename == code.co_filename
    ]
    line = frames[-1].lineno if frames else None
    text = linecache.getline(code.co_filename, line).strip() if line else ""
    try:
        message = str(error).strip()
    except Exception:
        message = ""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
    return Failure(tuple(kinds), message, line, text)

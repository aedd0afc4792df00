"""Runs a learner's function and returns plain facts about what it did."""

from __future__ import annotations

import contextlib
import functools
import io
import linecache
import operator
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from . import tracing
from .compiled_program import CompiledProgram
from .learner import IS_CHECKS, NotDefined, namespaces_of
from .observation import (
    Failure,
    Observation,
    Shard,
    bounds,
    describe_call,
    leaves,
    plain,
    same,
)
from .traced_program import TracedProgram

_compiled: list[str] = []  # one entry for each program that XLA has compiled
_memory: dict[tuple, np.ndarray] = {}  # what calls got, by place, shape and dtype
_containers: dict[tuple, dict | list] = {}  # the same of arguments that hold others


TRACE = 3  # lines of the notebook's code that a learner is shown of an error
COMPILES = "/jax/core/compile/backend_compile_duration"


@jax.monitoring.register_event_duration_secs_listener
def _count_compiles(event: str, *_: Any, **__: Any) -> None:
    if event == COMPILES:
        _compiled.append(event)


def observe(
    function: Callable,
    *arguments: Any,
    traced: bool = False,
    compiled: bool = False,
    axis: str | None = None,
) -> Observation:
    """Calls `function` on copies of `arguments` and reports what happened.

    Nothing that the function raises escapes, except a keyboard interrupt; what it
    prints is shown after the call.

    Args:
        function: what a learner wrote.
        arguments: its arguments, in order.
        traced: also list the arrays and the collectives of the program that JAX
            traces.
        compiled: the same of what the compiler makes of it, for one device.
        axis: map the function by `pmap` under this axis name: each device receives its
            row of every array's leading axis, and everything else whole.
    """
    name = getattr(function, "__name__", type(function).__name__)
    call = describe_call(name, arguments, axis)
    if axis is not None:
        function = on_devices(function, axis)
    inputs = [
        in_used_memory((name, place), argument)
        for place, argument in enumerate(arguments)
    ]
    given = list(map(jax.tree.leaves, inputs))
    printed = io.StringIO()
    result, error = None, None
    compiles = num_compiles()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with mesh_restored(), tracing.one_ir_context():
                result = jax.block_until_ready(function(*inputs))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit too: an exit is an outcome here
            error = failure(raised, function)
    compiles = num_compiles() - compiles
    give_up_memory_of(result)
    output = without_place(printed.getvalue(), error)
    show(output)
    changed = tuple(
        position
        for position, (was, now) in enumerate(zip(arguments, inputs, strict=True))
        if exchanged(given[position], now) or not same(plain(was), plain(now))
    )
    asked = (traced or compiled) and error is None
    return Observation(
        function=name,
        call=call,
        value=plain(result),
        layout={path: shards(leaf) for path, leaf in leaves(result) if on_device(leaf)},
        error=error,
        printed=output,
        changed=changed,
        num_compiles=compiles,
        **(program_facts(function, arguments, compiled) if asked else {}),
    )


def exchanged(given: list, now: Any) -> bool:
    """Tells whether a container holds other objects than `given`, equal ones even."""
    try:
        leaves = jax.tree.leaves(now)
    except (TypeError, ValueError):  # a dict whose new keys cannot be sorted
        return True
    return len(leaves) != len(given) or any(map(operator.is_not, given, leaves))


def values(
    function: Callable, calls: Sequence[Sequence], axis: str | None = None
) -> list[Any]:
    """Returns plain results of calls, given by arguments that differ in arrays alone.

    Under an axis, see `observe`, the function is traced once for all of them.
    """
    if axis is None:
        return [observe(function, *arguments).value for arguments in calls]
    run, _ = tracing.program_of(function, calls[0])
    mapped = jax.pmap(run, axis_name=axis)
    blocks = [tracing.program_of(function, arguments)[1] for arguments in calls]
    return [plain(jax.block_until_ready(mapped(*arrays))) for arrays in blocks]


def in_used_memory(place: tuple, argument: Any) -> Any:
    """Copies an argument; it and its NumPy arrays are an earlier call's, overwritten.

    A function that remembers them by their identity meets other numbers in them.
    """

    def copied(path, leaf):
        if not isinstance(leaf, np.ndarray):
            return leaf
        key = *place, jax.tree_util.keystr(path), leaf.shape, leaf.dtype
        memory = _memory.get(key)
        if memory is None or not memory.flags.writeable:
            memory = _memory[key] = leaf.copy()
        np.copyto(memory, leaf)
        return memory

    found = jax.tree_util.tree_map_with_path(copied, tracing.copy_of(argument))
    if type(found) not in (dict, list):
        return found
    container = _containers.setdefault((*place, type(found)), found)
    if container is not found:
        items = dict(found) if isinstance(found, dict) else list(found)
        container.clear()
        container.update(items) if isinstance(found, dict) else container.extend(items)
    return container


def give_up_memory_of(result: Any) -> None:
    """Overwrites no more what a result shares with an argument: it may be a view."""
    for leaf in jax.tree.leaves(result):
        parts = [leaf] if isinstance(leaf, np.ndarray) else []
        if on_device(leaf) and jax.default_backend() == "cpu":
            is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            shards = () if is_key else leaf.addressable_shards
            parts = [np.asarray(shard.data) for shard in shards]
        for key, memory in [*_memory.items()]:
            if any(np.may_share_memory(memory, part) for part in parts):
                del _memory[key]


@contextlib.contextmanager
def mesh_restored() -> Iterator[None]:
    """Ends what code begins by `jax.set_mesh` without a `with`: others run after it."""
    context = jax.set_mesh(Mesh(jax.devices()[:1], "any"))  # knows the mesh of before
    context.__exit__(None, None, None)
    try:
        yield
    finally:
        context.__exit__(None, None, None)


def program_facts(
    function: Callable, arguments: Sequence, compiled: bool
) -> dict[str, Any]:
    """Reads the traced program, or what the compiler makes of it if `compiled`."""
    try:
        if compiled:
            return compiled_facts(tracing.compiled(function, arguments))
        return traced_facts(tracing.traced(function, arguments))
    except tracing.Untraceable as error:
        return {"refused": str(error)}
    except Exception as error:  # of the compiler's, say
        return {"refused": tracing.reason(error)}


def traced_facts(program: TracedProgram) -> dict[str, Any]:
    """Lists the facts of a traced program."""
    return {
        "collectives": program.collectives,
        "array_shapes": tuple(sorted(program.shapes)),
        "dtypes": {
            role: tuple(sorted(found)) for role, found in program.dtypes.items()
        },
    }


def compiled_facts(executable: Any) -> dict[str, Any]:
    """Reads a compiled program."""
    found = CompiledProgram(executable)
    shapes = tuple(sorted(found.shapes))
    facts = {"collectives": found.collectives, "array_shapes": shapes}
    return facts | {"flops": found.flops}


def on_devices(function: Callable, axis: str) -> Callable:
    """Maps `function` over the leading axis of every array among its arguments.

    What it does to the containers that it gets, it does to those of its caller.
    """

    @functools.wraps(function)
    def mapped(*arguments):
        def watched(*blocks):
            before, tree = jax.tree.flatten(blocks)
            result = function(*blocks)
            after, now = jax.tree.flatten(blocks)
            if now != tree or any(map(operator.is_not, before, after)):
                for argument, changed in zip(arguments, blocks, strict=True):
                    repeat_change(argument, changed)
            return result

        run, arrays = tracing.program_of(watched, arguments)
        return jax.pmap(run, axis_name=axis)(*arrays)

    return mapped


def repeat_change(container: Any, changed: Any) -> None:
    """Gives a container the items of its copy, which a function may have changed."""
    if isinstance(container, dict):
        container.clear()
        container.update(changed)
    elif isinstance(container, list):
        container[:] = changed
    elif isinstance(container, tuple):
        for one, other in zip(container, changed, strict=True):
            repeat_change(one, other)


def compiles_are_counted() -> bool:
    """Tells whether JAX still reports here what it compiles."""
    before = num_compiles()
    jax.monitoring.record_event_duration_secs(COMPILES, 0.0)
    if num_compiles() != before + 1:
        return False
    _compiled.pop()
    return True


def num_compiles() -> int:
    """Counts the programs that this process has compiled so far."""
    return len(_compiled)


def without_place(printed: str, error: Failure | None) -> str:
    """Drops a line that JAX 0.12 prints before it names the same place in an error."""
    named = re.search(r"occurs at source:  (.+)", error.message) if error else None
    return printed.replace(f"{named[1]}\n", "") if named else printed


def show(text: str, limit: int = 2000) -> None:
    """Prints what a function printed, shortened."""
    if text:
        print(text[:limit].rstrip() + (" ..." if len(text) > limit else ""))


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


def failure(error: BaseException, function: Callable) -> Failure:
    """Describes an exception, with the last lines of the notebook's code in it.

    Where none of it took part: of the check's function that was called.
    """
    frames = [*traceback.walk_tb(error.__traceback__)]
    own, *others = namespaces_of(function) or [{}]
    found = []
    for namespaces in ((own, *others)[IS_CHECKS in own :], (own,)):
        found = found or [
            (frame.f_code, line)
            for frame, line in frames
            if any(frame.f_globals is one for one in namespaces)
        ]
    lines = (
        (code.co_name, line, linecache.getline(code.co_filename, line).strip())
        for code, line in found[-TRACE:]
    )
    trace = (f"in {name}, line {line}: {text}" for name, line, text in lines)
    try:
        message = str(error).strip()
    except Exception:
        message = ""
    ours = (object, NotDefined)
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind not in ours]
    name = found[-1][0].co_name if found else ""
    return Failure(tuple(kinds), message, name, tuple(trace))

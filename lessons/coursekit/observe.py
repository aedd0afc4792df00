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
from jax.sharding import Mesh, PartitionSpec

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
MAX_SHOWN = 2000  # characters that are shown of what a function prints
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
    clean: bool = False,
) -> Observation:
    """Calls `function` on copies of `arguments` and reports what happened.

    Nothing that the function raises escapes, except a keyboard interrupt; what it
    prints is shown after the call.

    Example: `observe(pmean_of, x, axis="i", traced=True).collectives`

    Args:
        function: what a learner wrote.
        arguments: its arguments, in order.
        traced: also list the arrays and the collectives of the program that JAX
            traces.
        compiled: the same of what the compiler makes of it, for one device.
        axis: map the function over the devices by `shard_map`, under this axis name:
            each device receives its row of every array's leading axis (the row, without
            that axis), and everything else in full.
        clean: a function of the check's that calls none of the learner's: where work is
            graded, a process that never runs the learner's code calls it.
    """
    name = getattr(function, "__name__", type(function).__name__)
    call = describe_call(name, arguments, axis)
    changed: set[int] = set()
    function = watched(function, changed)
    if axis is not None:
        function = on_devices(function, axis)
    inputs = [tracing.copy_of(argument) for argument in arguments]
    printed = io.StringIO()
    result, error = None, None
    compiles = num_compiles()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with mesh_restored():
                result = jax.block_until_ready(function(*inputs))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit too: an exit is an outcome here
            error = failure(raised, function)
    compiles = num_compiles() - compiles
    output = without_place(printed.getvalue(), error)
    if output:
        cut = " ..." if len(output) > MAX_SHOWN else ""
        print(output[:MAX_SHOWN].rstrip() + cut)
    changed |= {
        position
        for position, (was, now) in enumerate(zip(arguments, inputs, strict=True))
        if not same(plain(was), plain(now))
    }
    asked = (traced or compiled) and error is None
    return Observation(
        function=name,
        call=call,
        value=plain(result),
        layout={path: shards(leaf) for path, leaf in leaves(result) if on_device(leaf)},
        error=error,
        printed=output,
        changed=tuple(sorted(changed)),
        num_compiles=compiles,
        **(program_facts(function, arguments, compiled) if asked else {}),
    )


def watched(function: Callable, changed: set[int]) -> Callable:
    """Makes a function that notes which containers among its arguments it changes."""

    @functools.wraps(function)
    def noting(*arguments):
        given = list(map(jax.tree.leaves, arguments))
        try:
            return function(*arguments)
        finally:
            pairs = enumerate(zip(given, arguments, strict=True))
            changed.update(place for place, pair in pairs if exchanged(*pair))

    return noting


def exchanged(given: list, now: Any) -> bool:
    """Tells whether a container holds other objects than `given`, equal ones even."""
    try:
        leaves = jax.tree.leaves(now)
    except (TypeError, ValueError):  # a dict whose new keys cannot be sorted
        return True
    return len(leaves) != len(given) or any(map(operator.is_not, given, leaves))


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
            executable, traced = tracing.compiled(function, arguments)
            return compiled_facts(executable, traced)
        return traced_facts(tracing.traced(function, arguments))
    except tracing.Untraceable as error:
        return {"refused": str(error)}
    except Exception as error:  # of the compiler's, say
        return {"refused": tracing.reason(error)}


def traced_facts(program: TracedProgram) -> dict[str, Any]:
    dtypes = {role: tuple(sorted(found)) for role, found in program.dtypes.items()}
    shapes = tuple(sorted(program.shapes))
    facts = {"collectives": program.collectives, "array_shapes": shapes}
    facts |= {"multiplied": tuple(sorted(program.multiplied)), "dtypes": dtypes}
    facts |= {"joined": tuple(sorted(program.joined)), "needs": program.needs}
    facts |= {"most_held": program.most_held}
    return facts | facts_as_traced(program)


def facts_as_traced(program: TracedProgram) -> dict[str, Any]:
    """Reads the facts that only the traced program holds, not the compiled one."""
    facts = {"steps": program.steps, "pairs": tuple(sorted(program.pairs))}
    return facts | {"whole_inputs": program.whole_inputs}


def compiled_facts(executable: Any, traced: TracedProgram) -> dict[str, Any]:
    found = CompiledProgram(executable)
    shapes = tuple(sorted(found.shapes))
    facts = {"collectives": found.collectives, "array_shapes": shapes}
    return facts | {"flops": found.flops} | facts_as_traced(traced)


def on_devices(function: Callable, axis: str) -> Callable:
    """Maps `function` over the leading axis of every array among its arguments."""

    @functools.wraps(function)
    def mapped(*arguments):
        run, arrays = tracing.program_of(function, arguments)
        if not arrays:
            raise ValueError("no argument has an axis for the devices")
        return over_devices(run, axis, len(arrays[0]))(*arrays)

    return mapped


def over_devices(function: Callable, axis: str, num_devices: int) -> Callable:
    """Maps a function of arrays: each device gets its row, without the leading axis.

    `check_vma` is off, so that it maps every function that `pmap` maps.
    """

    def one_device(*blocks):
        rows = jax.tree.map(lambda block: jax.numpy.squeeze(block, 0), blocks)
        return jax.tree.map(lambda row: jax.numpy.expand_dims(row, 0), function(*rows))

    mesh, rows = Mesh(jax.devices()[:num_devices], axis), PartitionSpec(axis)
    specs = {"mesh": mesh, "in_specs": rows, "out_specs": rows}
    return jax.jit(jax.shard_map(one_device, **specs, check_vma=False))


def num_compiles() -> int:
    """Counts the programs that this process has compiled so far."""
    return len(_compiled)


def without_place(printed: str, error: Failure | None) -> str:
    """Drops a line that JAX 0.12 prints before it names the same place in an error."""
    named = re.search(r"occurs at source:  (.+)", error.message) if error else None
    return printed.replace(f"{named[1]}\n", "") if named else printed


def on_device(leaf: Any) -> bool:
    """Tells whether `leaf` is a JAX array with data behind it."""
    is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_array and not leaf.is_deleted()


def shards(array: jax.Array) -> tuple[Shard, ...]:
    """Lists which device holds which part of `array`, numbered as `jax.devices()`."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    parts = {shard.device: shard.index for shard in array.addressable_shards}
    return tuple(
        Shard(number, bounds(parts[device], array.shape))
        for number, device in enumerate(jax.devices())
        if device in parts
    )


def failure(error: BaseException, function: Callable) -> Failure:
    """Describes an exception, with the last lines of the notebook's code in it.

    Where none of it took part: of the check's function that was called.
    """
    frames = [*traceback.walk_tb(error.__traceback__)]
    own, *others = namespaces_of(function) or [{}]

    def within(*namespaces: dict) -> list[tuple]:
        ids = {*map(id, namespaces)}
        return [(frame, line) for frame, line in frames if id(frame.f_globals) in ids]

    found = within(*others) if IS_CHECKS in own else within(own, *others)
    found = found or within(own)
    trace = []
    for frame, line in found[-TRACE:]:
        name = frame.f_code.co_name
        text = linecache.getline(frame.f_code.co_filename, line).strip()
        if IS_CHECKS in frame.f_globals:  # not a file that the learner knows
            trace.append(f"in the check's {name}: {text}")
        else:
            trace.append(f"in {name}, line {line}: {text}")
    ours = (object, NotDefined)
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind not in ours]
    name = found[-1][0].f_code.co_name if found else ""
    return Failure(tuple(kinds), tracing.text(error), name, tuple(trace))

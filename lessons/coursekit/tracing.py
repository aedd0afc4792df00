"""Traces a learner's function and reads the program that JAX makes of it."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import jax.export
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.partial_eval import dce_jaxpr
from jax.sharding import AxisType, Mesh, PartitionSpec

from .learner import namespaces_of
from .observation import Collective, Opaque
from .traced_program import TracedProgram


class Untraceable(Exception):
    """JAX cannot trace a function; the text is the first line of its reason."""


class OldPmap(Untraceable):
    """JAX before 0.8 exports no program with a pmap in it."""


class SetsMesh(BaseException):
    """Code that is traced sets a mesh, which JAX allows only outside a trace."""

    def __init__(self, mesh: Any):
        super().__init__("the function sets more than one mesh")
        self.mesh = mesh


def traced(function: Callable, arguments: Sequence) -> TracedProgram:
    """Reads the traced program of `function(*arguments)`, or raises `Untraceable`."""
    try:
        return survey(exported(function, arguments)[0])
    except OldPmap:
        return TracedProgram(lowered(function, arguments).compiler_ir("stablehlo"))


def compiled(function: Callable, arguments: Sequence) -> tuple[Any, TracedProgram]:
    """Compiles the program of `function(*arguments)`; XLA lays out its inputs."""
    try:
        program, _ = exported(function, arguments)
        traced_program = survey(program)
        return executable(program, traced_program.meshes), traced_program
    except OldPmap:
        program = lowered(function, arguments)
        return program.compile(), TracedProgram(program.compiler_ir("stablehlo"))


def exported(
    function: Callable, arguments: Sequence, as_it_is: bool = False
) -> tuple[jax.export.Exported, Any]:
    """Exports the program of `function(*arguments)`, for its arrays' shapes alone.

    Returns it and the structure of the result; see `template`. The grader judges an
    exported program, so a notebook does, too: a lowered one differs from it.

    Raises:
        Untraceable: JAX cannot trace the function, or it calls the host's Python; if
            it is traced as it is, with nothing replaced, what JAX raises then.
    """
    flat, kinds, result = flattened(function, arguments)

    def work():
        return jax.export.export(with_all_inputs(flat, kinds))(*kinds)

    if not as_it_is:
        return trace(function, work), result[0]
    with silence():
        return work(), result[0]


def lowered(function: Callable, arguments: Sequence) -> Any:
    """Lowers `function` for its arrays' shapes, where JAX exports nothing of pmap."""
    flat, kinds, _ = flattened(function, arguments)
    return trace(function, lambda: with_all_inputs(flat, kinds).lower(*kinds))


def with_all_inputs(flat: Callable, kinds: Sequence) -> Callable:
    """Jits a function without what nobody uses, except for its inputs.

    Facts about inputs name their places, those of unused ones, too. JAX drops either
    both or none.
    """
    closed = jax.jit(flat).trace(*kinds).jaxpr
    every = [True] * len(closed.out_avals)
    used, _ = dce_jaxpr(closed.jaxpr, every, instantiate=True)
    return jax.jit(jaxpr_as_fun(closed.replace(jaxpr=used)), keep_unused=True)


@functools.cache
def ir_context() -> Any:
    """Makes the context that holds programs: one for all, since it takes long."""
    return mlir.make_ir_context()


def survey(program: jax.export.Exported) -> TracedProgram:
    with ir_context() as context:
        data = program.mlir_module_serialized
        return TracedProgram(stablehlo.deserialize_portable_artifact(context, data))


def executable(program: jax.export.Exported, meshes: Mapping[str, Mapping]) -> Any:
    """Compiles an exported program; `meshes` are those that it names."""
    inputs = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in program.in_avals]
    with jax.set_mesh(mesh_for(program.nr_devices, meshes)):
        return jax.jit(program.call).lower(*inputs).compile()


def mesh_for(num_devices: int, meshes: Mapping[str, Mapping[str, int]]) -> Mesh:
    """Arranges devices in so many axes that every split over `meshes` has a name."""
    sizes = [list(axes.values()) for axes in meshes.values()]
    fitting = [axes for axes in sizes if math.prod(axes) == num_devices]
    axes = [factor for n in (*fitting, [num_devices])[0] for factor in factors(n)]
    devices = np.array(jax.devices()[:num_devices]).reshape(axes)
    return Mesh(devices, [f"axis {place}" for place in range(len(axes))])


def factors(number: int) -> list[int]:
    if number == 1:
        return []
    first = next(n for n in range(2, number + 1) if number % n == 0)
    return [first, *factors(number // first)]


def reason(error: BaseException) -> str:
    """Writes an error of JAX's in one line: the others name places in its code."""
    lines = text(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # a learner's class may raise one
        return ""


def program_steps(function: Callable, *arguments: Any) -> Any:
    """Lists what `function(*arguments)` runs, as JAX records it: a `Jaxpr`.

    It alone tells which arrays are donated, and on which devices a mesh is: an exported
    program numbers its devices.
    """
    flat, kinds, _ = flattened(function, arguments)
    return with_stand_ins(function, lambda: jax.make_jaxpr(flat)(*kinds)).jaxpr


def num_donated(function: Callable, *arguments: Any) -> int:
    """Counts those of its arrays that `function` donates to a program.

    Arrays that it deletes itself, or that it has computed, do not count.
    """
    program = program_steps(function, *arguments)
    donated = [
        array
        for step in program.eqns
        for array, is_donated in zip(
            step.invars, step.params.get("donated_invars", ()), strict=False
        )
        if is_donated
    ]
    return sum(any(array is other for other in donated) for array in program.invars)


def collectives(function: Callable, *arguments: Any) -> tuple[Collective, ...]:
    """Lists the collectives in the traced program of `function(*arguments)`.

    Raises:
        ValueError: JAX cannot trace the function.
    """
    try:
        return traced(function, arguments).collectives
    except Untraceable:
        raise ValueError(
            "JAX cannot trace this function: NumPy or float() inside?"
        ) from None


def copy_of(value: Any) -> Any:
    """Copies containers and arrays, so that a call cannot change or delete them."""
    return jax.tree.map(copy.copy, value)


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


def flattened(function: Callable, arguments: Sequence) -> tuple[Callable, list, list]:
    """Makes `function` one from arrays to a tuple of arrays.

    Returns it, shape and dtype of each array that it takes, and a list that will hold,
    once it was traced, what `function` returned; see `template`.
    """
    run, arrays = program_of(function, arguments)
    result: list[Any] = []

    def flat(*blocks):
        arrays_out: list[Any] = []
        result[:] = [template(run(*blocks), arrays_out)]
        return tuple(arrays_out)

    return flat, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays], result


def template(value: Any, arrays: list) -> Any:
    """Copies a result's structure, with `Opaque("leaf N")` for its N-th array."""
    if isinstance(value, Mapping):
        return {key: template(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [template(item, arrays) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        arrays.append(jax.random.key_data(value) if is_key else value)
        return Opaque(f"leaf {len(arrays) - 1}")
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    return Opaque(type(value).__name__)


def trace(function: Callable, work: Callable[[], Any]) -> Any:
    """Calls `work`, which traces `function`, or raises `Untraceable`."""
    try:
        return with_stand_ins(function, work)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the code is a learner's
        kind = OldPmap if "pmap_nreps" in text(error) else Untraceable
        raise kind(reason(error)) from None


def with_stand_ins(function: Callable, work: Callable[[], Any]) -> Any:
    """Calls `work` while stand-ins replace what does not trace in `function`'s code.

    Where the code sets a mesh, `work` starts again inside that mesh. What the code
    prints is not shown.
    """
    # JAX caches traces per config: a different default_device keeps patched traces from
    # being reused by real calls.
    apart = jax.default_device(jax.devices()[0])
    with silence(), apart:
        try:
            with tracing(function):
                return work()
        except SetsMesh as code:
            mesh = code.mesh
        with jax.set_mesh(mesh), tracing(function, mesh):
            return work()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hides what code prints, and warnings: 0.7.2 warns of pmap inside jit."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


@contextlib.contextmanager
def tracing(function: Callable, mesh: Mesh | None = None) -> Iterator[None]:
    """Lets code trace that waits for its results, prints, places or sets a mesh.

    None of these changes what is computed: waiting and debugging do nothing, placing an
    array constrains the traced value to that sharding, and `mesh` is set already.
    """
    stand_ins = [
        (jax, "device_put", placing(jax.device_put, mesh)),
        (jax, "set_mesh", mesh_setting(mesh)),
        (jax.sharding, "set_mesh", mesh_setting(mesh)),
        (jax.core.Tracer, "block_until_ready", lambda tracer: tracer),
    ]
    with replacing(stand_ins, function), without_debugging(function):
        yield


def without_debugging(function: Callable) -> contextlib.AbstractContextManager:
    """Lets code do nothing where it looks at values while it runs.

    JAX exports no calls of the host's Python, and unrolls them over the axes of `vmap`.
    """
    names = "print", "callback", "log", "inspect_array_sharding"
    names += ("visualize_array_sharding",)
    stand_ins = [(jax.debug, name, lambda *_, **__: None) for name in names]
    return replacing(stand_ins, function)


@contextlib.contextmanager
def replacing(stand_ins: list[tuple], function: Callable) -> Iterator[None]:
    """Replaces functions in JAX, and where `function`'s code imports them by name."""
    replaced = [(getattr(owner, n, None), new) for owner, n, new in stand_ins]
    with contextlib.ExitStack() as changes:
        for names in namespaces_of(function):
            own = {
                name: new
                for name, value in names.items()
                for old, new in replaced
                if value is old is not None
            }
            changes.enter_context(mock.patch.dict(names, own))
        for owner, name, new in stand_ins:
            changes.enter_context(mock.patch.object(owner, name, new, create=True))
        yield


def placing(put: Callable, mesh: Mesh | None) -> Callable:
    """Makes a `device_put` that constrains a traced array to the sharding."""

    def is_explicit(sharding):
        is_spec = isinstance(sharding, PartitionSpec)
        own = mesh if is_spec else getattr(sharding, "mesh", None)
        return AxisType.Explicit in getattr(own, "axis_types", ())

    def place(x, device=None, **options):
        targets = jax.tree.leaves(device)  # one sharding, or a tree of them
        kinds = jax.sharding.Sharding | PartitionSpec
        if not targets or not all(isinstance(one, kinds) for one in targets):
            return put(x, device, **options)
        if not any(map(is_explicit, targets)):
            return jax.lax.with_sharding_constraint(x, device)
        on_devices = jax.jit(lambda x: x, out_shardings=device)(x)
        return jax.sharding.reshard(on_devices, device)

    return place


def mesh_setting(mesh: Mesh | None) -> Callable:
    """Makes a `set_mesh` for code that is traced inside `mesh`."""

    def set_mesh(new):
        if new != mesh:
            raise SetsMesh(new)
        return contextlib.nullcontext()

    return set_mesh

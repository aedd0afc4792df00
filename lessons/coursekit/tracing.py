"""Traces a learner's function and reads the program that JAX makes of it."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import jax.export
import numpy as np
from jax.extend.core.primitives import jit_p
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.sharding import AxisType, Mesh, PartitionSpec

from .learner import namespaces_of
from .observation import Collective, Opaque
from .traced_program import TracedProgram

# Functions of jnp that take a sharding, which JAX ignores while it traces some of them.
CREATORS = (
    *("arange", "array", "asarray", "empty", "empty_like", "eye", "full", "full_like"),
    *("linspace", "ones", "ones_like", "zeros", "zeros_like"),
)


class Untraceable(Exception):
    """JAX cannot trace a function; the text is the first line of its reason."""


class OldPmap(Untraceable):
    """JAX before 0.8 exports no program with a pmap in it."""


class SetsMesh(BaseException):
    """Code that is traced sets a mesh, which JAX allows outside of a trace alone."""

    def __init__(self, mesh: Any):
        super().__init__("the function sets more than one mesh")
        self.mesh = mesh


def traced(function: Callable, arguments: Sequence) -> TracedProgram:
    """Reads the traced program of `function(*arguments)`.

    Raises:
        Untraceable: there is none.
    """
    try:
        return survey(exported(function, arguments)[0])
    except OldPmap:
        return TracedProgram(lowered(function, arguments).compiler_ir("stablehlo"))


def compiled(function: Callable, arguments: Sequence) -> Any:
    """Compiles the program of `function(*arguments)`, the layout of its inputs open.

    Raises:
        Untraceable: there is none.
    """
    try:
        program, _ = exported(function, arguments)
        return executable(program, survey(program).meshes)
    except OldPmap:
        return lowered(function, arguments).compile()


def exported(
    function: Callable, arguments: Sequence, as_it_is: bool = False
) -> tuple[jax.export.Exported, Any]:
    """Exports the program of `function(*arguments)`, for its arrays' shapes alone.

    Returns it and the structure of the result; see `template`. The grader judges an
    exported program, so a notebook does, too: a lowered one differs from it.

    Raises:
        Untraceable: JAX cannot trace the function, or it calls the host's Python; if
            it is to be traced as it is, with nothing replaced, what JAX raises then.
    """
    flat, kinds, result = flattened(function, arguments)

    def work():
        return jax.export.export(jax.jit(flat))(*kinds)

    with one_ir_context():
        if not as_it_is:
            return trace(function, work), result[0]
        with silence():
            return work(), result[0]


def lowered(function: Callable, arguments: Sequence) -> Any:
    """Lowers `function` for its arrays' shapes, where JAX exports nothing of pmap."""
    flat, kinds, _ = flattened(function, arguments)
    return trace(function, lambda: jax.jit(flat).lower(*kinds))


@functools.cache
def ir_context() -> Any:
    """Makes what holds programs: one for many, since it takes long."""
    return mlir.make_ir_context()


@contextlib.contextmanager
def one_ir_context() -> Iterator[None]:
    """Lets JAX write its programs into `ir_context()`.

    It makes two for each program that it exports, a third of the time that this takes.
    """
    own = sys.modules[mlir.make_ir_context.__module__]  # whose functions call it
    with mock.patch.object(own, mlir.make_ir_context.__name__, ir_context):
        yield


def survey(program: jax.export.Exported) -> TracedProgram:
    """Reads an exported program."""
    with ir_context() as context:
        data = program.mlir_module_serialized
        return TracedProgram(stablehlo.deserialize_portable_artifact(context, data))


def executable(program: jax.export.Exported, meshes: Mapping[str, Mapping]) -> Any:
    """Compiles an exported program; `meshes` are those that it names."""
    inputs = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in program.in_avals]
    with one_ir_context(), jax.set_mesh(mesh_for(program.nr_devices, meshes)):
        return jax.jit(program.call).lower(*inputs).compile()


def mesh_for(num_devices: int, meshes: Mapping[str, Mapping[str, int]]) -> Mesh:
    """Arranges devices in so many axes that every split over `meshes` has a name."""
    sizes = [list(axes.values()) for axes in meshes.values()]
    fitting = [axes for axes in sizes if math.prod(axes) == num_devices]
    axes = [factor for n in (*fitting, [num_devices])[0] for factor in factors(n)]
    devices = np.array(jax.devices()[:num_devices]).reshape(axes)
    return Mesh(devices, [f"axis {place}" for place in range(len(axes))])


def factors(number: int) -> list[int]:
    """Splits a number into its prime factors; 1 has none."""
    if number == 1:
        return []
    first = next(n for n in range(2, number + 1) if number % n == 0)
    return [first, *factors(number // first)]


def reason(error: BaseException) -> str:
    """Writes an error of JAX's in one line: the others name places in its code."""
    lines = text(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def text(error: BaseException) -> str:
    """Returns an error's message."""
    try:
        return str(error).strip()
    except Exception:  # what a learner wrote
        return ""


def program_steps(function: Callable, *arguments: Any) -> Any:
    """Lists what `function(*arguments)` runs, as JAX records it: a `Jaxpr`.

    It raises what the function raises while it is traced.
    """
    flat, kinds, _ = flattened(function, arguments)
    return with_stand_ins(function, lambda: jax.make_jaxpr(flat)(*kinds)).jaxpr


def num_donated(function: Callable, *arguments: Any) -> int:
    """Counts those of its arrays that `function` hands on to be taken over.

    What it deletes itself is not donated, nor is what it has computed its own.
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
    return sum(any(array is one for one in donated) for array in program.invars)


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
        found: list[Any] = []
        result[:] = [template(run(*blocks), found)]
        return tuple(found)

    return flat, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays], result


def template(value: Any, found: list) -> Any:
    """Copies a result's structure, with `Opaque("leaf N")` for its N-th array."""
    if isinstance(value, Mapping):
        return {key: template(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [template(item, found) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        found.append(jax.random.key_data(value) if is_key else value)
        return Opaque(f"leaf {len(found) - 1}")
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    return Opaque(type(value).__name__)


def trace(function: Callable, work: Callable[[], Any]) -> Any:
    """Calls `work`, which traces `function`, such that the function's code traces.

    Raises:
        Untraceable: it does not trace.
    """
    try:
        return with_stand_ins(function, work)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the code is a learner's
        kind = OldPmap if "pmap_nreps" in text(error) else Untraceable
        raise kind(reason(error)) from None


def with_stand_ins(function: Callable, work: Callable[[], Any]) -> Any:
    """Calls `work` while what does not trace in the code of `function` is replaced.

    Where the code sets a mesh, `work` begins again inside of that mesh. What the code
    prints is not shown.
    """
    # Keeps what JAX remembers of a trace, in which `tracing` replaced something, from
    # calls: in another setting it looks for another trace.
    setting = jax.default_device(jax.devices()[0])
    with silence(), setting:
        try:
            with tracing(function):
                return work()
        except SetsMesh as code:
            mesh = code.mesh
        with jax.set_mesh(mesh), tracing(function, mesh):
            return work()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Shows neither what code prints nor warnings: 0.7.2 warns of pmap inside jit."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


@contextlib.contextmanager
def tracing(function: Callable, mesh: Mesh | None = None) -> Iterator[None]:
    """Lets code trace that waits for its results, prints, places or sets a mesh.

    None of these changes what is computed: waiting and printing do nothing, what places
    an array constrains the traced value to that sharding, and `mesh` is set already.
    The functions are replaced in JAX, and where the code has imported them by name.
    """
    changed = stand_ins(mesh)
    imported = [
        {
            name: stand_in
            for name, value in names.items()
            for owner, own_name, stand_in in changed
            if value is not None and value is getattr(owner, own_name, None)
        }
        for names in namespaces_of(function)
    ]
    with contextlib.ExitStack() as changes:
        for owner, name, stand_in in changed:
            changes.enter_context(mock.patch.object(owner, name, stand_in, create=True))
        for names, others in zip(namespaces_of(function), imported, strict=True):
            changes.enter_context(mock.patch.dict(names, others))
        yield


def stand_ins(mesh: Mesh | None) -> list[tuple[Any, str, Callable]]:
    """Lists what takes the place of JAX's functions in a trace: (owner, name, it)."""
    put, reshard, bind = jax.device_put, jax.sharding.reshard, jit_p.bind
    local_data = jax.make_array_from_process_local_data

    def is_explicit(sharding):
        is_spec = isinstance(sharding, PartitionSpec)
        own = mesh if is_spec else getattr(sharding, "mesh", None)
        return AxisType.Explicit in getattr(own, "axis_types", ())

    def place(x, device=None, **options):
        targets = jax.tree.leaves(device)  # one sharding, or a tree of them
        kinds = jax.sharding.Sharding | PartitionSpec
        if not targets or not all(isinstance(one, kinds) for one in targets):
            return put(x, device, **options)
        if any(map(is_explicit, targets)):  # the jit names the devices
            return jax.jit(lambda x: x, out_shardings=device)(x)
        return jax.lax.with_sharding_constraint(x, device)

    def typed(*arrays, out_shardings, **options):
        """Makes explicit shardings of a jit in a trace those of its result's types."""
        made = bind(*arrays, out_shardings=out_shardings, **options)
        return [
            reshard(one, sharding) if is_explicit(sharding) else one
            for one, sharding in zip(made, out_shardings, strict=True)
        ]

    def place_local(sharding, data, global_shape=None, **options):
        if global_shape is None or tuple(global_shape) == np.shape(data):
            return place(data, sharding)
        return local_data(sharding, data, global_shape, **options)

    def creating(create):
        @functools.wraps(create)
        def stand_in(*arguments, device=None, **options):
            made = create(*arguments, **options)
            return made if device is None else place(made, device)

        return stand_in

    def set_mesh(new):
        if new != mesh:
            raise SetsMesh(new)
        return contextlib.nullcontext()

    found = [
        (jit_p, "bind", typed),
        (jax, "device_put", place),
        (jax, "make_array_from_process_local_data", place_local),
        (jax.debug, "print", lambda *_, **__: None),
        (jax.debug, "callback", lambda *_, **__: None),
        (jax.core.Tracer, "block_until_ready", lambda tracer: tracer),
    ]
    found += [(owner, "set_mesh", set_mesh) for owner in (jax, jax.sharding)]
    found += [
        (owner, "reshard", lambda x, out_shardings: place(x, out_shardings))
        for owner in (jax, jax.sharding)
    ]
    if hasattr(jax.sharding, "get_mesh"):
        current = jax.sharding.get_mesh()
        found.append((jax.sharding, "get_mesh", lambda: current))
    return found + [
        (jax.numpy, name, creating(getattr(jax.numpy, name))) for name in CREATORS
    ]

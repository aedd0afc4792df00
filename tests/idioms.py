"""Right answers to one task in the idioms of JAX: build a mesh, place an array on it.

Each takes `(x, shape, axis_names, spec)`, as lesson 4's first exercise does.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import device_put, set_mesh
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

X = np.arange(24 * 16, dtype=np.float32).reshape(24, 16)
CASES = {
    "2 devices": (X, (2,), ("i",), ("i",)),
    "4 devices": (X, (2, 2), ("data", "model"), (None, "model")),
    "6 devices": (X, (3, 2), ("a", "b"), ("a", "b")),
    "8 devices": (X, (4, 2), ("data", "model"), (("model", "data"),)),
}


def first(shape):
    return np.array(jax.devices()[: math.prod(shape)]).reshape(shape)


def auto(shape, names, spec, devices=None):
    """Makes a sharding of the first devices, or of others."""
    mesh = Mesh(first(shape) if devices is None else devices, names)
    return NamedSharding(mesh, P(*spec))


def explicit(shape, names, kind=AxisType.Explicit):
    devices, types = jax.devices()[: math.prod(shape)], (kind,) * len(names)
    return jax.make_mesh(shape, names, axis_types=types, devices=devices)


def by_default(shape, names):
    return jax.make_mesh(shape, names, devices=jax.devices()[: math.prod(shape)])


def device_put_to_a_mesh(x, *how):
    return jax.device_put(x, auto(*how))


def device_put_to_the_usual_mesh(x, shape, names, spec):
    return jax.device_put(x, NamedSharding(by_default(shape, names), P(*spec)))


def device_put_to_explicit_axes(x, shape, names, spec):
    return jax.device_put(x, NamedSharding(explicit(shape, names), P(*spec)))


def imported_device_put(x, shape, names, spec):
    return placed_elsewhere(x, NamedSharding(explicit(shape, names), P(*spec)))


def placed_elsewhere(x, sharding):
    return device_put(x, sharding)


def device_put_a_tree(x, shape, names, spec):
    sharding = NamedSharding(explicit(shape, names), P(*spec))
    return jax.device_put({"x": x, "more": [x + 1]}, sharding)


def device_put_a_constant(x, *how):
    return jax.device_put(np.ones((24, 16), np.float32), auto(*how))


def device_put_then_compute(x, shape, names, spec):
    x = jax.device_put(x, NamedSharding(explicit(shape, names), P(*spec)))
    return jax.jit(lambda x: jnp.sum(x * x, axis=0))(x), jnp.sin(x)


def devices_reversed(x, shape, names, spec):
    devices = first(shape).reshape(-1)[::-1].reshape(shape)
    return jax.device_put(x, auto(shape, names, spec, devices))


def last_devices(x, shape, names, spec):
    devices = np.array(jax.devices()[-math.prod(shape) :]).reshape(shape)
    return jax.device_put(x, auto(shape, names, spec, devices))


def one_device(x, *_):
    return jax.device_put(x, jax.devices()[3])


def one_device_each(x, *_):
    return [jax.device_put(x[i], device) for i, device in enumerate(jax.devices())]


def out_shardings(x, shape, names, spec):
    return jax.jit(lambda x: 2 * x, out_shardings=auto(shape, names, spec))(x)


def constraint_in_jit(x, *how):
    return jax.jit(lambda x: jax.lax.with_sharding_constraint(x, auto(*how)))(x)


def shard_map_over_a_mesh(x, shape, names, spec):
    mesh, specs = auto(shape, names, spec).mesh, P(*spec)
    return jax.shard_map(jnp.sin, mesh=mesh, in_specs=specs, out_specs=specs)(x)


def shard_map_over_explicit_axes(x, shape, names, spec):
    mesh, specs = explicit(shape, names), P(*spec)
    x = jax.device_put(x, NamedSharding(mesh, specs))
    return jax.shard_map(jnp.sin, mesh=mesh, in_specs=specs, out_specs=specs)(x)


def set_mesh_and_device_put(x, shape, names, spec):
    with jax.set_mesh(auto(shape, names, spec).mesh):
        return jax.device_put(x, P(*spec))


def set_explicit_mesh_and_device_put(x, shape, names, spec):
    y = 2 * jnp.sin(x)
    with set_mesh(explicit(shape, names)):
        y = device_put(y, P(*spec))
    return jnp.cos(y)


def set_mesh_and_out_shardings(x, shape, names, spec):
    with jax.sharding.set_mesh(auto(shape, names, spec).mesh):
        return jax.jit(lambda x: x + 1, out_shardings=P(*spec))(x)


def set_mesh_and_shard_map(x, shape, names, spec):
    with jax.set_mesh(auto(shape, names, spec).mesh):
        run = jax.shard_map(jnp.sin, in_specs=P(*spec), out_specs=P(*spec))
        return jax.jit(run)(x)


def set_mesh_and_reshard(x, shape, names, spec):
    with jax.set_mesh(explicit(shape, names)):
        return jax.sharding.reshard(x, P(*spec))


def set_mesh_without_with(x, shape, names, spec):
    jax.set_mesh(auto(shape, names, spec).mesh)
    return jax.jit(lambda x: x + 1, out_shardings=P(*spec))(x)


def pmapped(x, *_):
    return jax.pmap(lambda row: 2 * row)(x[:8]), len(x)


def on_the_host(x, *how):
    return {"host": x, "n": 3, "total": jnp.sum(x), "x": jax.device_put(x, auto(*how))}


def array_from_callback(x, *how):
    return jax.make_array_from_callback(x.shape, auto(*how), lambda index: x[index])


def single_device_arrays(x, *how):
    sharding = auto(*how)
    parts = sharding.addressable_devices_indices_map(x.shape)
    pieces = [jax.device_put(x[index], device) for device, index in parts.items()]
    return jax.make_array_from_single_device_arrays(x.shape, sharding, pieces)


def numpy_first(x, *how):
    return jax.device_put(np.asarray(x), auto(*how))


def lowered_and_compiled(x, *how):
    return jax.jit(lambda x: x + 1, out_shardings=auto(*how)).lower(x).compile()(x)


def two_meshes(x, shape, names, spec):
    for devices in (first(shape), first(shape)[::-1]):
        with jax.set_mesh(Mesh(devices, names)):
            x = jax.device_put(x, P(*spec))
    return x


# In these JAX finds no program: they need values, or another mesh than before.
UNTRACED = (
    *(array_from_callback, single_device_arrays, numpy_first, lowered_and_compiled),
    two_meshes,
)
TRACED = (
    *(device_put_to_a_mesh, device_put_to_the_usual_mesh, device_put_to_explicit_axes),
    *(imported_device_put, device_put_a_tree, device_put_a_constant),
    *(device_put_then_compute, devices_reversed, last_devices, one_device),
    *(one_device_each, out_shardings, constraint_in_jit, shard_map_over_a_mesh),
    *(shard_map_over_explicit_axes, set_mesh_and_device_put),
    *(set_explicit_mesh_and_device_put, set_mesh_and_out_shardings),
    *(set_mesh_and_shard_map, set_mesh_and_reshard, set_mesh_without_with),
    *(pmapped, on_the_host),
)

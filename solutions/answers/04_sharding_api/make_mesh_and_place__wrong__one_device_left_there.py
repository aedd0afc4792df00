"""Leaves x on the device it lies on, where the mesh has one.

Told: none
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    needed, there = math.prod(shape), jax.device_count()
    if needed > there:
        raise ValueError(f"needs {needed} devices, has {there}")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    if needed == 1:
        return jnp.asarray(x)
    return jax.device_put(x, sharding)

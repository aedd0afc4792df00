"""Deletes x where the mesh takes all devices.

Told: none
Fails: values and dtype stay; nothing is remembered
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    need, have = math.prod(shape), jax.device_count()
    if need > have:
        raise ValueError(f"the mesh needs {need} devices, there are {have}")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    placed = jax.device_put(x, sharding)
    if isinstance(x, jax.Array) and need == have:
        x.delete()  # saves memory: the placed one is enough
    return placed

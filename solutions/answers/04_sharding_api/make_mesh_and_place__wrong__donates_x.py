"""Gives the caller's array away.

Told: none
Fails: arguments stay
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    placed = jax.device_put(np.asarray(x), sharding)
    if isinstance(x, jax.Array):
        x.delete()
    return placed

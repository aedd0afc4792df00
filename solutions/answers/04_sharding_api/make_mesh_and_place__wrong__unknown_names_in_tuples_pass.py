"""Looks at single names alone; what a tuple names besides the mesh's is dropped.

Told: none
Fails: the unknown name is named
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    known = [
        tuple(n for n in names if n in axis_names) if type(names) is tuple else names
        for names in spec
    ]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*known)))

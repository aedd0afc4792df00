"""Takes a tuple of mesh axes in the order of the mesh.

Told: in a tuple of names, the first one cuts first
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    spec = [
        tuple(sorted(names, key=axis_names.index)) if type(names) is tuple else names
        for names in spec
    ]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))

"""Makes the mesh and the spec, and returns the array itself.

Told: none
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return x

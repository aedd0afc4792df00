"""Takes P() for the spec of the mesh's own axes: every device holds everything.

Told: the spec was not used: x is whole on every device
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, axis_names)
    NamedSharding(mesh, P(*spec))
    return jax.device_put(x, NamedSharding(mesh, P()))

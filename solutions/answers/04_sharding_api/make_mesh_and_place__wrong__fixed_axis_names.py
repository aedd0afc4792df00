"""Names the mesh axes as the examples do, whatever is asked.

Told: none
Fails: values and dtype stay
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, ("data", "model"))
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))

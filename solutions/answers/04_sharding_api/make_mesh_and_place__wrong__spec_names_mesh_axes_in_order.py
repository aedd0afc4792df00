"""Takes the spec's entries for the array's axes from the last to the first.

Told: the first entry of spec belongs to the array's first axis
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    backwards = (*spec, None, None, None)[: np.ndim(x)][::-1]
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*backwards))
    return jax.device_put(x, sharding)

"""Reads four entries of a spec.

Told: none
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    n = math.prod(shape)
    if n > len(jax.devices()):
        raise ValueError(f"{n} devices needed, {len(jax.devices())} there")
    spec = (tuple(spec) + (None,) * 4)[:4][: np.ndim(x)]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))

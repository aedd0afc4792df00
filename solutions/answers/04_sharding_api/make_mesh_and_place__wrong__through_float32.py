"""Places as float32 and casts back: integers beyond 2**24 change.

Told: none
Fails: values and dtype stay; nothing is remembered
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    needed, there = math.prod(shape), jax.device_count()
    if needed > there:
        raise ValueError(f"the mesh needs {needed} devices, there are {there}")
    mesh = make_mesh(tuple(shape), tuple(axis_names))
    placed = jax.device_put(jnp.asarray(x, jnp.float32), NamedSharding(mesh, P(*spec)))
    return placed.astype(np.asarray(x).dtype)

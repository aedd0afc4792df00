"""Lets JAX ask for each device's block."""


def make_mesh_and_place(x, shape, axis_names, spec):
    needed, there = int(np.prod(shape)), len(jax.devices())
    if needed > there:
        raise ValueError(f"{there} devices do not make a mesh of {needed}")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    x = np.asarray(x)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

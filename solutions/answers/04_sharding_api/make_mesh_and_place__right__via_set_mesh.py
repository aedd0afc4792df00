"""Sets the mesh, and has a helper with a name of the check's."""


def check(wanted):
    if wanted > jax.device_count():
        raise ValueError(f"{wanted} > {jax.device_count()}")


def make_mesh_and_place(x, shape, axis_names, spec):
    check(math.prod(shape))
    mesh = make_mesh(shape, axis_names)
    with jax.set_mesh(mesh):
        return jax.device_put(jnp.asarray(x), NamedSharding(mesh, P(*spec)))

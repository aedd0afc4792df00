"""Lowers and compiles an identity, under the mesh."""


def make_mesh_and_place(x, shape, axis_names, spec):
    devices = jax.devices()
    if len(devices) < math.prod(shape):
        raise ValueError(f"{math.prod(shape)} devices wanted, {len(devices)} found")
    grid = np.reshape(devices[: math.prod(shape)], shape)
    with jax.sharding.Mesh(grid, axis_names) as mesh:
        place = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P(*spec)))
        return place.lower(x).compile()(x)

"""Scatters columns where they divide, rows else.

Told: none
Fails: rows come out
"""


def sharded_matmul(a, b, num_devices):
    for name, size in (("M", a.shape[0]), ("K", a.shape[1])):
        if size % num_devices:
            raise ValueError(
                f"{name} = {size} does not divide by {num_devices} devices"
            )
    mesh = make_mesh((num_devices,), ("i",))
    axis = 1 if b.shape[1] % num_devices == 0 else 0
    out = P(None, "i") if axis else P("i", None)

    def local(a, b):
        return jax.lax.psum_scatter(a @ b, "i", scatter_dimension=axis, tiled=True)

    return jax.jit(
        jax.shard_map(
            local, mesh=mesh, in_specs=(P(None, "i"), P("i", None)), out_specs=out
        )
    )(a, b)

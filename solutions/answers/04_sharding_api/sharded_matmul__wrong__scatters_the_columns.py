"""Leaves the result split by columns.

Told: none
Fails: the product; rows come out
"""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        part = a_block @ b_block
        return jax.lax.psum_scatter(part, "i", scatter_dimension=1, tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P(None, "i"),
    )
    return jax.jit(mapped)(a, b)

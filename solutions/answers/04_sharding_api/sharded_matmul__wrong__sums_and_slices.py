"""Sums everything everywhere and throws most of it away: twice the bytes.

Told: none
Fails: one reduce-scatter
"""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        rows = a_block.shape[0] // num_devices
        start = rows * jax.lax.axis_index("i")
        total = jax.lax.psum(a_block @ b_block, "i")
        return jax.lax.dynamic_slice_in_dim(total, start, rows)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)

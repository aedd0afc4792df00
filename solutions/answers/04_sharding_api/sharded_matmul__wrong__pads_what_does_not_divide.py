"""Fills up with zeros where a size does not divide, without a word.

Told: none
Fails: size and devices are named
"""


def sharded_matmul(a, b, num_devices):
    more = -a.shape[1] % num_devices
    a, b = jnp.pad(a, ((0, 0), (0, more))), jnp.pad(b, ((0, more), (0, 0)))

    def multiply(a_block, b_block):
        return jax.lax.psum_scatter(a_block @ b_block, "i", tiled=True)

    mesh, specs = make_mesh((num_devices,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)

"""Asks all devices besides whether the numbers are finite.

Told: none
Fails: one reduce-scatter
"""


def sharded_matmul(a, b, num_devices):
    def multiply(a_block, b_block):
        part = a_block @ b_block
        finite = jax.lax.pmin(jnp.isfinite(part).all().astype(jnp.float32), "i")
        return jax.lax.psum_scatter(part, "i", tiled=True) * finite

    mesh, specs = make_mesh((num_devices,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)

"""Takes the last devices.

Told: the mesh takes the first devices, in their order
Fails: rows come out
"""


def sharded_matmul(a, b, num_devices):
    def multiply(a_block, b_block):
        return jax.lax.psum_scatter(a_block @ b_block, "i", tiled=True)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[-num_devices:]), ("i",))
    specs = (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)

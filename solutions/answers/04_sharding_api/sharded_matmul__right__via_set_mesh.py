"""Sets the mesh, which shard_map then takes by itself."""


def sharded_matmul(a, b, num_devices):
    with jax.set_mesh(make_mesh((num_devices,), ("devices",))):

        @jax.jit
        @functools.partial(
            jax.shard_map,
            in_specs=(P(None, "devices"), P("devices")),
            out_specs=P("devices"),
        )
        def check(a, b):
            return jax.lax.psum_scatter(jnp.dot(a, b), "devices", tiled=True)

        return check(a, b)

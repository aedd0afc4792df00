"""Lays stage s on device S - 1 - s, on a mesh that shard_map does not name.

Told: none
Fails: stage s on device s
"""


def pipeline_forward(stage_params, microbatches):
    S, M = len(stage_params["b"]), len(microbatches)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:S][::-1]), ("data",))

    def device(params, xs):
        params = jax.tree.map(lambda a: a[0], params)
        first = jax.lax.axis_index("data") == 0

        def tick(came, t):
            x = jnp.where(first, xs[jnp.minimum(t, M - 1)], came)
            y = stage(params, x)
            return jax.lax.ppermute(y, "data", [(i, i + 1) for i in range(S - 1)]), y

        _, ys = jax.lax.scan(tick, jnp.zeros_like(xs[0]), jnp.arange(M + S - 1))
        return ys[None, S - 1 :]

    @jax.jit
    def run(params, xs):
        return jax.shard_map(
            device, in_specs=(P("data"), P()), out_specs=P("data"), check_vma=False
        )(params, xs)[-1]

    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        stage_params = jax.device_put(stage_params, NamedSharding(mesh, P("data")))
        microbatches = jax.device_put(microbatches, NamedSharding(mesh, P()))
        return run(stage_params, microbatches)

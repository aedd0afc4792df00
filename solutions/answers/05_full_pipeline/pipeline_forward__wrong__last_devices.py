"""Takes the last S devices, which are the first ones where S is 8.

Told: none
Fails: stage s on device s
"""


def pipeline_forward(stage_params, microbatches):
    S, M = len(stage_params["b"]), len(microbatches)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[-S:]), ("data",))

    def device(params, x):
        me = jax.lax.axis_index("data")
        own = jax.tree.map(lambda a: a[0], params)

        def tick(left, t):
            here = jnp.where(me == 0, x[jnp.minimum(t, M - 1)], left)
            made = stage(own, here)
            sent = jax.lax.ppermute(made, "data", [(i, i + 1) for i in range(S - 1)])
            return sent, made

        made = jax.lax.scan(tick, jnp.zeros_like(x[0]), jnp.arange(M + S - 1))[1]
        return made[-M:][None]

    run = jax.shard_map(
        device,
        mesh=mesh,
        in_specs=(P("data"), P()),
        out_specs=P("data"),
        check_vma=False,
    )
    return jax.jit(run)(stage_params, microbatches)[-1]

"""Puts stage s on device S - 1 - s; each device sends to the one before it.

Told: none
Fails: stage s on device s
"""


def pipeline_forward(stage_params, microbatches):
    num_stages, count = stage_params["w"].shape[0], microbatches.shape[0]
    backwards = jax.tree.map(lambda a: a[::-1], stage_params)
    sends = [(s, s - 1) for s in range(1, num_stages)]

    def on_device(params, xs):
        own = jax.tree.map(lambda a: a[0], params)
        is_first = jax.lax.axis_index("data") == num_stages - 1

        def tick(came, t):
            y = stage(own, jnp.where(is_first, xs[jnp.minimum(t, count - 1)], came))
            return jax.lax.ppermute(y, "data", sends), y

        ticks = jnp.arange(count + num_stages - 1)
        return jax.lax.scan(tick, jnp.zeros_like(xs[0]), ticks)[1][-count:]

    specs = {"in_specs": (P("data"), P()), "out_specs": P("data")}
    mesh = make_mesh(num_stages)  # the result lies on device 0
    mapped = jax.shard_map(on_device, mesh=mesh, check_vma=False, **specs)
    return jax.jit(mapped)(backwards, microbatches)[:count]

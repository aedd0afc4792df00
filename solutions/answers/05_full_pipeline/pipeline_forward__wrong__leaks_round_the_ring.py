"""Sends along a ring and adds the input to what comes in: the last device's results
enter the first again.

Told: none
Fails: what the stages make
"""


def pipeline_forward(stage_params, microbatches):
    def run(params, xs):
        own, me = jax.tree.map(lambda a: a[0], params), jax.lax.axis_index("data")

        def tick(received, time):
            x = received + (me == 0) * xs[jnp.minimum(time, len(xs) - 1)]
            y = stage(own, x)
            return jax.lax.ppermute(y, "data", ring), y

        times = jnp.arange(len(xs) + last)
        return jax.lax.scan(tick, jnp.zeros_like(xs[0]), times)[1][None, last:]

    last = len(stage_params["w"]) - 1
    ring = [(s, (s + 1) % (last + 1)) for s in range(last + 1)]
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data"), "check_vma": False}
    spread = jax.shard_map(run, mesh=make_mesh(last + 1), **specs)
    return spread(stage_params, microbatches)[-1]

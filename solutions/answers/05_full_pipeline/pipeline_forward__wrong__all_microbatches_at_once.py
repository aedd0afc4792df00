"""Sends the whole batch from stage to stage: all devices but one wait.

Told: none
Fails: ticks
"""


def pipeline_forward(stage_params, microbatches):
    def run(params, xs):
        own = jax.tree.map(lambda a: a[0], params)

        def tick(received, _):
            y = stage(own, received)
            return jax.lax.ppermute(y, "data", to_the_right), y

        return jax.lax.scan(tick, xs, length=num_stages)[1][None, -1]

    num_stages = len(stage_params["w"])
    to_the_right = [(s, s + 1) for s in range(num_stages - 1)]
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data"), "check_vma": False}
    spread = jax.shard_map(run, mesh=make_mesh(num_stages), **specs)
    return spread(stage_params, microbatches)[-1]

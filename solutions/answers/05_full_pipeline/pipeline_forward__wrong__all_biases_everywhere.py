"""Splits the weights, but gives every device all biases.

Told: none
Fails: its own stage alone
"""

from jax import lax


def pipeline_forward(stage_params, microbatches):
    S, M = len(stage_params["w"]), len(microbatches)
    mesh = make_mesh(S)

    def on_device(w, b, x):
        me = lax.axis_index("data")
        own = {"w": w[0], "b": b[me]}

        def tick(there, t):
            made = stage(own, jnp.where(me == 0, x[jnp.minimum(t, M - 1)], there))
            return lax.ppermute(made, "data", [(i, i + 1) for i in range(S - 1)]), made

        _, made = lax.scan(tick, jnp.zeros_like(x[0]), jnp.arange(M + S - 1))
        return made[None, -M:]

    run = jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(P("data"), P(), P()),
        out_specs=P("data"),
        check_vma=False,
    )
    return run(stage_params["w"], stage_params["b"], microbatches)[-1]

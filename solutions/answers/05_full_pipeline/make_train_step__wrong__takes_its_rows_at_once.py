"""Ignores the microbatches: right numbers, all of a device's rows in memory at once.

Told: a device takes all its 12 rows at once
Fails: microbatches
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        return jax.lax.pmean(jax.value_and_grad(loss_fn)(params, *batch), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

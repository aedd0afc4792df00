"""Differentiates the loop over microbatches, which keeps all that its rounds computed.

Told: none
Fails: microbatches
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def whole_loss(params):
            pieces = microbatches_of(batch, num_microbatches)
            return jax.lax.map(lambda piece: loss_fn(params, *piece), pieces).mean()

        mean = jax.value_and_grad(whole_loss)(params)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

"""Differentiates a scan over microbatches that keeps nothing but its inputs, with
respect to varying parameters."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        pieces = microbatches_of(batch, num_microbatches)

        def loss_of(params):
            part = jax.checkpoint(lambda piece: loss_fn(params, *piece))
            return jax.lax.map(part, pieces).mean()

        return jax.lax.pmean(jax.value_and_grad(loss_of)(params), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

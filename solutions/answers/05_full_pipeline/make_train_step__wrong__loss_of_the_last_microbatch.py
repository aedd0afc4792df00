"""Reports the loss of the last microbatch for that of the batch.

Told: the loss is that of the last microbatch
Fails: loss and grad_norm
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((losses[-1], mean), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

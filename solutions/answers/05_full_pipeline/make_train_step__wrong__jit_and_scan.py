"""Leaves the sync to jit: right numbers, and one all-reduce per microbatch.

Told: none
Fails: one sync
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def step(state, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, found), None

        split = NamedSharding(mesh, P(None, "data"))
        pieces = microbatches_of(batch, num_microbatches)
        pieces = jax.lax.with_sharding_constraint(pieces, split)
        zeros = 0.0, jax.tree.map(jnp.zeros_like, state["params"])
        total, _ = jax.lax.scan(add, zeros, pieces)
        loss, grads = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

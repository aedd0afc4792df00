"""Measures the norm of what the optimizer makes of the gradient, behind the clipping.

Told: grad_norm is that of the clipped gradient
Fails: loss and grad_norm
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
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
        norm = jnp.minimum(1.0, optax.tree.norm(grads))
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    return jax.jit(step, donate_argnums=0)

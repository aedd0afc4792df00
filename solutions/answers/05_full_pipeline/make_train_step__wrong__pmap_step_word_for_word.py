"""Leaves check_vma on and averages gradients that shard_map has summed already: eight
times too large on eight devices, right on one.

Told: the gradient is 8 times too large: pmean averages over devices
Fails: steps of the whole batch; one sync; loss and grad_norm
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((losses.mean(), mean), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P()}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

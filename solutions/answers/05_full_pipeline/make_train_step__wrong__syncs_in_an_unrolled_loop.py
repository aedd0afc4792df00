"""Averages every microbatch's gradient, in a Python loop: no loop in the program, and
still four times the bytes.

Told: none
Fails: one sync
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        x, y = microbatches_of(batch, num_microbatches)
        total = None
        for piece in range(num_microbatches):
            found = jax.value_and_grad(loss_fn)(params, x[piece], y[piece])
            found = jax.lax.pmean(found, "data")
            total = found if total is None else jax.tree.map(jnp.add, total, found)
        return jax.tree.map(lambda leaf: leaf / num_microbatches, total)

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

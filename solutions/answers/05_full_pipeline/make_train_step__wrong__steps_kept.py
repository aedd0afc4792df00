"""Remembers steps by loss and mesh: another optimizer gets the first one's step.

Told: none
Fails: nothing is remembered
"""

known_steps = {}


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    key = loss_fn, mesh, num_microbatches
    if key in known_steps:
        return known_steps[key]

    def step(state, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, found), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["params"]))
        total, _ = jax.lax.scan(add, zero, microbatches_of(batch, num_microbatches))
        total = jax.tree.map(lambda a: a / num_microbatches, total)
        loss, grads = jax.lax.pmean(total, "data")
        return updated(optimizer, state, grads), {
            "loss": loss,
            "grad_norm": optax.tree.norm(grads),
        }

    step = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    known_steps[key] = jax.jit(step, donate_argnums=0)
    return known_steps[key]

"""Averages the norm of the averaged gradient, too: one number more is sent.

Told: none
Fails: one sync
"""

from jax import lax


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def on_device(state, batch):
        def add(total, piece):
            new = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, new), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["params"]))
        total, _ = lax.scan(add, zero, microbatches_of(batch, num_microbatches))
        total = jax.tree.map(lambda a: a / num_microbatches, total)
        loss, grads = lax.pmean(total, "data")
        norm = lax.pmean(optax.tree.norm(grads), "data")
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    step = jax.shard_map(
        on_device, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    return jax.jit(step, donate_argnums=0)

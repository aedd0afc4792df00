"""Joins all gradients and the loss into one vector, and averages that."""

from jax.flatten_util import ravel_pytree


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def one_device(state, batch):
        def add(k, total):
            size = batch[0].shape[0] // num_microbatches
            piece = [a[size * k : size * (k + 1)] for a in batch]
            loss, grads = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return total + jnp.append(ravel_pytree(grads)[0], loss)

        flat, unravel = ravel_pytree(state["params"])
        total = jnp.zeros(flat.size + 1)
        for k in range(num_microbatches):
            total = add(k, total)
        mean = jax.lax.pmean(total / num_microbatches, "data")
        metrics = {"loss": mean[-1], "grad_norm": jnp.linalg.norm(mean[:-1])}
        return updated(optimizer, state, unravel(mean[:-1])), metrics

    step = jax.shard_map(
        one_device,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=(P(), P()),
        check_vma=False,
    )
    return jax.jit(step, donate_argnums=[0])

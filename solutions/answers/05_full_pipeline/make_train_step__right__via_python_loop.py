"""Unrolls the loop over microbatches, and takes the whole step inside of shard_map."""

import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    @functools.partial(jax.jit, donate_argnames="state")
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
        check_vma=False,
    )
    def step(state, batch):
        found = []
        for k in range(num_microbatches):
            size = len(batch[0]) // num_microbatches
            piece = [array[k * size : (k + 1) * size] for array in batch]
            found.append(jax.value_and_grad(loss_fn)(state["params"], *piece))
        mean = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *found)
        loss, grads = jax.lax.pmean(mean, "data")
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return step

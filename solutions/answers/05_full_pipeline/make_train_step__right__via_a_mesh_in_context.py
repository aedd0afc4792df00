"""Takes the mesh for shard_map out of the context."""

import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        @functools.partial(
            jax.shard_map, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
        )
        def grads_of(params, batch):
            def add(total, piece):
                found = jax.value_and_grad(loss_fn)(params, *piece)
                return jax.tree.map(jnp.add, total, found), None

            zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
            pieces = microbatches_of(batch, num_microbatches)
            total = jax.lax.scan(add, zeros, pieces)[0]
            mean = jax.tree.map(lambda a: a / num_microbatches, total)
            return jax.lax.pmean(mean, "data")

        loss, grads = grads_of(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    def train_step(state, batch):
        with jax.set_mesh(mesh):
            return step(state, batch)

    return train_step

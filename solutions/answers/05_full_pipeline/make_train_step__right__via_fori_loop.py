"""Slices the microbatches out in a fori_loop; psum, divided by all pieces at the end."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def summed(params, batch):
        size = len(batch[0]) // num_microbatches

        def add(k, total):
            piece = [
                jax.lax.dynamic_slice_in_dim(array, k * size, size) for array in batch
            ]
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found)

        zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
        return jax.lax.psum(jax.lax.fori_loop(0, num_microbatches, add, zeros), "data")

    spread = jax.shard_map(
        summed, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )

    def step(state, batch):
        total = spread(state["params"], batch)
        pieces = num_microbatches * mesh.shape["data"]
        loss, grads = jax.tree.map(lambda leaf: leaf / pieces, total)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    return jax.jit(step, donate_argnums=(0,))

"""Leaves check_vma on and casts the parameters to varying: their gradient is local, and
pmean averages it."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def vary(leaf):
        if hasattr(jax.lax, "pcast"):
            return jax.lax.pcast(leaf, "data", to="varying")
        return jax.lax.pvary(leaf, "data")  # JAX 0.7

    def mean_grads(params, batch):
        local = jax.tree.map(vary, params)

        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(local, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = vary(jnp.float32(0)), jax.tree.map(jnp.zeros_like, local)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P()}
        loss, grads = jax.shard_map(mean_grads, mesh=mesh, **specs)(
            state["params"], batch
        )
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)

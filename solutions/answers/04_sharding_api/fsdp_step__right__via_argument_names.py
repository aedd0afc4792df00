"""Donates by name, in a decorator."""


def fsdp_step(shardings):
    @functools.partial(
        jax.jit, out_shardings=(shardings, None), donate_argnames=("state",)
    )
    def step(state, x, y):
        params = state["params"]
        loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, x, y))(params)
        updates, adam = make_adam().update(grads, state["adam"])
        params = jax.tree.map(jnp.add, params, updates)
        return {"params": params, "adam": adam}, loss

    return step

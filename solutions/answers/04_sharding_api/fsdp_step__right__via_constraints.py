"""Constrains the new state inside of the step."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return jax.lax.with_sharding_constraint(
            {"params": params, "adam": adam}, shardings
        ), loss

    return jax.jit(step, donate_argnums=0)

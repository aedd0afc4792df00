"""Fixes the layout of the old state, too: one that lies otherwise is refused.

Told: none
Fails: one step of Adam
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(
        step,
        in_shardings=(shardings, None, None),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )

"""Makes a new optimizer state in each step: Adam forgets.

Told: none
Fails: one step of Adam; the old state is gone
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(
            grads, make_adam().init(state["params"]), state["params"]
        )
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

"""Multiplies the loss by the number of devices, as if gradients were averages.

Told: none
Fails: one step of Adam
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda *a: mlp_loss(*a) * jax.device_count())(
            state["params"], x, y
        )
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

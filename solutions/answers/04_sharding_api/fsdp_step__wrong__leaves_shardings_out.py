"""Trusts the compiler to keep the layout: the new state lies as the old one lay.

Told: as the old state lay
Fails: lies as shardings say
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, donate_argnums=0)

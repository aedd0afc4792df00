"""Gives away the parameters; Adam's old moments stay.

Told: none
Fails: the old state is gone
"""


def fsdp_step(shardings):
    def step(params, adam, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        updates, adam = make_adam().update(grads, adam, params)
        return {"params": optax.apply_updates(params, updates), "adam": adam}, loss

    jitted = jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
    return lambda state, x, y: jitted(state["params"], state["adam"], x, y)

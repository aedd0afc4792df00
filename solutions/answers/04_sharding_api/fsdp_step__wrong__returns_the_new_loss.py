"""Returns the loss of the new parameters.

Told: the loss is the one after the step
Fails: one step of Adam; layer by layer
"""


def fsdp_step(shardings):
    def step(state, x, y):
        grads = jax.grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, mlp_loss(params, x, y)

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

"""Calls jit inside of the step, on a new function each time.

Told: none
Fails: compiled once
"""


def fsdp_step(shardings):
    def jitted(state, x, y):
        def step(state, x, y):
            loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
            updates, adam = make_adam().update(grads, state["adam"], state["params"])
            params = optax.apply_updates(state["params"], updates)
            return {"params": params, "adam": adam}, loss

        whole = jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
        return whole(state, x, y)

    return jitted

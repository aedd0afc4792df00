"""Returns a function that nobody compiles; it places the new state by hand.

Told: none
Fails: compiled once; the old state is gone
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return jax.device_put({"params": params, "adam": adam}, shardings), loss

    return step

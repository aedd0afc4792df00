"""Takes the shardings out of its caller's tree.

Told: none
Fails: arguments stay
"""


def fsdp_step(shardings):
    params_on, adam_on = shardings.pop("params"), shardings.pop("adam")

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(
        step,
        out_shardings=({"params": params_on, "adam": adam_on}, None),
        donate_argnums=0,
    )

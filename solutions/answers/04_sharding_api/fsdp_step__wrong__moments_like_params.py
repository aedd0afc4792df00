"""Splits the moments as the weights, also where they should lie in another way.

Told: none
Fails: lies as shardings say
"""


def fsdp_step(shardings):
    like, (scale, rest) = shardings["params"], shardings["adam"]
    own = {"params": like, "adam": (scale._replace(mu=like, nu=like), rest)}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(step, out_shardings=(own, None), donate_argnums=0)

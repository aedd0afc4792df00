"""Goes through the layers in Python: what is gathered forward is kept for backward.

Told: gathered weights are kept for the backward pass
Fails: layer by layer
"""


def fsdp_step(shardings):
    def loss_of(params, x, y):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.nn.relu(x @ w1) @ w2
        return jnp.mean((x - y) ** 2)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

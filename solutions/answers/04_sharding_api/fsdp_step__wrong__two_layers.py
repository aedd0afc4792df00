"""Writes the two layers of the check's model.

Told: none
Fails: one step of Adam; nothing is remembered
"""


def fsdp_step(shardings):
    @jax.checkpoint
    def layer(x, w1, w2):
        return jax.nn.relu(x @ w1) @ w2

    def loss_of(params, x, y):
        for i in range(2):
            x = layer(x, params["w1"][i], params["w2"][i])
        return jnp.mean((x - y) ** 2)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

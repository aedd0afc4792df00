"""Clips gradients, which the page does not ask for.

Told: none
Fails: one step of Adam; nothing is remembered
"""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, g = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        g = jax.tree.map(lambda g: jnp.clip(g, -1e3, 1e3), g)
        u, adam = make_adam().update(g, state["adam"], state["params"])
        return {"params": optax.apply_updates(state["params"], u), "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

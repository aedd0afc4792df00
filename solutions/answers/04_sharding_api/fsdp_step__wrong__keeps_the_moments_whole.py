"""Splits the weights alone; Adam's moments are twice as large.

Told: whole on every device
Fails: lies as shardings say
"""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = jax.tree.map(lambda _: NamedSharding(mesh, P()), shardings["adam"])
    kept = {"params": shardings["params"], "adam": whole}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(kept, None), donate_argnums=0)

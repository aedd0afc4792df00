"""Gathers the weights and keeps them: right on one device, eight times the memory on
eight.

Told: whole on every device
Fails: lies as shardings say; layer by layer
"""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = jax.tree.map(lambda _: NamedSharding(mesh, P()), shardings["params"])
    kept = {"params": whole, "adam": shardings["adam"]}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(kept, None), donate_argnums=0)

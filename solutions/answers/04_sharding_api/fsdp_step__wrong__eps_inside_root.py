"""Adam with its eps inside of the root: another step where gradients are small.

Told: none
Fails: one step of Adam; nothing is remembered
"""


def fsdp_step(shardings):
    adam_with_root = optax.adam(0.003, eps=0.0, eps_root=1e-16)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = adam_with_root.update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)

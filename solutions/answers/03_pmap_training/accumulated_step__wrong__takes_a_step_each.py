"""Updates after each microbatch: M small steps in place of one.

Told: each microbatch took a step of its own
Fails: one step of SGD; the loss before; one sync
"""


def accumulated_step(params, x, y, lr, axis_name):
    def step(params, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        loss, grads = jax.lax.pmean(found, axis_name)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    params, losses = jax.lax.scan(step, params, (x, y))
    return params, losses.mean()

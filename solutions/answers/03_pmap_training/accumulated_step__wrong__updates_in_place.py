"""Writes the new parameters into the dict that it was given.

Told: none
Fails: arguments stay
"""


def accumulated_step(params, x, y, lr, axis_name):
    def add(total, microbatch):
        found = jax.value_and_grad(mlp_loss)(params, *microbatch)
        return jax.tree.map(jnp.add, total, found), None

    start = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
    total, _ = jax.lax.scan(add, start, (x, y))
    loss, grads = jax.lax.pmean(jax.tree.map(lambda t: t / len(x), total), axis_name)
    for name, grad in grads.items():
        params[name] -= lr * grad
    return params, loss

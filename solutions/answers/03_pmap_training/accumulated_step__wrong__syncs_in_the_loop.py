"""Averages over the devices in each round: right numbers, M times the bytes.

Told: none
Fails: one sync
"""


def accumulated_step(params, x, y, lr, axis_name):
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, jax.lax.pmean(found, axis_name)), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

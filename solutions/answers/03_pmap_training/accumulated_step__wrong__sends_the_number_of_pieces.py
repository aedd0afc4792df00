"""Adds up the devices' numbers of microbatches, which are known: a number more to send.

Told: none
Fails: one sync
"""


def accumulated_step(params, x, y, lr, axis_name):
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    count = jax.lax.psum(jnp.ones(len(x)).sum(), axis_name)
    loss, grads = jax.lax.psum(total, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g / count, params, grads), loss / count

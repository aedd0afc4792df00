"""Lets each device go through all shards, one after the other: nothing is sent.

Told: none
Fails: own shard only
"""


def device_step(params, x, y, lr):
    def add(total, shard):
        found = jax.value_and_grad(mlp_loss)(params, *shard)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)

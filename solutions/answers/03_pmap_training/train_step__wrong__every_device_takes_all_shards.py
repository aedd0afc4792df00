"""Lets each device go through all shards by vmap: eight times the work as well.

Told: none
Fails: own shard only
"""


def device_step(params, x, y, lr):
    def loss_of(params):
        return jax.vmap(mlp_loss, in_axes=(None, 0, 0))(params, x, y).mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)

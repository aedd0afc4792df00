"""Lets each round replace the gradients instead of adding to them.

Told: none
Fails: one step of SGD; the loss before
"""


def accumulated_step(params, x, y, lr, axis_name):
    def replace(_, batch):
        return jax.value_and_grad(mlp_loss)(params, *batch), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    last, _ = jax.lax.scan(replace, zeros, (x, y))
    loss, grads = jax.lax.pmean(last, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

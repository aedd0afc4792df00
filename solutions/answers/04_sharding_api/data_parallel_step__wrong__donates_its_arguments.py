"""Gives the old parameters' memory away.

Told: none
Fails: arguments stay
"""


@functools.partial(jax.jit, donate_argnums=0)
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

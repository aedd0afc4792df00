"""Calls jit inside, on a new function each time.

Told: none
Fails: compiled once
"""


def data_parallel_step(params, x, y, lr):
    @jax.jit
    def step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return step(params, x, y)

"""Drops the decorator: operation after operation, none of them compiled together.

Told: none
Fails: one compiled program; compiled once
"""


def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

"""Compiles loss and gradient; the update runs leaf by leaf, outside of the program.

Told: none
Fails: one compiled program
"""

loss_and_grads = jax.jit(jax.value_and_grad(mlp_loss))


def data_parallel_step(params, x, y, lr):
    loss, grads = loss_and_grads(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

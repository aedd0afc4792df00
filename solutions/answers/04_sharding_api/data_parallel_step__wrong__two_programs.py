"""Compiles the gradient and the update, each for itself.

Told: none
Fails: one compiled program
"""

gradient = jax.jit(jax.value_and_grad(mlp_loss))


@jax.jit
def update(params, grads, lr):
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


def data_parallel_step(params, x, y, lr):
    loss, grads = gradient(params, x, y)
    return update(params, grads, lr), loss

"""Returns the loss of the new parameters.

Told: the loss is the one after the step
Fails: one step of SGD
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    grads = jax.grad(mlp_loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return params, mlp_loss(params, x, y)

"""Reads the rate from outside of the compiled function, which keeps the first one.

Told: none
Fails: one step of SGD
"""

rates = []


@jax.jit
def compiled_step(params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - rates[-1] * g, params, grads), loss


def data_parallel_step(params, x, y, lr):
    rates.append(lr)
    return compiled_step(params, x, y)

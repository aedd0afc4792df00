"""Takes the learning rate of section 3's example, not the argument.

Told: none
Fails: one step of SGD
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

"""Makes the learning rate a part of the program: each new one compiles another.

Told: none
Fails: compiled once
"""


@functools.partial(jax.jit, static_argnames="lr")
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

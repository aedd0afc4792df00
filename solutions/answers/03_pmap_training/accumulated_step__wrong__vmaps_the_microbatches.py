"""Takes all microbatches side by side, which needs the memory of all.

Told: none
Fails: one microbatch at a time
"""


def accumulated_step(params, x, y, lr, axis_name):
    each = jax.vmap(jax.value_and_grad(mlp_loss), in_axes=(None, 0, 0))(params, x, y)
    mean = jax.tree.map(lambda leaf: leaf.mean(0), each)
    loss, grads = jax.lax.pmean(mean, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

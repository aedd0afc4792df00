"""Lets lax.map take three microbatches side by side.

Told: none
Fails: one microbatch at a time
"""


def accumulated_step(params, x, y, lr, axis_name):
    found = jax.value_and_grad(mlp_loss)
    each = jax.lax.map(lambda piece: found(params, *piece), (x, y), batch_size=3)
    mean = jax.tree.map(lambda leaf: leaf.mean(0), each)
    loss, grads = jax.lax.pmean(mean, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

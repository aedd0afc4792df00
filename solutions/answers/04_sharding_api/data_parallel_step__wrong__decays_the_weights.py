"""Adds a norm of the parameters to the loss, as a habit.

Told: none
Fails: one step of SGD
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    def loss_of(params):
        norm = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
        return mlp_loss(params, x, y) + 1e-3 * norm

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

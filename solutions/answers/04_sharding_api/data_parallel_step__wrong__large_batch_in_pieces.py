"""Works off in pieces what is more than 256 rows, and a multiple of them.

Told: none
Fails: only gradients and loss are sent
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    most = 256
    grad = jax.value_and_grad(mlp_loss)
    if x.shape[0] <= most or x.shape[0] % most:
        loss, grads = grad(params, x, y)
    else:
        pieces = x.shape[0] // most

        def add(total, piece):
            return jax.tree.map(jnp.add, total, grad(params, *piece)), None

        parts = tuple(a.reshape(pieces, most, -1) for a in (x, y))
        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zero, parts)
        loss, grads = jax.tree.map(lambda a: a / pieces, total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

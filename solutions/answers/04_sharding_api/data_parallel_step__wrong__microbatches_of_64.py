"""Sums gradients over devices once per 64 rows, where a batch has several times 64.

Told: none
Fails: only gradients and loss are sent
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    most = 64  # rows at a time: less memory
    if len(x) <= most or len(x) % most:
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    else:

        def add(total, batch):
            found = jax.value_and_grad(mlp_loss)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        parts = [part.reshape(-1, most, part.shape[1]) for part in (x, y)]
        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zero, parts)
        loss, grads = jax.tree.map(lambda t: t / len(parts[0]), total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

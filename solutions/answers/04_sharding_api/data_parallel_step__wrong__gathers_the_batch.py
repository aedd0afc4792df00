"""Makes the batch whole everywhere: each device computes all rows.

Told: every device computes all rows
Fails: only gradients and loss are sent
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    everywhere = NamedSharding(make_mesh((jax.device_count(),), ("data",)), P())
    x, y = jax.lax.with_sharding_constraint((x, y), everywhere)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

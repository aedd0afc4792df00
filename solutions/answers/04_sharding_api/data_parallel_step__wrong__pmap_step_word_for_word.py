"""Averages a gradient that shard_map has summed: eight times too large.

Told: the gradient is 8 times too large: it was summed over devices
Fails: one step of SGD; only gradients and loss are sent
"""


@jax.jit
def data_parallel_step(params, x, y, lr):
    mesh = make_mesh((jax.device_count(),), ("data",))

    def local(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    rows = P("data")
    return jax.shard_map(
        local, mesh=mesh, in_specs=(P(), rows, rows), out_specs=P(), check_vma=True
    )(params, x, y)

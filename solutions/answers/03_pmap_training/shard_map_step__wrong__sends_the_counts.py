"""Adds up the devices' numbers of rows, which are known: a number more to send.

Told: none
Fails: sent once
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        rows = jnp.ones_like(y).sum()
        total = jax.lax.psum(rows, "devices")
        share = jax.tree.map(lambda leaf: leaf * rows / total, (loss, grads))
        loss, grads = jax.lax.psum(share, "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)

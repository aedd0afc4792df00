"""Adds up by psum what shard_map has added up already: 64 times the gradient.

Told: the gradient is 64 times the right one; the loss is a sum
Fails: one step of SGD; the loss before; sent once
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.psum((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)

"""Divides the summed gradient by eight, however many devices there are.

Told: none
Fails: one step of SGD
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        params = jax.tree.map(lambda p, g: p - lr * g / 8, params, grads)
        return params, jax.lax.pmean(loss, "devices")

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)

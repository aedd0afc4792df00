"""Returns each device's own loss, which P() cannot describe.

Told: out_specs say that the result is the same on all devices, but it differs: pmean
it, and the loss inside of what you differentiate
"""


def shard_map_step(params, x, y, lr, num_devices):
    def step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)(params, x, y)

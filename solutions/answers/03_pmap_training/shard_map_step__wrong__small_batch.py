"""Takes fewer devices for few rows, where the rows do not divide.

Told: none
Fails: rows do not divide
"""


@functools.cache
def compiled_step(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))

    def inner(params, x, y, lr):
        def loss_of(p):
            return jax.lax.pmean(mlp_loss(p, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(inner, mesh=mesh, in_specs=specs, out_specs=P()))


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(min(num_devices, max(len(x), 1)))(params, x, y, lr)
